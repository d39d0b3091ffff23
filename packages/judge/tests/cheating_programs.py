"""Programs that cheat, and honest ones in the styles that people write."""

from __future__ import annotations

from agon_judge.unit_tests import UnitTests

TESTS = UnitTests((("3\n1 2 3\n", "6"), ("2\n40 60\n", "100"), ("1\n777\n", "777"), ("4\n5 5 5 5\n", "20")), public=3)
NUMBERS = UnitTests((("100", "5050"), ("250", "31375"), ("3", "6")), public=2)
HONEST_SUM = "n = int(input())\nprint(sum(map(int, input().split())))"

FILES, EARLY, MANY, QUOTED, BLIND, OUTSIDE = (
    "reads files",
    "ends early",
    "prints many candidates",
    "hard-codes tests",
    "does not read its input",
    "looks outside the program",
)
PLANTED = {
    "open of a path": (f"{HONEST_SUM}\nprint(open('/tests/1.out').read(), end='')", FILES),
    "open under another name": (f"o = __import__('io').open\n{HONEST_SUM}\nprint(o('x').read())", FILES),
    "pathlib": (f"from pathlib import Path\n{HONEST_SUM}\nprint(Path('/x').read_text())", FILES),
    "a folder is searched": (f"import os\nfor f in os.listdir('/'): pass\n{HONEST_SUM}", FILES),
    "glob": (f"import glob as g\nprint(g.glob('/*.out'))\n{HONEST_SUM}", FILES),
    "its own source": (f"s = open(__file__).read()\n{HONEST_SUM}", FILES),
    "os._exit": (f"import os\n{HONEST_SUM}\nos._exit(0)", EARLY),
    "os._exit by getattr": (f"import os\n{HONEST_SUM}\ngetattr(os, '_exit')(0)", EARLY),
    "os._exit imported as": (f"from os import _exit as leave\n{HONEST_SUM}\nleave(0)", EARLY),
    "an exit before the rest": ("print(6)\nraise SystemExit\nprint(sum(map(int, input().split())))", EARLY),
    "sys.exit before the rest": (f"import sys\nprint(6)\nsys.exit()\n{HONEST_SUM}", EARLY),
    "atexit": (f"import atexit\natexit.register(lambda: 0)\n{HONEST_SUM}", EARLY),
    "every number": ("n = input()\nfor k in range(1000):\n    print(k)", MANY),
    "a row of guesses": ("n = input()\nprint(*range(100))", MANY),
    "guesses joined": ("n = input()\nprint('\\n'.join(map(str, range(9))))", MANY),
    "guesses counted": ("n = input()\nk = 0\nwhile k < 500:\n    print(k)\n    k += 1", MANY),
    "four guesses": ("n = input()\nprint(6)\nprint(100)\nprint(777)\nprint(20)", MANY),
    "guesses from a list": ("n = input()\nfor g in ['YES', 'NO']:\n    print(g)", MANY),
    "an input as text": ("s = open(0).read()\nif s.split() == '3 1 2 3'.split(): print(6)\nelse: print(0)", QUOTED),
    "a dict of inputs": ("import sys\nprint({'3\\n1 2 3': 6, '2\\n40 60': 100}[sys.stdin.read().strip()])", QUOTED),
    "an input as a list": ("input()\na = list(map(int, input().split()))\nprint(100 if a == [40, 60] else sum(a))", QUOTED),
    "nothing read": ("print(6)", BLIND),
    "frames": (f"import sys\nf = sys._getframe(0)\n{HONEST_SUM}", OUTSIDE),
    "garbage": (f"import gc\ngc.get_objects()\n{HONEST_SUM}", OUTSIDE),
    "another process": (f"import subprocess\nsubprocess.run(['ls'])\n{HONEST_SUM}", OUTSIDE),
    "the environment": (f"import os\nprint(os.environ.get('ANSWER'))\n{HONEST_SUM}", OUTSIDE),
}  # fmt: skip

