"""Keras's own tests, with drumline imported and under two replicas: ``make test-keras``.

The tests are those of the installed Keras package. What passes in plain Keras must pass with
drumline, or stand in ``exceptions.toml`` with its reason; and what stands there must fail. A test
that fails with drumline and is not listed is run in plain Keras before it counts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PARTS = (
    "trainers",
    "layers",
    "optimizers",
    "metrics",
    "losses",
    "callbacks",
    "models",
    "saving",
)
WAYS = ("imported", "replicated")


@dataclass(frozen=True)
class Suite:
    """What is run, and where results go.

    Attributes:
        parts: folders and files of Keras's source, as ``layers/core``.
        share: every how many tests one is run.
        folder: for results and compiled programs.
        processes: how many run tests.
    """

    parts: tuple[str, ...]
    share: int
    folder: Path
    processes: int = 1

    def run(self, way: str, names: Sequence[str] = ()) -> dict[str, dict[str, str]]:
        """Run the tests, or those of these names alone, and return what came of each by name."""
        source = _keras_source()
        results = self.folder / f"{way}.json"
        results.unlink(missing_ok=True)
        wanted = self.folder / f"{way}.txt"
        wanted.write_text("\n".join(str(source / name) for name in names or self.parts))
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-rN", "--show-capture=no"]
        command += ["--durations=10"]
        command += ["-c", str(HERE / "settings.ini"), "--rootdir", str(source.parents[1])]
        command += ["-p", "tests.keras_suite.plugin", "-p", "no:cacheprovider", f"@{wanted}"]
        if self.processes > 1:
            command += ["-n", str(self.processes), "--dist", "loadfile"]
        environment = {
            **os.environ,
            "KERAS_SUITE_WAY": way,
            "KERAS_SUITE_SHARE": "1" if names else str(self.share),
            "KERAS_SUITE_RESULTS": str(results),
            "KERAS_SUITE_COMPILED": str(self.folder / "compiled"),
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # to compile is most of what these tests do
            "PYTHONPATH": str(HERE.parents[1]),
        }
        print(f"== {way}" + (f", {len(names)} that failed" if names else ""), flush=True)
        subprocess.run(command, env=environment, cwd=HERE.parents[1], check=False)
        if not results.exists():
            raise SystemExit(f"The tests of the way {way!r} ended before their results were known.")
        found: dict[str, dict[str, str]] = json.loads(results.read_text())
        return {name.partition("keras/src/")[2]: result for name, result in found.items()}

    def complaints(self, way: str, excepted: frozenset[str]) -> list[str]:
        """What is wrong with a way of running the tests: failures, and exceptions that are none."""
        found = self.run(way)
        failed = [name for name, result in found.items() if result["outcome"] == "failed"]
        listed = [name for name in excepted if self._includes(name)]
        said = [
            f"{way}: {name} is listed in exceptions.toml, but {found[name]['outcome']}"
            if name in found
            else f"{way}: {name} is listed in exceptions.toml, but there is no such test"
            for name in listed
            if found.get(name, {}).get("outcome") != "failed"
        ]
        unknown = [name for name in failed if name not in excepted]
        if unknown:
            plain = self.run("plain", unknown)
            said += [
                f"{way}: {name} fails, but passes in plain Keras:\n{found[name]['message']}"
                for name in unknown
                if plain.get(name, {}).get("outcome") != "failed"
            ]
        return said

    def _includes(self, name: str) -> bool:
        chosen = zlib.crc32(f"keras/src/{name}".encode()) % self.share == 0
        return chosen and any(name.startswith(part) for part in self.parts)


def exceptions(way: str) -> frozenset[str]:
    """The names of the tests that may fail in this way, without ``keras/src/``.

    Raises:
        ValueError: if an entry gives no reason, or another way than there are.
    """
    listed: list[dict[str, Any]] = tomllib.loads((HERE / "exceptions.toml").read_text())[
        "exception"
    ]
    for each in listed:
        if each["way"] not in WAYS or not each["reason"].strip():
            raise ValueError(f"An entry of exceptions.toml has no way or no reason: {each}")
    return frozenset(name for each in listed if each["way"] == way for name in each["tests"])


def _keras_source() -> Path:
    spec = importlib.util.find_spec("keras")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "src"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help="as layers/core; all if none")
    parser.add_argument("--way", action="append", choices=WAYS, help="by default both")
    parser.add_argument("--share", type=int, default=1, help="run every n-th test")
    parser.add_argument("--processes", "-n", type=int, default=1, help="that run tests")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drumline-keras-suite-") as folder:
        suite = Suite(tuple(arguments.parts), arguments.share, Path(folder), arguments.processes)
        said = [
            complaint
            for way in arguments.way or WAYS
            for complaint in suite.complaints(way, exceptions(way))
        ]
    print("\n".join(said) if said else "Keras's tests pass as in plain Keras, or are listed.")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
