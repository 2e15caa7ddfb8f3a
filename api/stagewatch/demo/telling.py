"""What the demo says on the terminal: lines, bars, what was found and where to look next."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stagewatch.demo.phases import Phase
from stagewatch.demo.regressions import Outcome


def say(text: str) -> None:
    """A line of the story."""
    print(text, flush=True)


def progress(what: str, done: int, total: int) -> None:
    """A bar on a terminal; every tenth on a log."""
    width = 30
    if sys.stdout.isatty():
        bar = "█" * (width * done // max(total, 1))
        print(f"\r  {what:<7} {bar:<{width}} {done}/{total}", end="", flush=True)
        if done >= total:
            print(flush=True)
    elif done == total or (done and done % max(total // 4, 1) == 0):
        print(f"  {what} {done}/{total}", flush=True)


def report(
    findings: list[dict[str, Any]],
    alerts: list[dict[str, Any]],
    outcome: Outcome,
    url: str,
    seconds: float,
    arguments: argparse.Namespace,
) -> bool:
    """Say what was found; True when every phase was named rightly and the gate did its part."""
    say("\nWhat stagewatch found")
    rows = [judge_phase(item) for item in findings]
    for row in rows:
        mark = "✓" if row["right"] else "✗"
        of = f"{row['share']:.0%} of {row['turns']} turns"
        say(f"  {mark} {row['phase']:<18} {row['named']:<14} {of}")
    for alert in sorted(alerts, key=lambda item: str(item["opened_at"])):
        say(f"  ! {alert['sentence']}")
        say("    look at: " + "  ".join(f"{url}/turns/{t}" for t in alert["turn_ids"][:2]))
    quiet = findings[0]["drift"] == 0
    say(f"  {'✓' if quiet else '✗'} the healthy phase raised {'no' if quiet else 'an'} alarm")
    say("\n".join(outcome.lines(url)))
    say(f"\n{seconds:.0f} s. Open {url}  (the replayed captures: {url}/?project=captures)")
    ok = quiet and all(row["right"] for row in rows) and bool(alerts) and outcome.right
    if arguments.json:
        found = {"ok": ok, "phases": rows, "alerts": alerts, "url": url, **outcome.as_plain()}
        say(json.dumps(found))
    return ok


def next_steps(url: str, diff: str, data_dir: Path) -> str:
    """Where to look while the demo's server goes on: `diff` is the path of the two runs compared,
    `data_dir` the folder it holds.
    """
    command = "stagewatch"
    if shutil.which(command) is None:
        command = os.path.relpath(Path(sys.executable).with_name(command))
    return (
        f"\nThe server goes on; Ctrl-C stops it.\n"
        f"  what broke, and since when:  {url}\n"
        f"  three disputed answers:      {url}/review\n"
        f"  from another terminal:       {command} turns --flagged --data-dir {data_dir}\n"
        f"  what the gate stopped:       {url}{diff}"
    )


def judge_phase(finding: Mapping[str, Any]) -> dict[str, Any]:
    """The stage named for a phase: the commonest of its failing turns, `ok` when 95 % are."""
    phase: Phase = finding["phase"]
    stages: dict[str, int] = finding["stages"]
    total = sum(stages.values())
    failing = {stage: n for stage, n in stages.items() if stage != "ok"}
    if stages.get("ok", 0) >= 0.95 * total:
        named, share = "ok", stages["ok"] / total
    else:
        named = max(failing, key=lambda stage: failing[stage])
        share = failing[named] / total
    return {
        "phase": phase.name,
        "named": named,
        "share": share,
        "turns": total,
        "stages": stages,
        "right": named in phase.expected,
    }
