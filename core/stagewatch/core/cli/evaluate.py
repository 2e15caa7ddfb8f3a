"""`calibrate`: hand labels in, the judge's agreement with people out."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stagewatch.core.cli.common import emit
from stagewatch.core.cli.link import Link, add_link_options
from stagewatch.core.errors import InvalidInputError


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verbs."""
    calibrate = verbs.add_parser(
        "calibrate",
        help="compare the judge with hand labels",
        description=(
            "Store hand labels (JSON lines with turn_id, metric, item, label) and print how far "
            "the judge agrees. Metrics: faithfulness (item: the claim's text; label SUPPORTED, "
            "ABSENT or CONTRADICTED), chunk_relevance (item: the chunk id; label relevant or "
            "not_relevant), context_sufficiency, rewrite_fidelity and answer_relevancy (label "
            "pass or fail)."
        ),
        epilog="Example: stagewatch calibrate labels.jsonl",
    )
    add_link_options(calibrate)
    calibrate.add_argument("labels", nargs="?", type=Path, help="labels to store first")
    calibrate.set_defaults(run=_calibrate)


def read_labels(path: Path) -> dict[str, list[dict[str, str]]]:
    """Turn id → its labels, from JSON lines.

    Raises:
        InvalidInputError: naming the line and what is wrong with it.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from None
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InvalidInputError(f"{path} line {number}: not JSON: {error}") from None
        turn_id, label = _read_label(row, f"{path} line {number}")
        found[turn_id].append(label)
    return dict(found)


_NEEDED = ("turn_id", "metric", "label")


def _read_label(row: object, where: str) -> tuple[str, dict[str, str]]:
    if not isinstance(row, dict):
        raise InvalidInputError(f"{where}: not a JSON object")
    missing = [name for name in _NEEDED if not row.get(name)]
    if missing:
        raise InvalidInputError(
            f"{where}: {' and '.join(missing)} missing (a label has {', '.join(_NEEDED)}, and an "
            "item where it is of a claim or a chunk)"
        )
    label = {name: str(row[name]) for name in ("metric", "label")}
    return str(row["turn_id"]), {**label, "item": str(row.get("item") or "")}


def _calibrate(arguments: argparse.Namespace) -> int:
    labels = read_labels(arguments.labels) if arguments.labels else {}
    with Link(arguments) as link:
        for turn_id, items in labels.items():
            link.call("POST", "/labels", body={"turn_id": turn_id, "labels": items})
        reports = link.call("GET", "/calibration")
    text = "\n\n".join(calibration_text(report) for report in reports["items"])
    emit(arguments, reports, text or "no judge has scored anything yet")
    return 0


def calibration_text(report: Mapping[str, Any]) -> str:
    """One calibration for a terminal."""
    lines = [f"{report['metric']}: {report['state']}, {report['n']} hand labels"]
    for name in ("kappa", "agreement"):
        value = report[name]
        if value:
            ends = f"{value['low']:.2f} to {value['high']:.2f}"
            lines.append(f"  {name:10} {value['value']:.2f}  (95 %: {ends})")
    names = report["labels"]
    if names:
        lines.append("  person \\ judge  " + "  ".join(f"{name:>12}" for name in names))
        for name, row in zip(names, report["matrix"], strict=True):
            lines.append(f"  {name:15}  " + "  ".join(f"{n:>12}" for n in row))
    lines.append(f"  {report['advice']}")
    return "\n".join(lines)
