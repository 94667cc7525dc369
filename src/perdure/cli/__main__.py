"""`python -m perdure.cli`, where the script `perdure` is not on the path."""

import sys

from perdure.cli.commands import main

sys.exit(main())
