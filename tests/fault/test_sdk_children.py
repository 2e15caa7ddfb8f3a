"""An app behaves the same with and without the SDK, whatever the collector does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import pytest
from tests.support.sdk_child_app import SHAPES
from tests.support.sdk_receiver import receiver

APP = Path(__file__).parents[1] / "support" / "sdk_child_app.py"
DEADLINE_S = 10.0
"""Longest an instrumented app may take in all, exit included."""

pytestmark = pytest.mark.fault


def run(shape: str, endpoint: str | None) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "STAGEWATCH_"))}
    if endpoint is not None:
        environ |= {"WITH_SDK": "1", "STAGEWATCH_ENDPOINT": endpoint}
    return subprocess.run(
        [sys.executable, str(APP), shape],
        env=environ,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def tracebacks(stderr: str) -> list[str]:
    """The last lines of tracebacks: frames of wrappers may be added, errors may not."""
    return [line for line in stderr.splitlines() if line.startswith(("ValueError", "Exception"))]


@lru_cache
def bare_run(shape: str) -> subprocess.CompletedProcess[str]:
    """The app without the SDK: what every other run is compared with."""
    return run(shape, None)


def assert_all_same(shapes: Sequence[str], endpoint: str) -> None:
    """Every shape behaves the same. Three at a time: an app with a dead collector mostly waits."""
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(assert_same, shape, endpoint) for shape in shapes]:
            done.result()


def assert_same(shape: str, endpoint: str) -> None:
    bare, instrumented = bare_run(shape), run(shape, endpoint)
    assert instrumented.stdout == bare.stdout, instrumented.stderr
    assert instrumented.returncode == bare.returncode, instrumented.stderr
    assert tracebacks(instrumented.stderr) == tracebacks(bare.stderr)
    told = [line for line in instrumented.stderr.splitlines() if line.startswith("stagewatch ")]
    # One line for each kind of loss, however many spans were lost, and one with the totals.
    assert len(told) <= 4, told
    if "Traceback" not in bare.stderr:
        assert instrumented.stderr.splitlines() == told


def test_the_app_is_the_same_with_a_collector_that_is_well() -> None:
    with receiver() as collector:
        assert_all_same(sorted(SHAPES), collector.url)


@pytest.mark.parametrize("mood", ["slow", "closing", "overloaded", "forbidding"])
def test_the_app_is_the_same_with_a_collector_in_trouble(mood: str) -> None:
    with receiver(mood) as collector:  # type: ignore[arg-type]  # the parameters are its moods
        assert_all_same(["plain", "many", "fork", "fails", "threads"], collector.url)


def test_the_app_is_the_same_with_no_collector() -> None:
    with receiver() as gone:
        endpoint = gone.url
    assert_all_same(sorted(SHAPES), endpoint)


def test_losses_are_told_once_with_their_number() -> None:
    with receiver() as gone:
        endpoint = gone.url
    done = run("plain", endpoint)
    assert "stagewatch " in done.stderr
    assert "spans" in done.stderr
    assert "passage" not in done.stderr
