"""The console of a team's server: two members, a third who is denied, a token that is revoked."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from drumline.jobs.console.pages import ConsoleRoutes
from drumline.jobs.file.model import Job
from drumline.jobs.server.app import TeamServer, team_app
from drumline.jobs.server.identity import Grant
from drumline.jobs.server.serving import HttpServer
from tests.jobs.console.fabricated import started

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WAIT_MS = 120_000


class Team:
    """A server with a console, in a thread."""

    def __init__(self, folder: Path) -> None:
        self.server = TeamServer(folder)
        self.identity = self.server.identity
        self.tokens = {"ada": self.identity.add_member("ada", admin=True)}
        self.identity.add_workspace("vision")
        self.identity.set_grant(Grant("vision", "ada", "admin"))
        console = ConsoleRoutes(self.server.admit)
        app = team_app(self.server, pages=console.routes())
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._http = HttpServer(app, console.end)
        self._thread = threading.Thread(target=self._http.run, kwargs={"sockets": [listening]})
        self._thread.start()

    def end(self) -> None:
        self._http.should_exit = True
        self._thread.join()
        self.server.close()


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    made = Team(tmp_path / "server")
    yield made
    made.end()


@contextlib.contextmanager
def signed_in(chromium: Browser, team: Team, token: str) -> Iterator[Page]:
    context = chromium.new_context()
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(team.url)
    page.fill("#token", token)
    page.press("#token", "Enter")
    try:
        yield page
    finally:
        context.close()


def test_two_members_and_a_third(chromium: Browser, team: Team) -> None:
    service = team.server.workspace("vision")[0]
    number = started(service.store, Job("digits", ("python", "train.py")))
    with signed_in(chromium, team, team.tokens["ada"]) as ada:
        ada.click("[data-page=members]")
        ada.wait_for_selector(".things >> text=ada")
        ada.click("text=Add member")
        ada.fill("dialog [name=name]", "grace")
        ada.select_option("dialog [name=role]", "viewer")
        ada.click("dialog >> button:has-text('Add')")
        ada.wait_for_selector("text=A token of grace")
        token = ada.locator("dialog code").inner_text()
        ada.click("dialog >> text=Done")
        ada.wait_for_selector(".things >> text=sees all jobs")
        with signed_in(chromium, team, token) as grace:
            grace.wait_for_selector(".row >> text=digits")
            assert grace.locator("text=New job").is_hidden()  # A viewer submits nothing.
            ada.select_option("[aria-label='Role of grace']", "member")
            ada.wait_for_selector(".toast >> text=grace is member now")
            grace.reload()
            grace.wait_for_selector("a:has-text('New job')")
            grace.goto(f"{team.url}/#/vision/jobs/{number}")
            grace.wait_for_selector("h1 >> text=digits")
            team.identity.revoke("grace")
            grace.wait_for_selector("text=The session has ended")
    other = team.identity.add_member("mallory")
    with signed_in(chromium, team, other) as mallory:
        mallory.wait_for_selector("text=You are a member of no workspace")


def test_tokens_of_ones_own(chromium: Browser, team: Team) -> None:
    with signed_in(chromium, team, team.tokens["ada"]) as ada:
        ada.click("[data-page=members]")
        ada.click("text=Add token")
        ada.wait_for_selector("text=A token of ada")
        fresh = ada.locator("dialog code").inner_text()
        ada.click("dialog >> text=Done")
        ada.wait_for_selector(".things >> text=console")
        with signed_in(chromium, team, fresh) as again:
            again.wait_for_selector("text=No jobs yet")
        ada.click("[aria-label='Revoke console']")
        ada.click("dialog >> button:has-text('Revoke')")
        ada.wait_for_selector(".things >> text=console", state="detached")
        with signed_in(chromium, team, fresh) as refused:
            refused.wait_for_selector("[role=alert]")
            assert refused.locator(".row").count() == 0
