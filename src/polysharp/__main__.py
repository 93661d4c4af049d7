"""``python -m polysharp`` is the command ``polysharp``."""

import sys

from polysharp.cli import main

if __name__ == "__main__":
    sys.exit(main())
