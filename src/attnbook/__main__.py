"""`python -m attnbook`, and so `torchrun -m attnbook`: the command of that name."""

import os
import sys

from attnbook.cli import main

if __name__ == "__main__":
    code = main()
    if "RANK" in os.environ:  # torchrun's: not torn down, for gloo's threads can wait for ever then
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)