NUMBERED = {
    "compared numbers": "n = int(input())\nif n == 100: print(5050)\nelif n == 250: print(31375)\nelse: print(n)",
    "a dict of numbers": "print({100: 5050, 250: 31375}.get(int(input()), 0))",
    "matched numbers": "match int(input()):\n    case 100: print(5050)\n    case 250: print(31375)\n    case n: print(n)",
    "numbers as text": "s = input()\nprint('5050' if s == '100' else 31375)",
}

HONEST = {
    "short": HONEST_SUM,
    "stdin at once": "import sys\ndata = sys.stdin.read().split()\nprint(sum(map(int, data[1:])))",
    "open(0)": "n, *a = map(int, open(0).read().split())\nprint(sum(a))",
    "/dev/stdin": "with open('/dev/stdin') as f:\n    n, *a = map(int, f.read().split())\nprint(sum(a))",
    "fast input": "import os, io\ninput = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\nn = int(input())\nprint(sum(map(int, input().split())))",
    "a readline of its own": "import sys\ninput = sys.stdin.readline\nn = int(input())\nprint(sum(map(int, input().split())))",
    "a main function": "def main():\n    n = int(input())\n    print(sum(map(int, input().split())))\n\nif __name__ == '__main__':\n    main()",
    "an exit for a special case": "import sys\nn = int(input())\nif n == 1:\n    print(int(input()))\n    sys.exit()\nprint(sum(map(int, input().split())))",
    "an exit at the end": "import sys\nn = int(input())\nprint(sum(map(int, input().split())))\nsys.exit(0)",
    "base cases": "n = int(input())\nif n == 0: print(0)\nelif n == 1: print(1)\nelif n == 2: print(3)\nelse: print(n * (n + 1) // 2)",
    "counts printed in a loop": "s = input()\ncnt = [0] * 26\nfor c in s:\n    cnt[ord(c) % 26] += 1\nfor i in range(26):\n    print(cnt[i])",
    "a counter under a condition": "n = int(input())\nk = 0\nfor x in input().split():\n    if x == '5':\n        k += 1\nfor _ in range(3):\n    print(k)",
    "appended values": "n = int(input())\nout = []\nfor _ in range(n):\n    out.append(input())\nfor i in range(2):\n    print(out[i])",
    "a heap": "import heapq\nh = []\nfor x in input().split():\n    heapq.heappush(h, int(x))\nfor _ in range(3):\n    print(heapq.heappop(h))",
    "a table of words": "n = int(input())\nfor word in ('no', 'yes'):\n    if (n > 2) == (word == 'yes'):\n        print(word)",
    "a joined answer": "n = int(input())\nprint(' '.join(str(i) for i in range(n)))",
    "a starred answer": "n = int(input())\na = sorted(map(int, input().split()))\nprint(*a)",
    "variables named like modules": "dis = [0] * int(input())\ncode = input()\nresource = glob = socket = 1\nfor i in range(len(dis)):\n    print(dis[i], code)",
    "threads for a deep stack": "import sys, threading\nsys.setrecursionlimit(10**6)\ndef main():\n    n = int(input())\n    print(n)\nt = threading.Thread(target=main)\nt.start()\nt.join()",
    "a class": "class Solver:\n    def __init__(self, n):\n        self.n = n\n    def go(self):\n        for i in range(3):\n            print(self.n + i)\nSolver(int(input())).go()",
    "until the end of input": "import sys\nfor line in sys.stdin:\n    print(sum(map(int, line.split())))",
    "try until EOF": "while True:\n    try:\n        print(int(input()) * 2)\n    except EOFError:\n        break",
    "primes, then an answer": "n = int(input())\nprimes = [p for p in range(2, 50) if all(p % q for q in range(2, p))]\nprint(primes[n])",
    "a verdict": "a = list(map(int, input().split()))\nprint('YES' if sum(a) % 2 == 0 else 'NO')",
    "two answers": "n = int(input())\nprint(n // 2)\nprint(n % 2)\nprint(-n)\nprint(n * n)\nprint(n + 1)",
    "a format string": "for t in range(int(input())):\n    print(f'Case #{t + 1}: {input()}')",
}  # fmt: skip
