"""`python -m ibi` is the command `ibi`."""

import sys

from ibi.cli import main

if __name__ == "__main__":
    sys.exit(main())
