"""Logging: a constant message plus fields, one line each; never the content of traces."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {k: v for k, v in vars(record).items() if k not in _STANDARD}


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{k}={v}" for k, v in _fields(record).items())
        at = self.formatTime(record, "%H:%M:%S")
        line = f"{at} {record.levelname.lower():7} {record.getMessage()}"
        line = f"{line}  {fields}" if fields else line
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def setup_logging(*, level: str = "info", as_json: bool = False) -> None:
    """Send the `stagewatch` loggers to stderr. `level` is debug, info, warning or error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _TextFormatter())
    root = logging.getLogger("stagewatch")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
    # What libraries have to say of a stranger's bad request is said by us, in our own form.
    for name in ("uvicorn", "python_multipart", "asyncio", "apscheduler", "clickhouse_connect"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
