"""`python -m stagewatch` is the `stagewatch` command."""

import sys

from stagewatch.core.cli import main

sys.exit(main())
