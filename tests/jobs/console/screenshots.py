"""Screenshots of the console for its page in the documentation, of a workspace that is made up.

python -m tests.jobs.console.screenshots docs/images/console
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from tests.jobs.console.fabricated import workspace
from tests.jobs.console.serving import NAME, TOKEN, console

if TYPE_CHECKING:
    from playwright.sync_api import Page

_WAIT_MS = 120_000
_COLOURS = 255
_FINE = """name: digits
code: vit-cifar
command: python train.py --epochs 12
workers: {count: 2, cpus: 1, memory: 4GiB}
ps: 1
env: {BATCH: "64"}
priority: 8
"""
_PROBLEMS = _FINE.replace("GiB", "").replace('"', "").replace("8", "12")


def _job(page: Page) -> None:
    page.wait_for_selector(".chart path.line")
    page.wait_for_selector(".terminal .line")
    page.wait_for_selector(".processes .spark")


def _curves(page: Page) -> None:
    page.locator(".chart path.line").nth(3).wait_for(state="attached")
    page.locator(".chart", has_text="epoch loss").locator(".plot").hover(
        position={"x": 150, "y": 90}
    )


def _searched(page: Page) -> None:
    _job(page)
    page.keyboard.press("/")
    page.keyboard.type("val_loss: 0.7")
    page.wait_for_selector(".line.here mark")
    page.wait_for_selector(".find .said:has-text('of')")
    page.locator(".log").evaluate("log => log.scrollIntoView({behavior: 'instant'})")


def _rows(page: Page) -> None:
    page.wait_for_selector(".row")


def _problems(page: Page) -> None:
    from playwright.sync_api import expect

    page.click("[data-form=advanced]")
    page.fill("textarea[aria-label*=YAML]", _FINE)
    page.wait_for_selector(".fine")
    page.locator("textarea[aria-label*=YAML]").blur()
    expect(page.locator("#field-name")).to_have_value("digits", timeout=_WAIT_MS)
    page.fill("textarea[aria-label*=YAML]", _PROBLEMS)
    page.wait_for_selector(".back .bad")
    page.locator("textarea[aria-label*=YAML]").blur()


def _empty(page: Page) -> None:
    page.wait_for_selector(".empty")


Shot = tuple[str, str, str, tuple[int, int], Callable[["Page"], None]]
SHOTS: tuple[Shot, ...] = (
    ("jobs", "jobs", "light", (1180, 760), _rows),
    ("job", "jobs/30", "light", (1180, 1480), _job),
    ("job_dark", "jobs/30", "dark", (1180, 820), _job),
    ("log", "jobs/30", "light", (1180, 540), _searched),
    ("failed", "jobs/27", "light", (1180, 620), lambda page: page.wait_for_selector(".notice")),
    ("compare", "compare/28/29", "light", (1180, 1130), _curves),
    ("new", "new", "light", (1180, 860), _problems),
    ("narrow_jobs", "jobs", "dark", (390, 780), _rows),
    ("narrow_job", "jobs/30", "light", (390, 780), _job),
)


def main(folder: Path) -> None:
    """Take all screenshots into a folder."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        home = Path(place) / "home"
        workspace(home).close()
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with console(home, home) as served, console(Path(place) / "none", home) as nothing:
            shots = [(served, shot) for shot in SHOTS]
            shots.append((nothing, ("empty", "jobs", "light", (1180, 560), _empty)))
            for where, (name, route, scheme, (width, height), ready) in shots:
                size = {"width": width, "height": height}
                context = browser.new_context(
                    viewport=size,  # type: ignore[arg-type]
                    color_scheme=scheme,  # type: ignore[arg-type]
                    reduced_motion="reduce",
                )
                context.set_default_timeout(_WAIT_MS)
                page = context.new_page()
                page.goto(f"{where.url}/#token={TOKEN}")
                page.wait_for_selector("nav[aria-label=Pages]")
                page.goto(f"{where.url}/#/{NAME}/{route}")
                ready(page)
                page.wait_for_selector("[data-live=live]")
                page.wait_for_timeout(500)
                if name == "narrow_job":
                    page.locator(".charts").scroll_into_view_if_needed()
                    page.evaluate("document.querySelector('[aria-label=Curves]').scrollIntoView()")
                    page.wait_for_timeout(300)
                taken = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                small = taken.quantize(_COLOURS, kmeans=3, dither=Image.Dither.NONE)
                small.save(folder / f"{name}.png", optimize=True)
                context.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
