"""Measures which lines of the Rust parsers the Rust tests run; fails where they are below 95 %.

Needs LLVM's tools: ``rustup component add llvm-tools``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUST = ROOT / "rust"
TARGET = RUST / "target" / "coverage"
PROFILES = TARGET / "profiles"
LEAST = 95.0

PARSERS = (
    *(f"formats/{name}" for name in ("csv", "examples", "records", "tar", "tensors", "wav")),
    *("images/jpeg", "images", "strings"),
)
"""What reads bytes that others wrote, in rust/src: a file is of the first that its name fits."""

NO_PARSERS = (
    "tests.rs",
    *(f"images/{name}" for name in ("arithmetic", "arrange", "encode", "resize")),
)

Lines = Mapping[int, bool]
"""A file's lines of code, and whether they ran."""


def main() -> str | None:
    """Runs the tests; returns what falls short."""
    files = _files(_tested())
    found: dict[str, list[bool]] = {name: [] for name in (*PARSERS, "all parsers")}
    for name, lines in files.items():
        print(f"{_share([*lines.values()])}  {name}{_missed(lines)}")
        for whole in (_parser(name) or "", "all parsers"):
            found[whole].extend(lines.values())
    print()
    for name, ran in found.items():
        print(f"{_share(ran)}  {name}")
    short = [name for name, ran in found.items() if 100 * sum(ran) < LEAST * len(ran)]
    return f"less than {LEAST:g} % of the lines ran: {', '.join(short)}" if short else None


def _parser(name: str) -> str | None:
    if any(word in name for word in NO_PARSERS):
        return None
    parsers = (parser for parser in PARSERS if name.startswith((f"{parser}/", f"{parser}.rs")))
    return next(parsers, None)


def _share(ran: Sequence[bool]) -> str:
    return f"{100 * sum(ran) / max(len(ran), 1):6.1f} %  {sum(ran):4} of {len(ran):4}"


def _missed(lines: Lines) -> str:
    """The lines that did not run, neighbours as one range."""
    runs = groupby(sorted(lines), key=lambda line: lines[line])
    ranges = [[*run] for ran, run in runs if not ran]
    texts = [f"{r[0]}" if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in ranges]
    return f": not {', '.join(texts)}" if texts else ""


def _tested() -> list[Path]:
    """The programs of tests, which left their profiles."""
    shutil.rmtree(PROFILES, ignore_errors=True)
    command = ["cargo", "test", "--no-run", "--locked", "--no-default-features"]
    output = _run([*command, "--message-format", "json-render-diagnostics"])
    messages: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    programs = [Path(m["executable"]) for m in messages if m.get("executable")]
    for program in programs:
        print(_run([program, "-q"]), flush=True)
    return programs


def _files(programs: Sequence[Path]) -> dict[str, Lines]:
    """The lines of each file of a parser."""
    merged = TARGET / "merged.profdata"
    _run([_tool("llvm-profdata"), "merge", "-sparse", *PROFILES.iterdir(), "-o", merged])
    first, *others = programs
    objects = [word for path in others for word in ("-object", path)]
    command = [_tool("llvm-cov"), "export", "-format=lcov", f"-instr-profile={merged}"]
    sources = f"SF:{RUST / 'src'}{os.sep}"
    found = {}
    for record in _run([*command, first, *objects]).split("end_of_record\n"):
        source, _, counts = record.partition("\n")
        name = source.removeprefix(sources)
        if source.startswith(sources) and _parser(name) is not None:
            end = _tests_begin(RUST / "src" / name)
            lines = re.findall(r"^DA:(\d+),(\d+)", counts, re.MULTILINE)
            found[name] = {int(line): count != "0" for line, count in lines if int(line) < end}
    return dict(sorted(found.items()))


def _tests_begin(path: Path) -> int:
    """The line from which on a file holds tests alone."""
    text = path.read_text()
    tests = re.search(r"^#\[cfg\(.*\btest\b.*\)\]\nmod \w+ \{", text, re.MULTILINE)
    return (text[: tests.start()] if tests else text).count("\n") + 1


def _tool(name: str) -> Path:
    sysroot = Path(_run(["rustc", "--print", "sysroot"]).strip())
    for tool in sysroot.glob(f"lib/rustlib/*/bin/{name}"):
        return tool
    sys.exit(f"{name} is not there: rustup component add llvm-tools")


def _run(command: Sequence[str | Path]) -> str:
    """What a command prints; an error ends it all."""
    environment = os.environ | {
        "RUSTFLAGS": "-C instrument-coverage",
        "CARGO_TARGET_DIR": str(TARGET),
        "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
        "LLVM_PROFILE_FILE": str(PROFILES / "%p-%m.profraw"),
    }
    done = subprocess.run(command, cwd=RUST, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, command))} failed")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
