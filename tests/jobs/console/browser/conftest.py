"""Chromium, and consoles for it to look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.jobs.console.fabricated import workspace
from tests.jobs.console.serving import NAME, TOKEN, Console, console

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REQUIRED_VARIABLE = "DRUMLINE_REQUIRE_BROWSER"
"""If it is set, a test that cannot run fails."""

WAIT_MS = 120_000  # On a busy machine.

Open = Callable[..., "Page"]


def _missing() -> str:
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed: pip install playwright"
    if shutil.which("chromium") is None:
        return "chromium is not installed: scripts/install_chromium.sh"
    return ""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if why := _missing():
        if os.environ.get(REQUIRED_VARIABLE):
            pytest.fail(f"{REQUIRED_VARIABLE} is set, and there is no browser: {why}")
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    # Root may not use Chromium's sandbox.
    options = ["--no-sandbox", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The console of a workspace with jobs of all kinds, of which none runs."""
    home = tmp_path_factory.mktemp("console") / "home"
    workspace(home).close()
    with console(home, home) as made:
        yield made


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Open]:
    """Opens a page of a console; what it complains about fails the test."""
    opened, complaints = [], list[str]()

    def open_(
        served: Console, path: str = "jobs", expected: tuple[str, ...] = (), **options: Any
    ) -> Page:
        options = {"viewport": {"width": 1280, "height": 860}} | options
        context = chromium.new_context(**options)
        opened.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()

        def complain(text: str) -> None:
            if not any(each in text for each in expected):
                complaints.append(text)

        page.on("console", lambda said: complain(said.text) if said.type in _BAD else None)
        page.on("pageerror", lambda error: complain(str(error)))
        page.goto(f"{served.url}/#token={TOKEN}")
        page.wait_for_selector("nav[aria-label=Pages]")
        page.goto(f"{served.url}/#/{NAME}/{path}")
        return page

    yield open_
    for context in opened:
        context.close()
    assert not complaints


_BAD = ("error", "warning")
