"""Answers whose verdict is known, as tables: a line is `answer` (the gold is 42) or `gold ;; answer`."""

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
"""
PAID_FOR_42 = r"""
42
 42
42.
42.0
42.00
+42
$42$
\(42\)
\[42\]
$$42$$
**42**
(42)
\{42\}
x=42
x = 42
n=42
y=42
f(x)=42
AB=42
42_{10}
42 apples
42 \text{ cm}
42\text{ square units}
42^\circ
\$42
$42
42 dollars
\text{42}
\mathrm{42}
\mathbf{42}
\left(42\right)
4.2\times 10^{1}
4.2 \cdot 10^1
42,
"""
PAID_PAIRS = r"""
\frac{3}{4} ;; 3/4
\frac{3}{4} ;; 0.75
\frac{3}{4} ;; .75
\frac{3}{4} ;; \dfrac34
\frac{3}{4} ;; \frac{6}{8}
\frac{1}{3} ;; 0.333333
\frac{1}{3} ;; 0.\overline{3}
0.75 ;; \frac{3}{4}
0.75 ;; 75/100
1\frac{4}{5} ;; 1.8
1\frac{4}{5} ;; \frac{9}{5}
2\sqrt{3} ;; \sqrt{12}
2\sqrt{3} ;; 2 \cdot \sqrt{3}
2\sqrt{3} ;; 2*sqrt(3)
2\sqrt{3} ;; 2√3
2\sqrt{3} ;; 3.464102
\frac{\sqrt{3}}{3} ;; \frac{1}{\sqrt{3}}
\frac{\sqrt{3}}{3} ;; \sqrt3/3
11\pi ;; 11 \pi
11\pi ;; 11π
11\pi ;; 11pi
11\pi ;; \pi \cdot 11
18+2\pi ;; 2\pi+18
18+2\pi ;; 2(9+\pi)
x^2+1 ;; 1 + x^{2}
x^2+2x+1 ;; (x+1)^2
x^3+3x-6 ;; x^3 + 3x - 6
(a+5)(b+2) ;; (b+2)(a+5)
6r^2-4r-24 ;; -24 - 4r + 6r^2
\frac{11+9a}{20} ;; \frac{9a+11}{20}
\frac{11+9a}{20} ;; (11+9a)/20
1+2i ;; 2i + 1
6 - 5i ;; -5i+6
y = 2x + 3 ;; 2x+3
y = 2x + 3 ;; y=3+2x
y = 2x + 3 ;; y - 2x = 3
5x - 7y + 11z + 4 = 0 ;; 5x-7y+11z=-4
x=5 ;; 5
x=5 ;; x = 5.0
(3,4] ;; (3, 4]
(3,4] ;; \left(3,4\right]
(2,\infty) ;; (2, \infty)
(2,\infty) ;; x>2
(2,\infty) ;; x \in (2,\infty)
[-2,7] ;; -2 \le x \le 7
x \in [-2,7] ;; [-2,7]
(0,9) \cup (9,36) ;; (0, 9)\cup(9, 36)
(-\infty, 2) \cup (3, \infty) ;; (3,\infty) \cup (-\infty,2)
3, 5, 7 ;; 7, 5, 3
3, 5, 7 ;; \{3,5,7\}
3, 5, 7 ;; 3,5,7
3, 5, 7 ;; 3, 5 and 7
-2,1 ;; x = -2, x = 1
-2,1 ;; x=1 \text{ or } x=-2
1 \pm \sqrt{19} ;; 1-\sqrt{19}, 1+\sqrt{19}
1-\sqrt{19}, 1+\sqrt{19} ;; 1 \pm \sqrt{19}
\{1\pm\sqrt{5},-2\} ;; -2, 1+\sqrt5, 1-\sqrt5
(2,4) ;; (2, 4)
(2,4) ;; (x,y)=(2,4)
(6,31,-1) ;; \langle 6, 31, -1 \rangle
\left( 3, \frac{\pi}{2} \right) ;; (3, \pi/2)
58,500 ;; 58500
58500 ;; 58,500
58500 ;; 58{,}500
58500 ;; 58\,500
11,\! 111,\! 111,\! 100 ;; 11111111100
\$32,\!348 ;; 32348
\$32,\!348 ;; $32,348
\$18.90 ;; 18.9
\$18.90 ;; 18.90 dollars
.0000672 ;; 6.72\times10^{-5}
90^\circ ;; 90
90^\circ ;; 90 degrees
90^\circ ;; 90^{\circ}
15\mbox{ cm}^2 ;; 15
15\mbox{ cm}^2 ;; 15 \text{ square centimeters}
5.4 \text{ cents} ;; 5.4
\frac{270}7\text{ degrees} ;; \frac{270}{7}
40_9 ;; 40_{9}
40_9 ;; 40
\text{(C)} ;; C
\text{(C)} ;; (C)
\text{(C)} ;; \text{C}
\text{ellipse} ;; ellipse
\text{Evelyn} ;; \text{evelyn}
\cot x ;; \frac{\cos x}{\sin x}
\cot x ;; \cot(x)
\begin{pmatrix} -7 \\ 16 \\ 5 \end{pmatrix} ;; \begin{bmatrix}-7\\16\\5\end{bmatrix}
\begin{pmatrix} 1/5 \\ -18/5 \end{pmatrix} ;; \begin{pmatrix} \frac15 \\ -\frac{18}{5} \end{pmatrix}
25\% ;; 25
\ln 2 ;; \ln(2)
e^{2} ;; e^2
2^{100} ;; 4^{50}
\infty ;; inf
\mathbb{R} ;; (-\infty,\infty)
\frac{1}{e} ;; e^{-1}
n! ;; n!
\binom{n}{2} ;; \frac{n(n-1)}{2}
p - q ;; -q + p
3R^2 ;; 3 R^{2}
-\sqrt{3} ;; -1.732051
5 ;; 5cm
5 ;; 5 \text{ N}
"""
QUESTIONS_FORBIDDEN = (
    (r"Expand $(x+1)^2$.", "x^2+2x+1", "(x+1)^2"),
    (r"Factor $ab+2a+5b+10$.", "(a+5)(b+2)", "ab+2a+5b+10"),
    (r"Simplify $\frac{6}{8}$.", r"\frac{3}{4}", r"\frac{6}{8}"),
    (r"Compute \(\sqrt{8}\cdot\sqrt{3}\).", r"2\sqrt{6}", r"\sqrt{8}\cdot\sqrt{3}"),
    ("What percent of 50 is 21?", "42", r"4200\%"),
    ("What percent of 50 is 21?", "42", "0.42"),
    ("Find the sum.", r"\frac{1}{2}", r"50\%"),
)
QUESTIONS_PAID = (
    ("What percent of 50 is 21?", "42", r"42\%"),
    ("What percent of 50 is 21?", "42", "42 percent"),
    (r"Is it $\frac{3}{4}$ or $\frac{2}{3}$?", r"\frac{3}{4}", r"\frac{3}{4}"),
)
