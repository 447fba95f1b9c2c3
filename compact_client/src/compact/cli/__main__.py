"""Run `compactctl` as `python -m compact.cli`."""

import sys

from compact.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
