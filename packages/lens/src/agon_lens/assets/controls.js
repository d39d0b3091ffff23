// What every page has: chips that filter, light and dark, keys.

function makeChips(kind, names, flip) {
  byId(kind).replaceChildren(...names.map((name) => h("button", { type: "button", value: name, class: `chip ${name.replace(" ", "-")}`, onclick: () => flip(name) }, name, h("b", {}, ""))));
}

function showChips(kind, counts, chosen) {
  [...byId(kind).children].forEach((chip, k) => {
    chip.setAttribute("aria-pressed", String(chosen.has(chip.value)));
    chip.classList.toggle("none", !counts[k]);
    chip.lastChild.textContent = count(counts[k]);
  });
}

function flipIn(chosen, name) {
  if (!chosen.delete(name)) chosen.add(name);
}

function listenToTheme(changed) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const set = (wanted) => { document.documentElement.dataset.theme = wanted; changed(); };
  const system = () => set(dark.matches ? "dark" : "light");
  system();
  dark.addEventListener("change", system);
  byId("theme").addEventListener("click", () => set(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

function listenToKeys(keys, ready) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const typing = event.target.id === "search", arrows = event.key.startsWith("Arrow");
    if (typing && event.key !== "Escape") return;
    if (arrows && (event.target.type === "range" || byId("bout").contains(event.target))) return;
    const act = keys[event.key];
    if (act && ready()) { event.preventDefault(); act(); }
  });
}

// One column for each step: a share above the line and, where there is one, another below it.
function drawSpark(steps, chosen, shares) {
  const canvas = byId("spark"), ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = 34;
  if (!width) return;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const [good, bad, line] = ["--good", "--bad", "--line"].map((name) => style.getPropertyValue(name));
  pen.scale(ratio, ratio);
  const column = width / steps.length;
  steps.forEach((step, k) => {
    const x = k * column, w = Math.max(.75, column - (column > 4 ? 1 : 0)), [up, down] = shares(k);
    pen.globalAlpha = chosen === null || chosen === step ? 1 : .28;
    pen.fillStyle = good;
    pen.fillRect(x, 20 - Math.min(20, up), w, Math.min(20, up));
    pen.fillStyle = bad;
    pen.fillRect(x, 21, w, Math.min(13, down));
    pen.fillStyle = line;
    pen.fillRect(x, 20, column, 1);
  });
}
