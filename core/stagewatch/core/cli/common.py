"""What the verbs share: options that override settings, and output as text or JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stagewatch.core.settings import Settings

_OPTIONS: Mapping[str, str] = {
    "data_dir": "STAGEWATCH_DATA_DIR",
    "host": "STAGEWATCH_HOST",
    "port": "STAGEWATCH_PORT",
    "otlp_grpc_port": "STAGEWATCH_OTLP_GRPC_PORT",
    "otlp_http_port": "STAGEWATCH_OTLP_HTTP_PORT",
    "clickhouse_url": "STAGEWATCH_CLICKHOUSE_URL",
    "log_level": "STAGEWATCH_LOG_LEVEL",
}


def add_settings_options(parser: argparse.ArgumentParser, *, ports: bool = False) -> None:
    """Add --config, --data-dir and so on; each wins over its environment variable."""
    # A group of its own: a command's help begins with what only that command has.
    group = parser.add_argument_group("settings")
    group.add_argument("--config", type=Path, help="TOML file of settings")
    group.add_argument(
        "--data-dir",
        help="folder of the embedded engine (STAGEWATCH_DATA_DIR; default .stagewatch)",
    )
    group.add_argument("--clickhouse-url", help="use a ClickHouse server instead")
    group.add_argument("--log-level", help="debug, info, warning or error")
    if ports:
        parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
        parser.add_argument("--port", help="API and UI (default 8600)")
        parser.add_argument("--otlp-grpc-port", help="OTLP gRPC (default 4317)")
        parser.add_argument("--otlp-http-port", help="OTLP HTTP (default 4318)")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Settings from environment, file and this command's options; logging is set up too."""
    from stagewatch.core.logs import setup_logging
    from stagewatch.core.settings import load_settings

    environ = dict(os.environ)
    for option, name in _OPTIONS.items():
        value = getattr(arguments, option, None)
        if value is not None:
            environ[name] = str(value)
    settings = load_settings(environ, getattr(arguments, "config", None))
    setup_logging(level=settings.log_level, as_json=settings.log_json)
    return settings


def emit(arguments: argparse.Namespace, value: object, text: str) -> None:
    """Print `value` as JSON with --json, else `text`."""
    if getattr(arguments, "json", False):
        json.dump(value, sys.stdout, ensure_ascii=False, indent=1, default=str)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], width: int = 44) -> str:
    """Rows as aligned text; long cells are cut with an ellipsis, control characters shown as '·'.

    Terminals act on control characters, and the cells are trace content.
    """

    def cell(value: object) -> str:
        text = "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
        text = "".join(ch if ch.isprintable() else "·" for ch in text)
        return text if len(text) <= width else text[: width - 1] + "…"

    cells = [list(columns)] + [[cell(row.get(name)) for name in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join(
        "  ".join(part.ljust(size) for part, size in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def printable(text: str) -> str:
    """`text` with control characters (other than line breaks and tabs) shown as '·'."""
    return "".join(ch if ch.isprintable() or ch in "\n\t" else "·" for ch in text)
