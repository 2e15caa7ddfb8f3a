"""What `stagewatch probes …` does. Results go to stdout, what happens to stderr."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stagewatch.core.cli.common import emit, printable, settings_of, table
from stagewatch.core.cli.link import Link
from stagewatch.core.clock import SystemClock
from stagewatch.core.codec import from_json, to_plain
from stagewatch.core.errors import ConflictError, InvalidInputError
from stagewatch.core.store.probes import pass_row_bodies
from stagewatch.scorer.plans.local import temporary_store
from stagewatch.scorer.plans.rows_file import read_rows_path
from stagewatch.scorer.probes.ask import ProbeResult
from stagewatch.scorer.probes.passes import Surroundings, run_pass
from stagewatch.scorer.probes.probe import Probe, load_probe, probe_body

_POLL_S = 0.5
_PATIENCE_S = 120.0
_SHOWN = ("retrieved_recall", "first_relevant_rank", "rewrite_gain", "answer_precision")


def list_command(arguments: argparse.Namespace) -> int:
    """Every probe with its newest pass."""
    with Link(arguments) as link:
        found = link.call("GET", "/probes")
    rows = [
        {
            "name": item["name"], "dataset": item["dataset"],
            "every": f"{item['every_minutes']:g} min",
            "on": "yes" if item["enabled"] else "no", **_pass_cells(item["last_pass"]),
        }
        for item in found["items"]
    ]  # fmt: skip
    columns = ["name", "dataset", "every", "on", "last pass", "pass", "fail", "errored", "note"]
    emit(arguments, found, table(rows, columns) if rows else "no probe yet")
    return 0


def _pass_cells(item: Mapping[str, Any] | None) -> dict[str, Any]:
    if item is None:
        return {"last pass": "never"}
    return {"last pass": item["started_at"][:16], **item["counts"], "note": item["note"]}


def set_command(arguments: argparse.Namespace) -> int:
    """Store the probe in a file."""
    probe = load_probe(arguments.file)
    with Link(arguments) as link:
        made = link.call("POST", "/probes", body=probe_body(probe))
    emit(arguments, made, f"probe {probe.name}: {probe.dataset}, every {probe.every_minutes:g} min")
    return 0


def delete_command(arguments: argparse.Namespace) -> int:
    """Delete a probe."""
    with Link(arguments) as link:
        link.call("DELETE", f"/probes/{quote(arguments.name, safe='')}")
    emit(arguments, {"deleted": arguments.name}, f"probe {arguments.name} is deleted")
    return 0


def run_command(arguments: argparse.Namespace) -> int:
    """Run a pass: 0 when every row passed, 1 when one did not, 2 when it ended early."""
    path = Path(arguments.probe)
    if path.suffix in {".toml", ".json"} or path.is_file():
        return _run_here(arguments, load_probe(path))
    if arguments.dataset:
        raise InvalidInputError("--dataset goes with a probe file")
    name = quote(arguments.probe, safe="")
    with Link(arguments) as link:
        pass_id = link.call("POST", f"/probes/{name}/run")["pass_id"]
        ended = _wait(link, name, pass_id)
        rows = link.call("GET", f"/probes/{name}/passes/{ended['pass_id']}")["items"]
    return _show(arguments, ended, rows)


def _wait(link: Link, name: str, pass_id: str) -> dict[str, Any]:
    """The pass that was just started, at its end.

    Raises:
        ConflictError: nothing has been heard of it for two minutes.
    """
    heard, patience = "", _PATIENCE_S
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        passes = link.call("GET", f"/probes/{name}")["passes"]
        found: dict[str, Any] | None = next((p for p in passes if p["pass_id"] == pass_id), None)
        if found is not None:
            if found["state"] != "running":
                return found
            _say(f"\r{found['done']} of {found['rows']} rows")
            if found["updated_at"] != heard:
                heard, deadline = found["updated_at"], time.monotonic() + patience
        time.sleep(_POLL_S)
    raise ConflictError(f"nothing was heard of the pass for {patience:g} s: see the server's log")


def _run_here(arguments: argparse.Namespace, probe: Probe) -> int:
    """A pass over rows in a file, in this process; nothing of it is kept."""
    if not arguments.dataset:
        raise InvalidInputError("a probe file is run here over --dataset FILE, rows as JSON lines")
    rows = read_rows_path(Path(arguments.dataset), probe.dataset)
    settings = settings_of(arguments)
    with temporary_store(settings) as store:
        around = Surroundings(
            store, settings, SystemClock(), os.environ, lambda: secrets.token_hex(16), local=True
        )
        live = [row for row in rows if row.status != "retired"]
        ended = run_pass(around, "default", probe, by=os.environ.get("USER", ""), given=live)
        bodies = pass_row_bodies(store, "default", probe.name, ended.pass_id)
    results = [from_json(ProbeResult, body) for body in bodies]
    shown = [
        {
            "row_id": item.row.row_id, "question": item.row.question, "verdict": item.row.verdict,
            "stage": item.row.stage, "why": item.row.error or item.row.why,
            "trace_id": item.trace_id,
            "scores": {s.metric: to_plain(s) for s in item.row.scores},
        }
        for item in results
    ]  # fmt: skip
    return _show(arguments, to_plain(ended), shown)


def _show(
    arguments: argparse.Namespace, ended: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> int:
    lines = [
        {
            "row": row["row_id"], "verdict": row["verdict"], "question": row["question"],
            **{name: (row["scores"].get(name) or {}).get("value") for name in _SHOWN},
            "why": row.get("error") or row["why"],
        }
        for row in rows
    ]  # fmt: skip
    counts = ended["counts"]
    head = ", ".join(f"{counts.get(word, 0)} {word}" for word in ("pass", "fail", "errored"))
    text = table(lines, ["row", "verdict", "question", *_SHOWN, "why"])
    note = f"\n{printable(ended['note'])}" if ended["note"] else ""
    emit(arguments, {"pass": dict(ended), "rows": list(rows)}, f"{text}\n{head}{note}")
    if ended["state"] != "finished":
        return 2
    return 0 if counts.get("pass", 0) == ended["rows"] else 1


def _say(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()
