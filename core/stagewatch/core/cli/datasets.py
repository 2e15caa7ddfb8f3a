"""`dataset …`: rows and versions from the command line."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stagewatch.core.cli.common import emit, printable, table
from stagewatch.core.cli.link import Link, add_link_options
from stagewatch.core.errors import InvalidInputError

if TYPE_CHECKING:
    from stagewatch.core.model import DatasetRow

_FORMATS = ("jsonl", "csv", "parquet", "ragas", "deepeval", "phoenix", "langfuse", "openai")


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verbs."""
    parent = verbs.add_parser(
        "dataset",
        help="datasets: list, show, add, import, export, check, coverage, diff, pull, push",
    )
    actions = parent.add_subparsers(title="actions", metavar="ACTION", required=True)

    listing = actions.add_parser("list", help="every dataset")
    add_link_options(listing)
    listing.set_defaults(run=_list)

    show = actions.add_parser("show", help="rows of a dataset")
    add_link_options(show)
    show.add_argument("name")
    show.add_argument("--version", type=int, help="a frozen version (default: the working copy)")
    show.set_defaults(run=_show)

    importlib.import_module("stagewatch.core.cli.promote").add(actions)

    freeze = actions.add_parser("freeze", help="freeze the working copy as the next version")
    add_link_options(freeze)
    freeze.add_argument("name")
    freeze.add_argument("--note", default="")
    freeze.set_defaults(run=_freeze)

    exporting = actions.add_parser("export", help="rows as a file")
    add_link_options(exporting)
    exporting.add_argument("name")
    exporting.add_argument("--version", type=int)
    exporting.add_argument("--format", choices=_FORMATS, default="jsonl")
    exporting.add_argument("--out", type=Path, help="file to write (default: standard output)")
    exporting.set_defaults(run=_export)

    importing = actions.add_parser("import", help="rows from a file; all or nothing")
    add_link_options(importing)
    importing.add_argument("name")
    importing.add_argument("file", type=Path)
    importing.add_argument("--format", choices=_FORMATS, help="default: by the file's ending")
    importing.set_defaults(run=_import)

    _add_checks(actions)
    _add_folders(actions)

    diff = actions.add_parser("diff", help="what changed between two versions")
    add_link_options(diff)
    diff.add_argument("name")
    diff.add_argument("old", type=int)
    diff.add_argument("new", type=int)
    diff.set_defaults(run=_diff)


