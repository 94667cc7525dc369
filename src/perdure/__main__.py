"""`python -m perdure`, where the script `perdure` is not on the path."""

import sys

from perdure.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
