"""``python -m autosched``."""

import sys

try:
    from autosched.cli import main
except KeyboardInterrupt:
    sys.exit(130)

sys.exit(main())