def _add_checks(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = actions.add_parser("check", help="what is odd about the rows")
    add_link_options(check)
    check.add_argument("name")
    check.add_argument("--version", type=int)
    check.set_defaults(run=_check)

    coverage = actions.add_parser("coverage", help="what people ask, by the nearest row's kind")
    add_link_options(coverage)
    coverage.add_argument("name")
    coverage.add_argument("--days", type=int, default=7)
    coverage.set_defaults(run=_coverage)


def _add_folders(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    pull = actions.add_parser("pull", help="rows into a folder, one readable file each")
    add_link_options(pull)
    pull.add_argument("name")
    pull.add_argument("folder", type=Path)
    pull.add_argument("--version", type=int)
    pull.set_defaults(run=_pull)

    push = actions.add_parser("push", help="rows of a folder into the dataset; only what changed")
    add_link_options(push)
    push.add_argument("name")
    push.add_argument("folder", type=Path)
    push.add_argument("--prune", action="store_true", help="retire rows that have no file")
    push.set_defaults(run=_push)


def _check(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call(
            "GET", f"/datasets/{arguments.name}/check", query={"version": arguments.version}
        )
    lines = [f"{item['row_id']}  {item['kind']}: {'; '.join(item['warnings'])}"
             for item in found["items"]]  # fmt: skip
    lines += [f"{a} and {b} ask the same thing" for a, b in found["duplicates"]]
    emit(arguments, found, printable("\n".join(lines)) if lines else "nothing odd")
    return 0


def _coverage(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call(
            "GET", f"/datasets/{arguments.name}/coverage", query={"days": arguments.days}
        )
    total = found["questions"] or 1
    lines = [f"{found['questions']} live questions in {arguments.days} days"]
    lines += [f"  {kind:<14} {n / total:>6.1%}" for kind, n in found["by_kind"].items()]
    lines.append(f"  {'far from all':<14} {found['far'] / total:>6.1%}")
    lines += [f"    {item['times']}x  {item['question']}" for item in found["examples"]]
    emit(arguments, found, printable("\n".join(lines)))
    return 0


def _rows_text(arguments: argparse.Namespace, link: Link, version: int | None) -> bytes:
    return link.raw(
        "GET",
        f"/api/v1/datasets/{arguments.name}/export",
        query={"format": "jsonl", "version": version},
    )


def _pull(arguments: argparse.Namespace) -> int:
    import json

    files = importlib.import_module("stagewatch.scorer.plans.rows_file")
    with Link(arguments) as link:
        body = _rows_text(arguments, link, arguments.version)
    rows = [files.row_from(json.loads(line), arguments.name) for line in body.splitlines()]
    written = files.write_rows_folder(rows, arguments.folder)
    emit(arguments, {"written": written}, f"{written} rows in {arguments.folder}")
    return 0


def _same(known: DatasetRow | None, row: DatasetRow) -> bool:
    """Whether a file says what the dataset has; what the server fills in may be left out."""
    from dataclasses import replace

    if known is None:
        return False
    told = row.provenance.promoted_by or known.provenance.promoted_by
    provenance = replace(row.provenance, promoted_by=told)
    return known == replace(row, version_added=known.version_added, provenance=provenance)


def _push(arguments: argparse.Namespace) -> int:
    import json

    from stagewatch.core.codec import to_plain

    files = importlib.import_module("stagewatch.scorer.plans.rows_file")
    wanted = {row.row_id: row for row in files.read_rows_path(arguments.folder, arguments.name)}
    with Link(arguments) as link:
        known: dict[str, Any] = {}
        names = {item["name"] for item in link.call("GET", "/datasets")["items"]}
        if arguments.name in names:
            body = _rows_text(arguments, link, None)
            items = [json.loads(line) for line in body.splitlines()]
            known = {item["row_id"]: files.row_from(item, arguments.name) for item in items}
        changed = [row for row_id, row in wanted.items() if not _same(known.get(row_id), row)]
        if changed:
            link.raw(
                "POST", f"/api/v1/datasets/{arguments.name}/import", query={"format": "jsonl"},
                body="".join(json.dumps(to_plain(row)) + "\n" for row in changed).encode(),
                content_type="application/octet-stream",
            )  # fmt: skip
        gone = sorted(known.keys() - wanted.keys()) if arguments.prune else []
        for row_id in gone:
            link.call("DELETE", f"/datasets/{arguments.name}/rows/{row_id}")
    told = {"pushed": len(changed), "retired": len(gone), "same": len(wanted) - len(changed)}
    text = f"{told['pushed']} pushed, {told['retired']} retired, {told['same']} the same"
    emit(arguments, told, text)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call("GET", "/datasets")
    columns = ["name", "version", "rows", "needs_review", "changed"]
    emit(arguments, found, table(found["items"], columns) if found["items"] else "no dataset yet")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call(
            "GET", f"/datasets/{arguments.name}/rows", query={"version": arguments.version}
        )
    columns = ["row_id", "kind", "failure", "status", "question"]
    emit(arguments, found, table(found["items"], columns, 60))
    return 0


def _freeze(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        made = link.call(
            "POST", f"/datasets/{arguments.name}/versions", body={"note": arguments.note}
        )
    emit(arguments, made, f"version {made['version']} with {made['rows']} rows")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        body = link.raw(
            "GET",
            f"/api/v1/datasets/{arguments.name}/export",
            query={"format": arguments.format, "version": arguments.version},
        )
    if arguments.out:
        arguments.out.write_bytes(body)
    else:
        sys.stdout.buffer.write(body)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    kind = arguments.format or arguments.file.suffix.lstrip(".").lower()
    if kind not in _FORMATS:
        raise InvalidInputError(f"--format: cannot tell from {arguments.file.name!r}")
    if not arguments.file.is_file():
        raise InvalidInputError(f"no such file: {arguments.file}")
    with Link(arguments) as link:
        import json

        answer = link.raw(
            "POST",
            f"/api/v1/datasets/{arguments.name}/import",
            query={"format": kind},
            body=arguments.file.read_bytes(),
            content_type="application/octet-stream",
        )
    found = json.loads(answer)
    emit(arguments, found, f"{found['imported']} rows imported into {found['dataset']}")
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        old, new = (
            {
                row["row_id"]: row
                for row in link.call(
                    "GET", f"/datasets/{arguments.name}/rows", query={"version": version}
                )["items"]
            }
            for version in (arguments.old, arguments.new)
        )
    changes: list[dict[str, Any]] = []
    for row_id in sorted(old.keys() | new.keys()):
        before, after = old.get(row_id), new.get(row_id)
        if before == after:
            continue
        what = "added" if before is None else "removed" if after is None else "changed"
        row = after or before or {}
        changes.append({"row_id": row_id, "what": what, "question": row.get("question")})
    text = table(changes, ["what", "row_id", "question"], 60) if changes else "no difference"
    emit(arguments, {"items": changes}, text)
    return 0
