"""`python -m compact.cli` is `compactctl`."""

import sys

from compact.cli.main import main

sys.exit(main())
