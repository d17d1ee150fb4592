"""Metrics as arrays: event files while they are written, CSV logs, samples of what is used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest

import drumline as dl
from drumline._event_files import SummaryFile
from drumline._event_messages import histogram_message, scalar_message
from drumline.jobs.metrics.series import MetricReader
from drumline.jobs.metrics.sessions import use_of
from drumline.jobs.metrics.usage import USAGE, Gpus, UsageSampler


def test_event_files_are_read_while_they_are_written(tmp_path: Path) -> None:
    reader = MetricReader(tmp_path)
    assert reader.read([]) == {}
    file = SummaryFile(tmp_path / "logs" / "train")
    for step in range(3):
        file.add(scalar_message("loss", 1.5 - step), step, 1e9 + step)
    file.add(histogram_message("weights", np.zeros((2, 3))), 3)
    file.flush()
    (found,) = reader.read([]).items()
    assert found[0] == "logs/train/loss"
    np.testing.assert_array_equal(found[1].steps, [0, 1, 2])
    np.testing.assert_array_equal(found[1].values, [1.5, 0.5, -0.5])
    np.testing.assert_array_equal(found[1].times, 1e9 + np.arange(3))
    assert (found[1].steps.dtype, found[1].values.dtype) == (np.int64, np.float64)
    # A record whose end is not there yet is read when it is, and those before it once.
    file.add(scalar_message("loss", -2.5), 4, 1e9 + 4)
    file.add(scalar_message("loss", -3.5), 5, 1e9 + 5)
    file.close()
    whole = Path(file.path).read_bytes()
    for cut in (20, 1):
        Path(file.path).write_bytes(whole[:-cut])
        assert len(reader.read([])["logs/train/loss"]) == 4
    Path(file.path).write_bytes(whole)
    again = reader.read([])["logs/train/loss"]
    np.testing.assert_array_equal(again.steps, [0, 1, 2, 4, 5])
    assert again.last == -3.5 and len(reader.read([])["logs/train/loss"]) == 5


def test_tensorboards_own_reader_finds_the_same(tmp_path: Path) -> None:
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    file = SummaryFile(tmp_path)
    for step in (-3, 0, 2**40):
        file.add(scalar_message("a/b", step / 7), step, 1e9 + step % 11)
    file.close()
    theirs = loading.EventAccumulator(str(tmp_path))
    theirs.Reload()
    wanted = theirs.Tensors("a/b")
    found = MetricReader(tmp_path).read([])["a/b"]
    order = np.argsort([each.wall_time for each in wanted], kind="stable")
    assert found.steps.tolist() == [wanted[i].step for i in order]
    assert found.values.tolist() == [wanted[i].tensor_proto.float_val[0] if wanted[
        i].tensor_proto.float_val else np.frombuffer(
            wanted[i].tensor_proto.tensor_content, "<f4")[0] for i in order]  # fmt: skip


def test_a_step_profile_for_prometheus_becomes_a_curve(tmp_path: Path) -> None:
    """Written by `StepProfiler` itself, read after each epoch."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(loss="mse")
    path = tmp_path / "profiles" / "steps.prom"
    path.parent.mkdir()
    profiler = dl.keras.callbacks.StepProfiler(prometheus=path)
    reader, counts, texts = MetricReader(tmp_path), [], []
    inputs, targets = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
    for _ in range(2):
        model.fit(inputs, targets, batch_size=2, verbose=0, callbacks=[profiler])
        os.utime(path, ns=(0, time.time_ns()))
        found = reader.read([])
        counts.append(len(found["profiles/steps/drumline_step_steps_total"]))
        texts.append(path.read_text())
    assert counts == [1, 2] and len(reader.read([])["profiles/steps/drumline_step_rows_total"]) == 2
    steps = found["profiles/steps/drumline_step_steps_total"]
    assert steps.steps.tolist() == steps.values.tolist()
    for text, value in zip(texts, steps.values, strict=True):
        assert f"drumline_step_steps_total {value:g}\n" in text
    parts = [
        name for name in found if name.startswith("profiles/steps/drumline_step_seconds_total/")
    ]
    assert len(parts) == texts[0].count("drumline_step_seconds_total{part=")


