"""The demo's second half: turns that went wrong become rows, and a gate stops their return.

Nothing here is prepared: the rows are promoted from the demo's own turns, the bot is asked over
HTTP by the server's own runs, and the gate is asked what it thinks of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stagewatch.core.cli.link import Link
from stagewatch.core.errors import StagewatchError
from stagewatch.demo.serve import App

DATASET = "refunds"
PLAN = "refund-bot"
MENDED = ("healthy", "kb-2026-11-16")
BROKEN_AGAIN = ("stale", "kb-2026-11-22")
RUN_S = 60
_TRUTH = "You can request a refund within 30 days of delivery for items in original condition."


@dataclass(frozen=True, slots=True)
class Wanted:
    """A turn to promote: what was asked, of which index, and what a customer says is right."""

    question: str
    index_version: str
    corrected: str | None = None


WANTED = (
    Wanted("How many days do I have to request a refund?", "kb-2026-11-08", _TRUTH),
    Wanted("Within how many days of delivery can I request a refund?", "kb-2026-11-15", _TRUTH),
    Wanted("How long are gift cards valid?", "kb-2026-11-01"),
    Wanted("How long does a password reset link stay valid?", "kb-2026-11-01"),
)
"""A near miss of the bad re-index, a superseded policy, and two that always went well."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The two runs and the gate between them; bodies are those of the API."""

    rows: Sequence[Mapping[str, Any]]
    baseline: Mapping[str, Any]
    candidate: Mapping[str, Any]
    gate: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The page that compares the runs."""
        return f"/runs/{self.baseline['run_id']}/diff/{self.candidate['run_id']}"

    @property
    def right(self) -> bool:
        """Whether the mended index passes every row and the gate stops the one after it."""
        passing = self.baseline["counts"]["pass"]
        return bool(passing == len(self.rows)) and self.gate["outcome"] == "blocked"

    def as_plain(self) -> dict[str, Any]:
        """What the demo's JSON says of it."""
        told = ("run_id", "state", "counts")
        return {
            "rows": [{key: row[key] for key in ("row_id", "kind", "status")} for row in self.rows],
            "runs": [{key: run[key] for key in told} for run in (self.baseline, self.candidate)],
            "gate": self.gate,
            "diff": self.path,
        }

    def lines(self, url: str) -> list[str]:
        """The story of it for a terminal; `url` is the server's address."""
        told = [f"\nDoes it come back? {len(self.rows)} turns became rows of {DATASET}"]
        for run in (self.baseline, self.candidate):
            index = ", ".join(run["pipeline"]["index_version"])
            told.append(f"  {index}: {run['counts']['pass']} of {run['rows']} rows pass")
        outcome = str(self.gate["outcome"]).replace("_", " ")
        told.append(f"  {'✓' if self.right else '✗'} the gate says: {outcome}")
        for condition in self.gate["conditions"]:
            for row in condition["details"]:
                kind, stage = (str(row[key]).replace("_", " ") for key in ("kind", "stage"))
                told.append(f"    {kind:<13} {stage:<13} {row['question']}")
        return [*told, f"    look at: {url}{self.path}"]


def guard(person: Callable[[str], Link], app: App, address: str) -> Outcome:
    """Promote turns, have them confirmed, run the plan on two indexes and ask the gate.

    Args:
        person: a link on which somebody of this name acts.
        app: the bot, as `MENDED`; it is left as `BROKEN_AGAIN`.
        address: where it is served.

    Raises:
        StagewatchError: a turn is not there, or a run does not finish.
    """
    author, reviewer = person("Ada"), person("Ben")
    rows = [confirmed(reviewer, promote(author, wanted)) for wanted in WANTED]
    note = {"note": "what customers disputed, and what has to go on working"}
    author.call("POST", f"/datasets/{DATASET}/versions", body=note)
    author.call("POST", "/plans", body=plan_body(address))
    baseline = run_to_end(author)
    app.deploy(*BROKEN_AGAIN)
    candidate = run_to_end(author)
    pair = {"baseline": baseline["run_id"], "candidate": candidate["run_id"]}
    return Outcome(rows, baseline, candidate, author.call("POST", "/gate", body=pair))


def promote(link: Link, wanted: Wanted) -> dict[str, Any]:
    """The row that the wanted turn becomes; what customers dispute is flagged first."""
    turn = _turn(link, wanted)
    if wanted.corrected is not None:
        said = {
            "trace_id": turn["trace_id"], "kind": "corrected", "source": "helpdesk",
            "comment": "That is not what the policy page says.",
            "corrected_answer": wanted.corrected, "external_id": f"ticket-{wanted.index_version}",
        }  # fmt: skip
        link.call("POST", "/feedback", body=said)
    path = f"/turns/{turn['turn_id']}/promote"
    row: dict[str, Any] = link.call("POST", path, body={"dataset": DATASET})
    return row


def confirmed(link: Link, row: dict[str, Any]) -> dict[str, Any]:
    """The row with a second person's word for it, where its kind takes one to count in a gate."""
    if row["status"] != "needs_review":
        return row
    path = f"/datasets/{DATASET}/rows/{row['row_id']}/confirm"
    agreed: dict[str, Any] = link.call("POST", path, body={})["row"]
    return agreed


def _turn(link: Link, wanted: Wanted) -> dict[str, Any]:
    """The oldest turn of it, since customers dispute the newest ones."""
    query = {"q": wanted.question, "index_version": wanted.index_version, "limit": 500}
    found = link.call("GET", "/turns", query=query)["items"]
    same = [turn for turn in found if turn["question"] == wanted.question]
    if not same:
        raise StagewatchError(f"nobody asked {wanted.question!r} of {wanted.index_version}")
    oldest: dict[str, Any] = same[-1]
    return oldest


def plan_body(address: str) -> dict[str, Any]:
    """The plan: the bot at `address`, which marks these questions as no customer's."""
    return {
        "name": PLAN,
        "dataset": DATASET,
        "top_k": 4,
        "connector": {
            "url": f"{address}/ask",
            "headers": {"x-stagewatch-probe": PLAN},
            "paths": {
                "trace_id": "trace_id",
                "release": "release",
                "index_version": "index_version",
            },
        },
    }


def run_to_end(link: Link) -> dict[str, Any]:
    """A run of the plan, once it has finished."""
    run_id = link.call("POST", f"/plans/{PLAN}/runs", body={})["run_id"]
    deadline = time.monotonic() + RUN_S
    while time.monotonic() < deadline:
        run: dict[str, Any] = link.call("GET", f"/runs/{run_id}")
        if run["state"] == "finished":
            return run
        if run["state"] != "running":
            break
        time.sleep(0.1)
    raise StagewatchError(f"run {run_id} is {run['state']} and not finished: {run['note']}")
