"""`python -m agon_judge` is `agon-judge`."""

import sys

from agon_judge.cli import main

sys.exit(main())
