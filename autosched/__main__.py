"""``python -m autosched``."""

import sys

from autosched.cli import main

sys.exit(main())
