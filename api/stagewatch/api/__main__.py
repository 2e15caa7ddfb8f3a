"""`python -m stagewatch.api` is `stagewatch api`: the same checks and messages."""

import sys

from stagewatch.core.cli import main

sys.exit(main(["api", *sys.argv[1:]]))
