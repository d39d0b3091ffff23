"""`python -m agon_lens` is `agon-lens`."""

import sys

from agon_lens.cli import main

sys.exit(main())
