"""One browser a module, and pages on the module's `server` whose console stays quiet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from tests.support.browser import chromium, console_errors
from tests.support.server import Server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A running Chromium."""
    with chromium() as opened:
        yield opened


@pytest.fixture
def allowed() -> set[str]:
    """Console messages that a test provokes on purpose."""
    return set()


@pytest.fixture
def page(browser: Browser, server: Server, allowed: set[str]) -> Iterator[Page]:
    """A page of the module's server; at the end nothing may stand on its console."""
    context = browser.new_context(base_url=server.api, viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    errors = console_errors(opened)
    opened.set_default_timeout(15_000)
    yield opened
    context.close()
    assert [error for error in errors if error not in allowed] == []
