"""`python -m kbn` is the `kbn` command."""

from __future__ import annotations

import sys

from kbn.cli import main

if __name__ == "__main__":
    sys.exit(main())
