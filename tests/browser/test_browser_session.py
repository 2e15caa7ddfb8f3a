"""Signing in with a key and out again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.support.browser import BROWSER_MARKS
from tests.support.server import Server, serving

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("keys") / "data") as started:
        yield started


def command(server: Server, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stagewatch", *words, "--url", server.api],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip


def test_a_person_signs_in_and_out(browser: Browser, server: Server, tmp_path: Path) -> None:
    made = command(
        server, tmp_path, "key", "create", "Ann", "--role", "admin", "--project", "*", "--json"
    )
    key = json.loads(made.stdout)["key"]
    refused = command(server, tmp_path, "turns")
    assert "STAGEWATCH_API_KEY" in refused.stderr

    context = browser.new_context(base_url=server.api)
    page = context.new_page()
    page.goto("/turns?diagnosis=ranking")
    page.get_by_label("API key").fill("sw_mistyped")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("This key is not known.")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Ann", exact=True)).to_be_visible()
    expect(page).to_have_url(f"{server.api}/turns?diagnosis=ranking")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert [cookie["name"] for cookie in context.cookies()] == []
    page.goto("/turns")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    context.close()
