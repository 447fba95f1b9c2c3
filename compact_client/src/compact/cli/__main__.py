"""`python -m compact.cli` is `compactctl`."""

import sys

from compact.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
