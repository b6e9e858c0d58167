"""`python -m attnlabs`: the command of that name."""

import sys

from attnlabs.cli import main

if __name__ == "__main__":
    sys.exit(main())
