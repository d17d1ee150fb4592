"""Logs in Chromium: text as text, long ones, long lines, and what is searched in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from drumline.jobs.file.model import Job
from drumline.jobs.sources.secrets import write_secret
from tests.jobs.console.fabricated import add_log, started, workspace
from tests.jobs.console.serving import Console, console
from tests.jobs.launch.launching import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Open = Callable[..., Page]

BLOCKS = 1100
"""Of a thousand lines in a log of some 100 MB."""


def _job(home: Path, content: bytes) -> tuple[int, Path]:
    """A job that seems to run, and the log of its worker."""
    store = workspace(home)
    number = started(store, Job("talks", ("python", "train.py")))
    store.close()
    return number, add_log(home, number, "worker-0", content)


def _large_log(home: Path) -> tuple[int, Path]:
    number, path = _job(home, b"")
    with open(path, "wb") as file:
        for block in range(BLOCKS):
            lines = (f"line {block * 1000 + i:07d} {'x' * 84}\n" for i in range(1000))
            file.write("".join(lines).encode())
    assert path.stat().st_size > 95 << 20
    return number, path


def _in_sight(page: Page, selector: str) -> bool:
    """Whether an element is within what the log shows."""
    script = """([box, each]) => {
      const [outer, inner] = [box, each].map((e) => e.getBoundingClientRect());
      return inner.top >= outer.top && inner.bottom <= outer.bottom;
    }"""
    handles = [page.wait_for_selector(each) for each in (".terminal", selector)]
    return bool(page.evaluate(script, handles))


def _until(page: Page, script: str) -> None:
    """Wait until an expression is true; the pages themselves may evaluate none."""
    wait_until(lambda: page.evaluate(script) or page.wait_for_timeout(50), 120)


def _said(page: Page, text: str) -> None:
    page.wait_for_selector(f".find .said:text-is('{text}')")


def test_log_of_markup_and_colours(tmp_path: Path, open_page: Open) -> None:
    store = workspace(tmp_path / "home")
    number = started(store, Job("hostile", ("python", "train.py")))
    content = (
        "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\n"
        "\x1b[31mred\x1b[0m plain \x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07\n"
        "10%\r20%\r100% done\nabc\b\bX\n\x1b[2J\x1b[999999999Cend\x1b[\n"
        "\x00\x01\x02 nul, \u202e and Ünïcödé 漢字 😀\n"
    )
    add_log(tmp_path / "home", number, "worker-0", content.encode() + b"\xff\xfe broken\n")
    store.close()
    with console(tmp_path / "home", tmp_path) as served:
        page = open_page(served, f"jobs/{number}")
        page.wait_for_selector(".terminal >> text=broken")
        lines = page.locator(".terminal .line").all_inner_texts()
        assert lines[0].startswith("<script>window.hacked")
        assert lines[1] == "red plain link"
        assert lines[2] == "100% done"
        assert lines[3].startswith("aX")
        assert "Ünïcödé 漢字 😀" in lines[5]
        assert page.locator(".terminal .t-fg-1").inner_text() == "red"
        assert page.evaluate("window.hacked") is None
        assert page.locator(".terminal script, .terminal img, .terminal a").count() == 0
        page.context.close()


def test_log_of_hundred_megabytes(tmp_path: Path, open_page: Open) -> None:
    number, path = _large_log(tmp_path / "home")
    with console(tmp_path / "home", tmp_path) as served:
        page = open_page(served, f"jobs/{number}")
        page.wait_for_selector(".terminal >> text=line 1099999")
        assert page.locator(".terminal .line").count() < 100
        page.focus(".terminal")
        page.keyboard.press("Home")
        page.wait_for_selector(".terminal >> text=line 0000000")
        for _ in range(40):
            page.locator(".terminal").evaluate("box => { box.scrollTop = box.scrollHeight }")
            page.wait_for_timeout(80)
        held = page.evaluate("document.querySelector('.terminal .rows').clientHeight / 20")
        assert held <= 30_000 + 3000
        assert page.locator(".terminal .line").count() < 100
        page.keyboard.press("End")
        page.wait_for_selector(".terminal >> text=line 1099999")
        with open(path, "a") as file:
            file.write("one more line\n")
        page.wait_for_selector(".terminal >> text=one more line")
        page.context.close()


def test_long_lines_wrap_until_that_is_switched_off(tmp_path: Path, open_page: Open) -> None:
    words = " ".join(f"word-{i}" for i in range(300))
    wide = "漢字" * 200  # Twice as wide as letters are, which is seen when it is drawn.
    lines = ["first", words, "\x1b[32m" + "g" * 900 + "\x1b[0m", wide, "a" * 50 + "\r" + "b" * 700]
    content = "\n".join(["filler"] * 200 + lines + ["last"]) + "\n"
    number, path = _job(tmp_path / "home", content.encode())
    with console(tmp_path / "home", tmp_path) as served:
        page = open_page(served, f"jobs/{number}")
        page.wait_for_selector(".terminal >> text=last")

        def gaps() -> list[float]:
            return page.evaluate(  # type: ignore[no-any-return]
                """() => { const lines = [...document.querySelectorAll('.terminal .line')]
                  .map((e) => e.getBoundingClientRect()).sort((a, b) => a.top - b.top);
                return lines.slice(1).map((each, i) => each.top - lines[i].bottom); }"""
            )

        _until(page, "document.querySelector('.terminal .rows').scrollWidth < 1200")
        box = page.locator(".terminal")
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
        height = page.locator(".line", has_text="word-299").evaluate("line => line.offsetHeight")
        assert height > 20 and height % 20 == 0
        # Within some frames what was guessed is mended, and the end is followed.
        at_end = "box => box.scrollTop + box.clientHeight >= box.scrollHeight - 2"

        def in_place() -> bool:
            return all(abs(gap) < 0.5 for gap in gaps()) and bool(box.evaluate(at_end))

        wait_until(lambda: in_place() or page.wait_for_timeout(50), 60)
        with open(path, "a") as file:
            file.write("one more " * 100 + "\n")
        page.wait_for_selector(".terminal >> text=one more")
        wait_until(lambda: in_place() or page.wait_for_timeout(50), 60)
        page.click(".log .check:has-text('Wrap')")
        _until(page, "document.querySelector('.terminal .line').offsetHeight === 20")
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        heights = page.locator(".terminal .line").evaluate_all(
            "all => all.map(e => e.offsetHeight)"
        )
        assert set(heights) == {20}
        page.reload()
        page.wait_for_selector(".terminal >> text=one more")
        assert not page.locator(".log .check:has-text('Wrap') input").is_checked(), "it is kept"
        page.context.close()


def test_text_is_searched_by_the_keyboard(tmp_path: Path, open_page: Open) -> None:
    lines = [f"step {i}" + (" Loss <b>is</b> \x1b[31mN\x1b[0maN" if i % 1000 == 7 else "") for i in
             range(5000)]  # fmt: skip
    number, path = _job(tmp_path / "home", ("\n".join(lines) + "\n").encode())
    with console(tmp_path / "home", tmp_path) as served:
        page = open_page(served, f"jobs/{number}")
        page.wait_for_selector(".terminal >> text=step 4999")
        page.keyboard.press("/")
        # From the end, which was shown, it goes back; colours are not part of it.
        page.keyboard.type("loss <b>is</b> nan")
        _said(page, "5 of 5")
        page.wait_for_selector(".line.here >> text=step 4007")
        assert _in_sight(page, ".line.here mark")
        marked = page.locator(".line.here mark").all_inner_texts()
        assert "".join(marked) == "Loss <b>is</b> NaN"
        assert page.locator(".terminal b").count() == 0
        page.keyboard.press("Enter")
        _said(page, "1 of 5, from the beginning")
        page.wait_for_selector(".line.here >> text=step 7 Loss")
        page.keyboard.press("Shift+Enter")
        _said(page, "5 of 5, from the end")
        page.focus(".terminal")
        for key, index, step in (("N", 4, 3007), ("N", 3, 2007), ("n", 4, 3007)):
            page.keyboard.press(key)
            _said(page, f"{index} of 5")
            page.wait_for_selector(f".line.here >> text=step {step} ")
            assert _in_sight(page, ".line.here")
        with open(path, "a") as file:
            file.write("loss <b>is</b> nan again\n")
        _said(page, "4 of 6")
        page.keyboard.press("Escape")
        page.wait_for_selector(".find", state="hidden")
        assert page.locator(".terminal mark").count() == 0
        page.keyboard.press("n")  # Now it is again what it is elsewhere.
        page.wait_for_selector("h1 >> text=New job")
        page.context.close()


def test_what_is_not_in_a_log(tmp_path: Path, open_page: Open) -> None:
    home = tmp_path / "home"
    number, _ = _job(home, b"10%\r20%\r100% done\nthe password is hunter2-0123\n")
    write_secret(home, "PASSWORD", "hunter2-0123")
    with console(home, tmp_path) as served:
        page = open_page(served, f"jobs/{number}")
        page.wait_for_selector(".terminal >> text=the password is ****")
        page.click("[aria-label='Search this log'] >> nth=0")
        for text in ("nowhere", "20%", "hunter2", "password is h"):
            page.fill(".find input", text)
            _said(page, "no match")
            assert page.locator(".terminal mark").count() == 0
        page.fill(".find input", "100% d")
        _said(page, "1 of 1")
        page.context.close()


def test_a_log_of_hundred_megabytes_is_searched(tmp_path: Path, open_page: Open) -> None:
    number, _ = _large_log(tmp_path / "home")
    with console(tmp_path / "home", tmp_path) as served:
        page = open_page(served, f"jobs/{number}")
        page.wait_for_selector(".terminal >> text=line 1099999")
        page.keyboard.press("/")
        page.keyboard.type("line 0000123")
        page.wait_for_selector(".line.here >> text=line 0000123")
        _said(page, "1 of 1")
        # One line of each thousand, of which none but the last were in the browser.
        page.fill(".find input", "777 xxx")
        _said(page, "1 of 1,100")  # It goes on from where it was.
        page.focus(".terminal")
        page.keyboard.press("N")
        _said(page, "1,100 of 1,100, from the end")
        page.wait_for_selector(".line.here >> text=line 1099777")
        assert _in_sight(page, ".line.here mark")
        page.fill(".find input", "line")
        page.wait_for_selector(".find .said:has-text('5,000+')")
        held = page.evaluate("document.querySelector('.terminal .rows').clientHeight / 20")
        assert held <= 30_000 + 3000 and page.locator(".terminal .line").count() < 100
        page.context.close()


def test_a_log_is_downloaded_whole(served: Console, open_page: Open) -> None:
    page = open_page(served, "jobs/30")
    page.wait_for_selector(".terminal .line")
    with page.expect_download() as begun:
        page.click("[aria-label='Download the whole log']")
    assert begun.value.suggested_filename == "30-worker-0.log"
    whole = served.home / "jobs" / "30" / "attempt-1" / "logs" / "worker-0.log"
    assert Path(begun.value.path()).read_bytes() == whole.read_bytes()
