"""Answers that must be paid, as tables: a line is `answer` (the gold is 42) or `gold ;; answer`."""

from __future__ import annotations

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
2\sqrt{3} ;; 2\sqrt[2]{3}
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
5 ;; 5 eggs per day
5 ;; 5 m/s
5 ;; \text{5 cm}
\frac{3}{4} ;; {3 \over 4}
\frac{16}{5} ;; 3 1/5
\frac{1}{3} ;; 0.\bar{3}
\frac{1}{3} ;; 0.333...
\frac{20000}{\pi} ;; \frac{20,000}{\pi}
20000\pi ;; 20,000\pi
\frac{11+9a}{20} ;; \frac{1}{20}(11+9a)
.0000672 ;; 6.72 × 10^-5
\$32,\!348 ;; USD 32,348
5.4 \text{ cents} ;; 5.4¢
15\mbox{ cm}^2 ;; 15\ \mathrm{cm^2}
\sqrt{51} ;; √51
\sqrt{51} ;; 51^{1/2}
\sqrt{51} ;; \sqrt{51} cm
12\pi ;; 12\pi square units
6 - 5i ;; 6 - 5 i
6 - 5i ;; 6-5\mathrm{i}
5r^5 ;; r^5 \cdot 5
y = -2x ;; 2x+y=0
(-1,6) ;; x=-1, y=6
(-1,6) ;; y = 6 and x = -1
(6,31,-1) ;; \begin{pmatrix}6\\31\\-1\end{pmatrix}
\begin{pmatrix} -7 \\ 16 \end{pmatrix} ;; \left(\begin{array}{c}-7\\16\end{array}\right)
(3,4] ;; \{x | 3 < x \le 4\}
x > 2 ;; (2,\infty)
(-\infty, 2) \cup (3, \infty) ;; x<2 \text{ or } x>3
204_5 ;; (204)_5
204_5 ;; 204_{\text{five}}
204_5 ;; 204 \text{ (base 5)}
\text{(B)} ;; Option B
\text{Evelyn} ;; "Evelyn"
\text{ellipse} ;; an ellipse
\text{12:30 PM} ;; 12:30 p.m.
e^2 ;; \exp(2)
\ln 2 ;; \log_e 2
\log_2 3 ;; \log_{2}(3)
\log_2 3 ;; \frac{\ln 3}{\ln 2}
\emptyset ;; \varnothing
\emptyset ;; \{\}
3:2 ;; 3 to 2
2^{10}\cdot 3 ;; 3\cdot2^{10}
2^{10}\cdot 3 ;; 3 \times 2^10
\text{(B)} ;; b
"""
QUESTIONS_PAID = (
    ("What percent of 50 is 21?", "42", r"42\%"),
    ("What percent of 50 is 21?", "42", "42 percent"),
    (r"Is it $\frac{3}{4}$ or $\frac{2}{3}$?", r"\frac{3}{4}", r"\frac{3}{4}"),
    (r"Expand $(x+1)^2$.", "x^2+2x+1", "1+x^2+2x"),
    (r"Let $f(x)=x^2+1$. What is $f(x)+2x$?", "(x+1)^2", "x^2+2x+1"),
    (r"Factor $ab+5b+2a+10$.", "(a+5)(b+2)", "(b+2)(5+a)"),
    ("How many sheep are left?", "42", "42 sheep"),
    (r"Simplify $19x+1-4x-81$.", "15x-80", "5(3x-16)"),
    (r"Factor $x^2+2x+1$.", "(x+1)^2", "(x+1)(x+1)"),
    (r"Write $\frac{4+6a}{5}-\frac{1+3a}{4}$ as one fraction.", r"\frac{11+9a}{20}", r"\frac{9}{20}a+\frac{11}{20}"),
    (r"Simplify $\frac{\sec x}{\sin x} - \frac{\sin x}{\cos x}$.", r"\cot x", r"\frac{\cos x}{\sin x}"),
    (r"What is $\frac12+\frac14$?", r"\frac34", r"\frac68"),
    ("For a constant $c$, find the shape of $r=c$.", r"\text{(C)}", "C"),
    ("For a constant $c$, find the shape of $r=c$.", r"\text{(C)}", "option c"),
    ("In triangle $ABC$, which side is longest?", r"\text{(C)}", "C"),
)
