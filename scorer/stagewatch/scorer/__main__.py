"""`python -m stagewatch.scorer` is `stagewatch scorer`: the same checks and messages."""

import sys

from stagewatch.core.cli import main

sys.exit(main(["scorer", *sys.argv[1:]]))
