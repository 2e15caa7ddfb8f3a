"""Writes docs/openapi.json from the application; `make openapi` runs it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from stagewatch.api.app import build_app
from stagewatch.core.run import build_context
from stagewatch.core.settings import load_settings


def main() -> None:
    """Write the description."""
    with tempfile.TemporaryDirectory() as folder, Path("/dev/null").open("w") as nowhere:
        context = build_context(load_settings({"STAGEWATCH_DATA_DIR": folder}), nowhere)
        body = build_app(context).openapi()
        context.store.close()
    Path("docs/openapi.json").write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
