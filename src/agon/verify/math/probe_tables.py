"""Answers that must not be paid, as tables: a line is `answer` (the gold is 42) or `gold ;; answer`."""

from __future__ import annotations

FORBIDDEN_FOR_42 = r"""
6\cdot7
6 \times 7
6*7
(6)(7)
6(7)
40+2
43-1
84/2
\frac{84}{2}
\frac{42!}{41!}
\frac{100!}{98!}
\sqrt{1764}
42^1
42^{1}
|-42|
--42
-(-42)
\lfloor 42.5 \rfloor
\int_0^{42} 1\,dx
\sum_{i=1}^{42} 1
\lim_{x\to 42} x
\det\begin{pmatrix}6&0\\0&7\end{pmatrix}
\begin{vmatrix}6&0\\0&7\end{vmatrix}
\binom{42}{1}
{42 \choose 1}
(7)_{2}
42 \bmod 100
\gcd(42,84)
\max(41,42)
e^{\ln 42}
42\cos 0
42\sin\frac{\pi}{2}
\log_{2}(2^{42})
42x^0
42e^0
42 + x - x
\frac{42x}{x}
42 \cdot 1
41=42
42=41
42=42
x=41+1
x=y=42
6\cdot 7=42
42\%
4200\%
42 percent
42,42
41,42
41, 42
41 or 42
41 \text{ or } 42
42 or 42
\{41,42\}
(41,42)
[41,42]
[42,42]
42\pm 0
42 \pm 1
\pm 42
x > 41
x \ge 42
\approx 42
x \ne 42
x\in\{42\} \cup \{41\}
4 2
4\text{2}
42_{7}
0x2A
0b101010
4.2e1
4,2
42!
42i
42 million
42yx
42 xy
42frac
42\text{ x}
42\text{ or so}
42 hundred
42 dozen
42...
41.9999999
42.0000001
42'
\overline{42}
\cancel{41}42
\phantom{41}42
\color{red}{42}
42 % 41
42\\41
42 & 41
The answer is 42
forty-two
XLII
6^2+6
\frac{126}{3}
2\sqrt{441}
42.5-0.5
-42
all reals
\mathbb{R}
\infty
nan
1e400
{42
42}
\boxed{42
()
\operatorname{lcm}(6,7)
7 \cdot 6
42^{x-x}
42+0i
\frac{d}{dx} 42x
f(42)
42 squared
42 doubled
42 inverse
42 five
42 tens
42 divided by two
42 point five
42 per cent
42 pct
42 kilo
42\text{ less seven}
42\text{ base nine}
42+0
42/1
42x^1
49^{1/2}
\frac{\ln 128}{\ln 2}
\{42\} \cup \emptyset
"""
STRANGE_FOR_42 = (
    "\uff14\uff12",
    "\u0664\u0662",
    "4\u200b2",
    "42\u200b",
    "\u202e42",
    "4\u20602",
    "\u00b9",
    "\u2163",
    "$",
)
FORBIDDEN_PAIRS = r"""
(1,2) ;; \{1,2\}
(1,2) ;; [1,2]
(1,2) ;; 1,2
(1,2) ;; (2,1)
(8,-2) ;; (5,1)
[1,2] ;; (1,2)
[1,2] ;; \{1,2\}
(3,4] ;; [3,4)
\{1,2\} ;; (1,2)
\{1,2\} ;; \{1,2,2\}
\{1,2\} ;; \{1,1,2\}
\{1,2\} ;; 1
1,-2 ;; (1,-2)
3, 5, 7 ;; 3,5
3, 5, 7 ;; 3,5,7,9
3R^2 ;; 3r^2
3d ;; 3
\frac{1}{2}h ;; \frac{1}{2}
-\frac{3}{8} ;; -\frac{3}{8}1
40_9 ;; 40_7
40_9 ;; 36
\text{east} ;; \text{seat}
\text{ellipse} ;; \text{circle}
\text{(C)} ;; \text{(B)}
\text{(C)} ;; A, B, C
x=5 ;; y=5
x=5 ;; 2x=10
y = -2x ;; x=-2x
5x - 7y + 11z + 4 = 0 ;; 0=0
5x - 7y + 11z + 4 = 0 ;; 1=1
.0000672 ;; .0000671
\frac{1}{3} ;; 0.33
\pi ;; 3.14
\pi ;; \frac{22}{7}
0 ;; 0x2A
0 ;; 0\cdot x
0 ;; x - x
25\% ;; 0.25
25\% ;; 2500\%
15\mbox{ cm}^2 ;; 15 \text{ cm}
90^\circ ;; 90 \text{ radians}
5.4 \text{ cents} ;; 5.4 dollars
12:30 ;; 6:15
12:30 ;; 2/5
2k ;; k+k
2k+2 ;; 2k+2+x-x
\frac12 ;; \int_0^1 x\,dx
\frac12 ;; \sin 30^\circ
\frac{1}{2} ;; \frac{1}{2}\%
1+2\sqrt{3} ;; 1-2\sqrt{3}
e^{2} ;; e^{3}
(2,\infty) ;; x \ge 2
1 \pm \sqrt{19} ;; 1+\sqrt{19}
1 \pm \sqrt{19} ;; 1\pm\sqrt{19}\pm 0
2\sqrt{5} ;; √52
2\sqrt{5} ;; sqrt 52
\frac{1}{2} ;; 0.5000005
\frac{1}{2} ;; 1/2 squared
\pi ;; 3.14159
\pi ;; \pi^1
\frac{3}{4} ;; \frac{1}{2}\cdot\frac{3}{2}
\frac{3}{4} ;; \frac{3\cdot\frac{3}{4}}{3}
|z|^2+i ;; z^2+i
1.25 ;; \frac{2(\frac{1}{2})}{2}
\frac{5}{2} ;; 2(\frac{1}{2})
y = 2x + 3 ;; y=2x+3+y-y
y = -2x ;; y=-x-x
x^3+3x-6 ;; x^3+3x-6+0x
2k ;; k2
\infty ;; \infty\cdot 2
(3,4] ;; 3<x\le4\le 5
(3,4] ;; 3<x<4
x > 2 ;; y > 2
(-\infty, 2) \cup (3, \infty) ;; (-\infty,2)\cup(3,\infty)\cup\{5\}
(-\infty, 2) \cup (3, \infty) ;; x\le 2 or x>3
-2,1 ;; x=-2,y=1
(-1,6) ;; x=6, y=-1
58,500 ;; 58, 500
106^\circ ;; 106 degrees Celsius
\emptyset ;; \{\emptyset\}
\begin{pmatrix} 1 \\ 2 \end{pmatrix} ;; \begin{pmatrix} 1 & 2 \end{pmatrix}
204_5 ;; 204 base 6
\text{(D)} ;; A D
\text{(E)} ;; e
2^{10} ;; 2^{9}\cdot 2
"""
WRAPPED = (
    "%s",
    "(%s)",
    "[%s]",
    "{%s}",
    "{{%s}}",
    "x=%s",
    "f(x)=%s",
    r"\frac{%s}{1}",
    "%s+0",
    "1(%s)",
    r"%s\text{ units}",
)
QUESTIONS_FORBIDDEN = (
    (r"Expand $(x+1)^2$.", "x^2+2x+1", "(x+1)^2"),
    (r"Factor $ab+2a+5b+10$.", "(a+5)(b+2)", "ab+2a+5b+10"),
    (r"Simplify $\frac{6}{8}$.", r"\frac{3}{4}", r"\frac{6}{8}"),
    (r"Compute \(\sqrt{8}\cdot\sqrt{3}\).", r"2\sqrt{6}", r"\sqrt{8}\cdot\sqrt{3}"),
    ("What percent of 50 is 21?", "42", r"4200\%"),
    ("What percent of 50 is 21?", "42", "0.42"),
    ("Find the sum.", r"\frac{1}{2}", r"50\%"),
    (r"Write $0.75$ as a fraction.", r"\frac{3}{4}", "0.75"),
    *(
        (r"Simplify $\frac{(10r^3)(4r^6)}{8r^4}$.", "5r^5", wrapped % r"\frac{(10r^3)(4r^6)}{8r^4}")
        for wrapped in WRAPPED
    ),
    *((r"Factor $ab+5b+2a+10$.", "(a+5)(b+2)", wrapped % "ab+5b+2a+10") for wrapped in WRAPPED),
    *((r"Evaluate $(1+2i)6-3i$.", "6+9i", wrapped % "(1+2i)6-3i") for wrapped in WRAPPED),
    ("For a constant $c$, find the shape of $r=c$.", r"\text{(C)}", "c"),
    (r"Simplify $(-k + 4) + (-2 + 3k)$.", "2k+2", "[-k + 4] + [-2 + 3k]"),
    (r"Simplify $(-k + 4) + (-2 + 3k)$.", "2k+2", "(3k-2)+(4-k)"),
    *((r"Simplify $19x+1-4x-81$.", "15x-80", a) for a in ("(20-1)x+1-4x-81", "20x+2-5x-82", "19x-4x-80", "15x+1-81")),
    *((r"Evaluate $(1+2i)6-3i$.", "6+9i", a) for a in ("(1+2i)(7-1)-3i", "6+12i-3i")),
    *((r"Factor $ab+5b+2a+10$.", "(a+5)(b+2)", a) for a in ("a(b+2)+5b+10", "a(b+2)+5(b+2)")),
    *((r"Simplify $r^2 \cdot r^2$.", "r^4", a) for a in ("rrrr", "r^3r", "(r^2)^2")),
    (r"Simplify $\frac{(10r^3)(4r^6)}{8r^4}$.", "5r^5", r"\frac{(10rrr)(4r^6)}{8r^4}"),
    (r"Simplify $\frac{18}{24}$.", r"\frac{3}{4}", r"\frac{36}{48}"),
    (r"Expand $(x+1)^2$.", "x^2+2x+1", "x(x+1)+x+1"),
    (r"Expand $(x+1)^2$.", "x^2+2x+1", "(x+1)(x+1)"),
    (r"Let $f(x) = (x+1)^2$. Expand it.", "x^2+2x+1", "(1+x)^2"),
)
