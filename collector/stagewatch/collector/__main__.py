"""`python -m stagewatch.collector` is `stagewatch collector`: the same checks and messages."""

import sys

from stagewatch.core.cli import main

sys.exit(main(["collector", *sys.argv[1:]]))
