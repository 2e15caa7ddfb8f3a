"""`ingest`, `turn`, `turns`: traces in, turns out."""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stagewatch.core.cli.common import emit, printable, table
from stagewatch.core.cli.link import Link, add_link_options, running_otlp
from stagewatch.core.errors import InvalidInputError, StoreUnavailableError

_SIGNALS = ("traces", "logs")
_STAGES = (
    "rewrite", "stale_source", "memory", "retrieval_and_generation", "retrieval", "ranking",
    "generation", "evasion", "label_or_corpus", "ok", "unknown",
)  # fmt: skip
_TRIES = 8


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verbs."""
    ingest = verbs.add_parser(
        "ingest",
        help="send OTLP request files (.pb or .json) to a running collector",
        description="Send recorded OTLP export requests, protobuf or JSON, to a collector.",
        epilog="Example: stagewatch ingest captures/*.pb",
    )
    add_link_options(ingest)
    ingest.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a file, or a folder of them"
    )
    ingest.add_argument("--otlp", help="OTLP/HTTP address (default: the running server's)")
    ingest.add_argument("--signal", choices=_SIGNALS, help="default: by file name, else traces")
    ingest.set_defaults(run=_ingest)

    turn = verbs.add_parser(
        "turn", help="show one turn: stages, chunks, claims, diagnosis",
        epilog="Example: stagewatch turn 39a45d8e53854056887f2d89eea2a6d5-a8dd56b84d0eced3",
    )  # fmt: skip
    add_link_options(turn)
    turn.add_argument("turn_id", help="as `stagewatch turns` lists it")
    turn.set_defaults(run=_turn)

    turns = verbs.add_parser(
        "turns", help="list turns, newest first", epilog="Example: stagewatch turns --flagged"
    )
    add_link_options(turns)
    turns.add_argument("--diagnosis", choices=_STAGES, help="only turns that failed at this stage")
    turns.add_argument("--flagged", action="store_true", help="only turns waiting for review")
    turns.add_argument("--words", help="words in the question or answer")
    turns.add_argument("--limit", type=int, default=20, help="1 to 500 (default 20)")
    turns.set_defaults(run=_turns)


def signal_of(path: Path) -> str:
    """The signal a file holds, by its name: `002.logs.pb` → logs."""
    return "logs" if ".logs." in path.name or "logs" in path.stem.split(".") else "traces"


def post_otlp(
    base: str, signal: str, body: bytes, content_type: str, headers: Mapping[str, str]
) -> dict[str, Any]:
    """Send one export request, waiting out retryable answers; {"rejected": n, "message": …}.

    Raises:
        StoreUnavailableError: no collector there, or it was busy at every try.
        InvalidInputError: the collector can never take this body; the message is its own.
    """
    request = urllib.request.Request(  # noqa: S310 - base is an http(s) address
        f"{base.rstrip('/')}/v1/{signal}",
        data=body,
        headers={"content-type": content_type, **headers},
        method="POST",
    )
    for attempt in range(_TRIES):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return _partial(answer.read(), content_type, signal)
        except urllib.error.HTTPError as error:
            if error.code not in {429, 502, 503, 504}:
                detail = _status_message(error.read(), content_type)
                raise InvalidInputError(
                    f"the collector refused it ({error.code}): {detail}"
                ) from None
            time.sleep(float(error.headers.get("retry-after") or 1) if attempt < _TRIES - 1 else 0)
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise StoreUnavailableError(f"no collector answers at {base}: {reason}") from None
    raise StoreUnavailableError(f"the collector at {base} is too busy; try again later")


def _status_message(body: bytes, content_type: str) -> str:
    if "json" in content_type:
        try:
            return str(json.loads(body).get("message", ""))
        except ValueError:
            return ""
    from google.rpc.status_pb2 import Status

    try:
        return str(Status.FromString(body).message)
    except Exception:  # noqa: BLE001 - whatever answered was not an OTLP receiver
        return "not an OTLP answer"


def _partial(body: bytes, content_type: str, signal: str) -> dict[str, Any]:
    name = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
    if "json" in content_type:
        said = json.loads(body or b"{}").get("partialSuccess") or {}
        return {"rejected": int(said.get(name, 0)), "message": said.get("errorMessage", "")}
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceResponse,
    )

    if signal == "traces":
        traces = ExportTraceServiceResponse.FromString(body).partial_success
        return {"rejected": traces.rejected_spans, "message": traces.error_message}
    logs = ExportLogsServiceResponse.FromString(body).partial_success
    return {"rejected": logs.rejected_log_records, "message": logs.error_message}


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(p for p in path.rglob("*") if p.name.endswith((".pb", ".json"))
                            and p.name not in {"requests.json", "expected.json"})  # fmt: skip
        elif path.is_file():
            found.append(path)
        else:
            raise InvalidInputError(f"no such file: {path}")
    return found


def _ingest(arguments: argparse.Namespace) -> int:
    import os

    base = arguments.otlp or running_otlp(arguments)
    headers = {}
    if os.environ.get("STAGEWATCH_API_KEY"):
        headers["authorization"] = f"Bearer {os.environ['STAGEWATCH_API_KEY']}"
    if arguments.project:
        headers["x-stagewatch-project"] = arguments.project
    files = _files(arguments.files)
    results = []
    for number, path in enumerate(files, start=1):
        kind = "application/json" if path.suffix == ".json" else "application/x-protobuf"
        signal = arguments.signal or signal_of(path)
        try:
            said = post_otlp(base, signal, path.read_bytes(), kind, headers)
        except InvalidInputError as error:
            said = {"rejected": None, "message": str(error)}
        results.append({"file": str(path), "signal": signal, **said})
        _progress(number, len(files), path.name)
    bad = [r for r in results if r["rejected"] != 0]
    lines = [f"{len(results) - len(bad)} of {len(results)} files accepted whole by {base}"]
    lines += [f"  {r['file']}: {printable(r['message'])}" for r in bad]
    emit(arguments, {"items": results}, "\n".join(lines))
    return 1 if bad else 0


def _progress(done: int, total: int, name: str) -> None:
    if sys.stderr.isatty():
        width = 30
        bar = "█" * (width * done // total)
        end = "\n" if done == total else ""
        print(f"\r{bar:<{width}} {done}/{total} {name[:40]:<40}", end=end, file=sys.stderr)


def _turns(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call(
            "GET",
            "/turns",
            query={
                "diagnosis": arguments.diagnosis,
                "flagged": "true" if arguments.flagged else None,
                "q": arguments.words,
                "limit": arguments.limit,
            },
        )
        opened = None if link.context is None else link.context.settings.data_dir
    rows = [
        {
            "turn": item["turn_id"],
            "started": item["started_at"][:19],
            "stage": (item["diagnosis"] or {}).get("stage", "–"),
            "question": item["question"],
        }
        for item in found["items"]
    ]
    columns = ["turn", "started", "stage", "question"]
    text = table(rows, columns, 60) if rows else _no_turn(arguments, opened)
    emit(arguments, found, text)
    return 0


def _no_turn(arguments: argparse.Namespace, opened: Path | None) -> str:
    """Why a list is empty; `opened` is the data folder that was read because no server holds it."""
    said = "no turn matches" if arguments.diagnosis or arguments.flagged or arguments.words else (
        "no turn yet"
    )  # fmt: skip
    if opened is None:
        return said
    return f"{said} in {opened}, which no running server holds (--url or --data-dir name another)"


def _turn(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call("GET", f"/turns/{arguments.turn_id}")
    emit(arguments, found, printable(turn_text(found)))
    return 0


def turn_text(turn: Mapping[str, Any]) -> str:
    """A turn for a terminal: what was asked, fetched, seen, said, and what is wrong with it."""
    diagnosis = turn.get("diagnosis")
    versions = [
        f"{name} {turn[key]}"
        for name, key in (("release", "release"), ("index", "index_version"))
        if turn.get(key)
    ]
    lines = [
        f"asked      {turn['started_at'][:19]}Z of {', '.join([turn['service'], *versions])}",
        f"question   {turn['question']}",
        f"rewritten  {turn['rewritten_query'] or '(asked as it was)'}",
        f"diagnosis  {diagnosis['stage']}: {diagnosis['why']}"
        if diagnosis
        else "diagnosis  none yet",
        "",
        "retrieved",
    ]
    for retrieval in turn["retrievals"]:
        lines += [_chunk_line(chunk) for chunk in retrieval["chunks"]]
    lines += ["", f"the model saw {len(turn['window'])} chunks and said", f"  {turn['answer']}", ""]
    for claim in turn["claims"]:
        at = f" [{claim['chunk_rank']}]" if claim["chunk_rank"] else ""
        lines.append(f"  {claim['label'].lower():12}{at} {claim['text']}")
    lines.append("")
    for score in turn["scores"]:
        lines.append(
            f"  {score['metric']:26} {_score_words(score):14} {score['verdict'] or '':5} "
            f"{score['basis']:5} {score['reason'] or ''}".rstrip()
        )
    return "\n".join(lines)


def _score_words(score: Mapping[str, Any]) -> str:
    if score["status"] != "scored":
        return str(score["status"]).replace("_", " ")
    value = score["value"]
    return "missed" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def _chunk_line(chunk: Mapping[str, Any]) -> str:
    marks = "".join(
        (
            "✓" if chunk["relevant"] else " ",
            "!" if chunk["superseded"] else " ",
        )
    )
    text = " ".join(chunk["content"].split())
    return f"  {chunk['rank']:>3} {marks} {chunk['chunk_id'] or '(no id)'}  {text[:90]}"
