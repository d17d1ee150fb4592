"""A dataset that stops in the middle of a stage; run by `test_interruptions` as a program.

``python -m tests.datasets.interrupted STAGE URL SIZE SHA256 DATA_DIR [LARGEST FILE]``
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from drumline import datasets
from drumline.datasets.prepared import writing
from drumline.datasets.sources import archives
from drumline.datasets.sources.resource import Resource

COUNT = 40


def content_of(number: int) -> bytes:
    """What the file of an example has in the archive."""
    return bytes([number]) * 9000


class Interrupted(datasets.GeneratorBasedBuilder):
    """Texts in an archive."""

    name = "interrupted"
    VERSION = "1.0.0"
    FEATURES: ClassVar[Any] = {"n": datasets.features.Scalar("int64"), "text": bytes}
    stage = ""

    def _split_generators(self, dl_manager: Any) -> Any:
        folder = dl_manager.download_and_extract(self.RESOURCES["all"])
        with (self.data_root / "prepared.txt").open("a") as file:
            file.write("once\n")
        while self.stage == "together" and not (self.data_root / "go").exists():
            time.sleep(0.01)
        return {split: self._generate_examples(folder) for split in ("train", "test")}

    def _generate_examples(self, folder: Path) -> Any:
        for n in range(COUNT):
            if n == COUNT // 2 and self.stage == "generate":
                pause()
            yield n, {"n": n, "text": (folder / f"{n}.txt").read_bytes()}


def made(stage: str, url: str, size: str, sha256: str, data_dir: str) -> Interrupted:
    """Return the builder whose archive is at a URL."""
    Interrupted.RESOURCES = {"all": Resource(url, int(size), sha256)}
    builder = Interrupted(data_dir=data_dir)
    builder.stage = stage  # type: ignore[misc]
    return builder


def pause() -> None:
    """Tell the test that the place is reached, and wait to be killed."""
    print("paused", flush=True)
    time.sleep(600)


def main(stage: str, url: str, size: str, sha256: str, data_dir: str, largest: str = "") -> None:
    """Prepare the dataset, and stop at a stage."""
    if stage == "extract":
        write = archives._write

        def write_half(contents: Any, target: Path) -> None:
            write(contents, target)
            if target.name == f"{COUNT // 2}.txt":
                pause()

        archives._write = write_half
    if stage == "write":
        sync = writing.sync

        def sync_first(path: Path) -> None:
            sync(path)
            if "test" in path.name:
                pause()

        writing.sync = sync_first
    if largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(largest), resource.RLIM_INFINITY))
    builder = made(stage, url, size, sha256, data_dir)
    if stage == "together":
        print("starts", flush=True)
    builder.download_and_prepare()


if __name__ == "__main__":
    main(*sys.argv[1:])
