"""The examples in docs/alerts.md and docs/probes.md work as printed."""

from __future__ import annotations

import argparse
import json
import shlex
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.channels_alerts import SECRET

from stagewatch.core.cli import build_parser
from stagewatch.scorer.channels.channel import Channel, parse_channel
from stagewatch.scorer.channels.services import SERVICES
from stagewatch.scorer.channels.sign import signed_headers
from stagewatch.scorer.probes.probe import PROBE_METRICS, Probe, parse_probe

ALERTS = Path("docs/alerts.md").read_text()
PROBES = Path("docs/probes.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks of a language; "" is those without one."""
    found: list[str] = []
    inside: str | None = None
    for line in text.splitlines(keepends=True):
        if line.startswith("```"):
            inside = line.strip("`\n") if inside is None else None
            found += [""] if inside == language else []
        elif inside == language:
            found[-1] += line
    return found


def test_the_receiver_of_the_docs_takes_our_signature_and_no_other() -> None:
    names: dict[str, Any] = {}
    (code,) = blocks(ALERTS, "python")
    exec(code, names)
    headers = signed_headers(SECRET, "msg_1", datetime(2026, 11, 30, tzinfo=UTC), b"{}")
    assert names["verify"](SECRET, headers, b"{}")
    assert not names["verify"](SECRET, headers, b"{ }")


def test_the_channel_and_the_probe_of_the_docs_are_read() -> None:
    (body,) = blocks(ALERTS, "json")
    assert parse_channel({**json.loads(body), "secret": SECRET}).name == "ops"
    (text,) = blocks(PROBES, "toml")
    probe = parse_probe({"name": "nightly", **tomllib.loads(text)})
    assert probe.raw is not None
    assert probe.metrics == PROBE_METRICS


def commands() -> list[str]:
    lines = [line for text in (ALERTS, PROBES) for block in blocks(text, "") for line in
             block.splitlines()]  # fmt: skip
    return [line.partition("  #")[0] for line in lines if line.startswith("stagewatch ")]


@pytest.mark.parametrize("line", commands())
def test_the_commands_of_the_docs_are_commands(line: str) -> None:
    found = build_parser().parse_args(shlex.split(line)[1:])
    assert isinstance(found, argparse.Namespace)
    assert callable(found.run)


def test_every_field_service_and_metric_is_documented() -> None:
    hidden = {"name", "since", "made", "by"}
    for name in set(Channel.model_fields) - hidden:
        assert f"`{name}`" in ALERTS, name
    for scheme in SERVICES:
        assert scheme in ALERTS.replace("(s)", "s") or scheme in ALERTS.replace("(s)", ""), scheme
    for metric in PROBE_METRICS:
        assert f"`{metric}`" in PROBES, metric
    known = {"name", "judge", "judge_model", "enabled", "metrics"}
    for name in set(Probe.model_fields) - known:
        assert name in PROBES, name