def test_prometheus_files_of_other_programs(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text(
        '# HELP x of\n# TYPE x gauge\nx{host="a b",path="c\\"d}"} 1.5 1700000000000\n'
        "y_total 3e2\nz NaN\nbroken line here\n w 1\nv +Inf\n"
    )
    found = MetricReader(tmp_path).read([])
    assert {name: series.values.tolist() for name, series in found.items()} == {
        'a/x/a b/c\\"d}': [1.5],
        "a/y_total": [300],
    }
    assert found["a/y_total"].steps.tolist() == [0]


def test_several_runs_and_several_processes_that_write_the_same(tmp_path: Path) -> None:
    start = tmp_path / "attempt-1"
    start.mkdir()
    pids = {"worker:0": 4000001, "worker:1": 4000002}
    (start / USAGE).write_text(json.dumps({"pids": pids}) + "\n")
    work = tmp_path / "work"
    for run in ("train", "validation"):
        for position, pid in enumerate((*pids.values(), 4000001)):
            file = SummaryFile(work / run)
            file.add(scalar_message("loss", pid - 4e6), position, 1e9 + position)
            file.close()
            name = Path(file.path).name.split(".")
            name[-3] = str(pid)
            Path(file.path).rename(work / run / ".".join(name))
    found = MetricReader(work).read([start])
    assert sorted(found) == [
        "train/loss",
        "train/loss (worker:1)",
        "validation/loss",
        "validation/loss (worker:1)",
    ]
    assert found["train/loss"].values.tolist() == [1, 1]
    assert found["train/loss (worker:1)"].values.tolist() == [2]


def test_what_is_damaged_ends_no_reading(tmp_path: Path) -> None:
    file = SummaryFile(tmp_path)
    file.add(scalar_message("loss", 1.0), 0)
    file.add(b"\xff\xff\xff no message", 1)
    file.add(scalar_message("loss", 2.0), 2)
    file.close()
    (tmp_path / "events.out.tfevents.1.h.1.0.v2").write_bytes(os.urandom(200))
    (tmp_path / "epoch.csv").write_bytes(b"epoch,loss\n0,\xff\nx,1\n1,0.5,7\n2")
    (tmp_path / "other.csv").write_text("name,loss\na,1\n")
    reader = MetricReader(tmp_path)
    found = reader.read([])
    assert found["loss"].values.tolist() == [1.0, 2.0]
    assert (found["epoch/loss"].steps.tolist(), sorted(found)) == ([1], ["epoch/loss", "loss"])


def test_what_keras_csv_logger_writes(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((8, 2), np.float32)
    reader = MetricReader(tmp_path)
    histories = []
    for _ in range(2):
        log = keras.callbacks.CSVLogger(str(tmp_path / "log.csv"), append=True)
        data = {"validation_data": (x, x[:, :1]), "verbose": 0, "callbacks": [log]}
        histories += [model.fit(x, x[:, :1], epochs=3, **data).history]
        found = reader.read([])
    for name in ("loss", "val_loss"):
        series = found[f"log/{name}"]
        wanted = [value for history in histories for value in history[name]]
        np.testing.assert_allclose(series.values, wanted, rtol=1e-6)
        assert series.steps.tolist() == [0, 1, 2, 0, 1, 2] and np.isnan(series.times).all()


BUSY = """
import os, sys, time
if os.fork() == 0:
    time.sleep(60)
block = bytearray(64 << 20)
while True:
    pass
"""


def test_what_processes_use_is_sampled_with_all_that_they_started(tmp_path: Path) -> None:
    busy = subprocess.Popen([sys.executable, "-S", "-c", BUSY], start_new_session=True)
    idle = subprocess.Popen(["sleep", "60"], start_new_session=True)
    processes, file = tmp_path / "processes.json", tmp_path / USAGE
    try:
        while use_of([busy.pid])[busy.pid].memory < 64 << 20:
            time.sleep(0.02)
        sampler = UsageSampler(file, processes)
        sampler.sample()
        assert not file.exists(), "there are no processes yet"
        tasks = {"worker:0": {"pid": busy.pid, "gpus": ""}, "ps:0": {"pid": idle.pid, "gpus": ""}}
        processes.write_text(json.dumps(tasks))
        ticks = os.sysconf("SC_CLK_TCK")
        for _ in range(3):
            sampler.sample()
            time.sleep(0.5)
        stat = Path(f"/proc/{busy.pid}/stat").read_text().rpartition(")")[2].split()
        share = (int(stat[11]) + int(stat[12])) / ticks
    finally:
        os.killpg(busy.pid, signal.SIGKILL)
        idle.kill()
        busy.wait(), idle.wait()
    found = MetricReader(tmp_path).read([tmp_path])
    assert sorted(found) == ["cpu/ps:0", "cpu/worker:0", "memory/ps:0", "memory/worker:0"]
    assert len(found["cpu/worker:0"]) == 2 and found["cpu/ps:0"].values.max() < 0.05
    assert 0 < found["cpu/worker:0"].last <= 1.1 and share > 0
    assert found["memory/worker:0"].last > 64 << 20 > found["memory/ps:0"].last
    assert found["cpu/worker:0"].steps.tolist()[0] == 0


def test_samples_of_a_long_job_are_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drumline.jobs.metrics import usage

    monkeypatch.setattr(usage, "_MOST_SAMPLES", 16)
    processes, file = tmp_path / "processes.json", tmp_path / USAGE
    processes.write_text(json.dumps({"worker:0": {"pid": os.getpid(), "gpus": ""}}))
    monkeypatch.setattr(usage, "use_of", lambda pids: dict.fromkeys(pids, use))
    use = usage.SessionUse({1: 0.0}, 0)
    sampler, reader = UsageSampler(file, processes), MetricReader(tmp_path)
    for number in range(200):
        use = usage.SessionUse({1: float(number)}, number)
        sampler.sample()
        counts = len(reader.read([tmp_path]).get("memory/worker:0", ()))
        assert counts <= 16 and (counts >= 8 or number < 9)
    assert sampler.seconds == 32
    found = reader.read([tmp_path])["memory/worker:0"].values
    assert found[0] == 1 and found[-1] == 199 and (np.diff(found) > 0).all()
    assert reader.read([tmp_path])["cpu/worker:0"].values.size == found.size


NVML = """
#include <string.h>
typedef struct { unsigned gpu, memory; } use;
typedef struct { unsigned long long total, free, used; } memory;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h)
{ *h = (void *)(unsigned long)(i + 1); return i < 2 ? 0 : 2; }
int nvmlDeviceGetHandleByUUID(const char *u, void **h)
{ *h = (void *)2ul; return strcmp(u, "GPU-b") ? 6 : 0; }
int nvmlDeviceGetUtilizationRates(void *h, use *u) { u->gpu = 25 * (unsigned long)h; return 0; }
int nvmlDeviceGetMemoryInfo(void *h, memory *m) { m->used = 1ull << (32 + (long)h); return 0; }
"""


def test_gpus_are_asked_by_number_and_by_uuid(tmp_path: Path) -> None:
    source, library = tmp_path / "nvml.c", tmp_path / "libnvml.so"
    source.write_text(NVML)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    gpus = Gpus(str(library))
    assert gpus.use_of(["0"]) == (0.25, 2**33)
    assert gpus.use_of(["0", "GPU-b"]) == (0.375, 2**33 + 2**34)
    assert gpus.use_of(["7", "GPU-none"]) == (None, None)
    assert Gpus("no-such-library.so").use_of(["0"]) == (None, None)
