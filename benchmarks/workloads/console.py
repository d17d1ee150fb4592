"""The console: its first view with 10,000 jobs, log lines into a browser, many who read along."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.measurement import Measurement
from benchmarks.harness.process import ROOT
from benchmarks.harness.workload import Problems, Scale
from benchmarks.workloads.one_contender import repeated, workload

JOBS = 10_000
MOST_BYTES = 150_000
_WAIT_MS = 120_000
_SERVING = """
import sys, threading
from pathlib import Path
from tests.jobs.console.serving import Console
print(Console(Path(sys.argv[1]), Path(sys.argv[1])).port, flush=True)
threading.Event().wait()
"""
_SEEN = """() => { window.seen = {}; new MutationObserver(() => {
  const lines = document.querySelectorAll('.terminal .line');
  for (const line of [...lines].slice(-40)) {
    const found = /^line (\\d+) at ([\\d.]+)$/.exec(line.textContent);
    if (found && !(found[1] in window.seen)) window.seen[found[1]] = Date.now() / 1000 - found[2];
  } }).observe(document.querySelector('.terminal'), {childList: true, subtree: true}) }"""


@contextlib.contextmanager
def _served(jobs: int) -> Iterator[tuple[Path, int, int]]:
    """A console in a process of its own: its workspace, a job that runs, and its port."""
    from drumline.jobs.file.model import Job
    from tests.jobs.console.fabricated import add_log, many, started, workspace

    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory, "home")
        store = workspace(home)
        if jobs:
            many(store, jobs)
        number = started(store, Job("loud", ("python", "train.py")))
        log = add_log(home, number, "worker-0", b"begins\n")
        store.close()
        command = [sys.executable, "-c", _SERVING, str(home)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield log, number, int(process.stdout.readline())
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _signed_in(context: Any, port: int) -> Any:
    from tests.jobs.console.serving import TOKEN

    context.set_default_timeout(_WAIT_MS)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/#token={TOKEN}")
    page.wait_for_selector(".row")
    return page


def by_view(scale: Scale) -> Measurement:
    """Chromium without a cache, from the address to the first rows of the list."""
    took, sizes = [], []
    with _served(JOBS) as (_, _, port), _browser() as browser:
        cookies = _signed_in(browser.new_context(), port).context.cookies()
        for _ in range(1 + scale.later_epochs):
            context = browser.new_context()
            context.add_cookies(cookies)
            page = context.new_page()
            received = _counted(context, page)
            began = time.perf_counter()
            page.goto(f"http://127.0.0.1:{port}/#/research/jobs")
            page.wait_for_selector(".row", timeout=_WAIT_MS)
            took.append(time.perf_counter() - began)
            page.wait_for_timeout(500)
            sizes.append(sum(received))
            context.close()
    return _measured(scale, took, {"bytes": max(sizes)})


def _counted(context: Any, page: Any) -> list[int]:
    """A list into which the bytes of each answer go that the page receives, as they travel."""
    found: list[int] = []
    devtools = context.new_cdp_session(page)
    finished = "Network.loadingFinished"
    devtools.on(finished, lambda event: found.append(int(event["encodedDataLength"])))
    devtools.send("Network.enable")
    return found


def by_line(scale: Scale) -> Measurement:
    """Lines that are written every 0.2 s, until each is in the page of a browser."""
    with _served(0) as (log, number, port), _browser() as browser:
        page = _signed_in(browser.new_context(), port)
        page.goto(f"http://127.0.0.1:{port}/#/research/jobs/{number}")
        page.wait_for_selector(".terminal .line")
        page.wait_for_timeout(1000)
        page.evaluate(_SEEN)
        for i in range(1 + scale.later_epochs):
            with open(log, "a") as file:
                file.write(f"line {i} at {time.time():.4f}\n")
            page.wait_for_timeout(200)
        page.wait_for_selector(f".terminal >> text=line {scale.later_epochs} at")
        seen = page.evaluate("window.seen")
    took = [seen[str(i)] for i in range(1 + scale.later_epochs)]
    return _measured(scale, took, {"lines": len(seen), "slowest": max(took)})


def by_readers(scale: Scale) -> Measurement:
    """So many streams of one log: from a line to the last stream that has it."""
    with _served(0) as (log, number, port):
        took = asyncio.run(_read_by_many(scale, log, number, port))
    return _measured(scale, took, {"readers": scale.batch_size, "slowest": max(took)})


async def _read_by_many(scale: Scale, log: Path, number: int, port: int) -> list[float]:
    from tests.jobs.console.serving import NAME, TOKEN

    target = f"/api/v1/workspaces/{NAME}/stream?log={number}/worker:0@0"
    request = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    counts = [0] * (1 + scale.later_epochs)
    done = [asyncio.Event() for _ in counts]
    ready = asyncio.Semaphore(0)

    async def read(reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                for text in json.loads(line[6:]).get("text", "").splitlines():
                    if text == "begins":
                        ready.release()
                    elif text.startswith("line "):
                        i = int(text[5:])
                        counts[i] += 1
                        if counts[i] == scale.batch_size:
                            done[i].set()

    tasks, writers = [], []
    for _ in range(scale.batch_size):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        writer.write(request.encode())
        writers.append(writer)
        tasks.append(asyncio.create_task(read(reader)))
    for _ in range(scale.batch_size):
        await ready.acquire()
    took = []
    for i, event in enumerate(done):
        began = time.perf_counter()
        with open(log, "a") as file:
            file.write(f"line {i}\n")
        await event.wait()
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.2)
    for task, writer in zip(tasks, writers, strict=True):
        task.cancel()
        writer.close()
    return took


def _measured(scale: Scale, took: list[float], evidence: dict[str, Any]) -> Measurement:
    return repeated(scale, took, {**evidence, "median": statistics.median(took)})


def check_view(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """The first view is small."""
    return {
        name: f"the first view has {measured.evidence['bytes']} bytes, more than {MOST_BYTES}"
        for name, measured in measurements.items()
        if not 10_000 < measured.evidence["bytes"] <= MOST_BYTES
    }


def check_lines(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Each line was seen, once."""
    return {
        name: f"{measured.evidence['lines']} of {1 + scale.later_epochs} lines were seen"
        for name, measured in measurements.items()
        if measured.evidence["lines"] != 1 + scale.later_epochs
    }


_NEEDS = ("drumline", "starlette", "uvicorn", "playwright")

WORKLOADS = (
    workload(
        "console_view",
        "The console's list of 10,000 jobs in Chromium, from its address to the first rows",
        "views",
        full=Scale(elements=1, batch_size=1, later_epochs=5),
        quick=Scale(elements=1, batch_size=1, later_epochs=1),
        contender=("drumline console", _NEEDS, by_view),
        at_least=1 / 0.5,
        check=check_view,
    ),
    workload(
        "console_line",
        "A line of a log, from the disk into the console in Chromium",
        "lines",
        full=Scale(elements=1, batch_size=1, later_epochs=60),
        quick=Scale(elements=1, batch_size=1, later_epochs=5),
        contender=("drumline console", _NEEDS, by_line),
        at_least=1 / 0.3,
        check=check_lines,
    ),
    workload(
        "console_readers",
        "A line of a log to the last of 200 that follow it at once",
        "lines",
        full=Scale(elements=1, batch_size=200, later_epochs=30),
        quick=Scale(elements=1, batch_size=20, later_epochs=2),
        contender=("streams of one server", _NEEDS[:3], by_readers),
        at_least=1 / 0.3,
        check=lambda scale, measurements: {},
    ),
)
