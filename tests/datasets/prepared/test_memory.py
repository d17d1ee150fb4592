"""Datasets larger than the memory that is taken for them: prepared, and read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTES = 160
PROGRAM = """
import sys
from pathlib import Path

import numpy as np

import drumline as dl
from drumline.datasets.prepared import writing

writing._LEAST_HELD = writing._MOST_HELD = 16 << 20


def content(n):
    return np.random.default_rng(n).bytes(1 << 20)


class Large(dl.datasets.GeneratorBasedBuilder):
    \"\"\"A megabyte in each example.\"\"\"

    VERSION = "1.0.0"
    FEATURES = {"n": np.int64, "data": bytes}

    def _split_generators(self, dl_manager):
        return {"train": ((n, {"n": n, "data": content(n)}) for n in range(MEGABYTES))}


def resident(name):
    return int(Path("/proc/self/status").read_text().partition(name + ":")[2].split()[0]) // 1024


def peak(run):
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that from now on
    before = resident("VmRSS")
    run()
    print(resident("VmHWM") - before)


def read():
    seen = set()
    config = dl.datasets.ReadConfig(try_autocache=False)  # as for data of more than 250 MiB
    dataset = dl.datasets.load(
        "large", split="train", data_dir=sys.argv[1], download=False, read_config=config
    )
    for example in dataset.shuffle(8, seed=1):
        n = int(example["n"])
        assert example["data"] == content(n)
        seen.add(n)
    assert seen == set(range(MEGABYTES))


dl.datasets.register(Large)
peak(Large(data_dir=sys.argv[1]).download_and_prepare)
peak(read)
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no clear_refs")
def test_nothing_holds_all_of_the_data(tmp_path: Path) -> None:
    """Preparing takes what `OrderedRecords` may hold and a few rows; reading, a buffer of eight."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("MEGABYTES", str(MEGABYTES)), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    preparing, reading = map(int, done.stdout.split())
    assert preparing < 16 + 64, done.stdout
    assert reading < 96, done.stdout
