"""`python -m ragtrace`."""

import sys

from ragtrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
