// Elements and numbers. Text from a model only ever becomes a text node.

const byId = (id) => document.getElementById(id);

function h(tag, options, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(options || {})) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const count = (n) => n.toLocaleString("en");
const percent = (part, whole) => (whole ? `${(100 * part / whole).toFixed(1)}%` : "–");
const number = (x) => (x === null ? "–" : Number(x.toFixed(2)).toString());
const signed = (x) => (x > 0 ? "+" : x < 0 ? "−" : "±") + Math.abs(x).toFixed(2);
const capital = (policy) => (policy.length === 1 ? policy.toUpperCase() : policy);

async function inflate(id) {
  const raw = atob(byId(id).textContent);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
