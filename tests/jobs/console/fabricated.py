"""A workspace as it would be after some days of work, without the work: jobs, logs, curves.

Nothing in it runs, and no supervisor may be started for it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import sqlite3
import time
from pathlib import Path
from typing import Any

from drumline._event_files import SummaryFile
from drumline._event_messages import scalar_message
from drumline.jobs.file.model import Code, Job, JobData, JobRole
from drumline.jobs.store.database import Store

GIB = 1 << 30
_BOLD, _DIM, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_GREEN, _YELLOW, _CYAN, _WHITE = "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[37m"
_GIT = "https://git.example.com/ada/{}.git"


def workspace(home: Path, now: float | None = None) -> Store:
    """Fill a folder with a workspace of 34 jobs, and return its store."""
    home.mkdir(parents=True, exist_ok=True)
    for folder in ("jobs", "secrets", "saved/code", "saved/data", "engines"):
        (home / folder).mkdir(exist_ok=True, mode=0o700, parents=True)
    store = Store(home)
    now = time.time() if now is None else now
    rng = random.Random(7)
    for i in range(26):
        _past(store, rng, i, now - 4 * 86400 + i * 12600)
    _failed(store, now - 9400)
    _pair(store, rng, now - 30 * 3600)
    _running(store, rng, now - 47 * 60)
    small = Job("tokenizer-sweep", ("python", "sweep.py"), roles={"workers": JobRole(1, 2)})
    number = _queued(store, small, now - 900)
    _set(store, number, "running", started=now - 880)
    _queued(
        store,
        Job(
            "bert-finetune-large",
            ("python", "finetune.py", "--model", "large"),
            roles={"workers": JobRole(4, 8, 32 * GIB, 1)},
        ),
        now - 1500,
        "waits for 4 gpus; 1 of 8 is free",
    )
    _queued(
        store,
        Job("digits-nightly", ("python", "train.py"), engine="lab-slurm", priority=3),
        now - 240,
        "Slurm: Resources; 3 jobs before it",
    )
    _named(home)
    return store


def many(store: Store, count: int) -> None:
    """Add jobs that have ended, as rows only."""
    job = Job("sweep", ("python", "train.py"))
    now = time.time()
    with sqlite3.connect(store.home / "jobs.sqlite") as db:
        rows = []
        for i in range(count):
            named = dataclasses.replace(job, name=f"sweep-{i % 97}-lr-{i}")
            began = now - 86400 * 30 + i * 200
            fields: dict[str, Any] = {
                "name": named.name,
                "spec": named.to_json(),
                "state": "failed" if i % 11 == 0 else "succeeded",
                "reason": "worker:0 ended with exit code 1" if i % 11 == 0 else "",
                "priority": 5,
                "submitted": began,
                "started": began + 20,
                "ended": began + 150,
                "words": named.name,
            }
            rows.append(tuple(fields.values()))
        marks = ", ".join("?" * len(fields))
        db.executemany(f"insert into jobs({', '.join(fields)}) values({marks})", rows)


def add_log(home: Path, number: int, name: str, content: bytes, attempt: int = 1) -> Path:
    """Write the log of a process of a job on this machine, and return its path."""
    path = home / "jobs" / str(number) / f"attempt-{attempt}" / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def started(store: Store, job: Job, at: float | None = None) -> int:
    """A job that seems to run."""
    at = time.time() - 60 if at is None else at
    number = _queued(store, job, at)
    _set(store, number, "running", started=at + 2)
    return number


def _queued(store: Store, job: Job, at: float, reason: str = "") -> int:
    number = store.submit(job)
    store.queue(number, job)
    with store.change():
        if reason:
            store.set_reason(number, reason)
    _sql(store, "update jobs set submitted=? where id=?", at, number)
    _sql(store, "update events set time=? where job=?", at, number)
    return number


def _set(
    store: Store,
    number: int,
    state: str,
    reason: str = "",
    started: float | None = None,
    ended: float | None = None,
) -> None:
    if started is not None:
        with store.change():
            store.set_state(number, "starting", "", "starting", "attempt 1")
            store.add_attempt(number, 1, f"{number}/attempt-1")
        _sql(store, "update attempts set started=? where job=?", started, number)
        _sql(store, "update jobs set started=? where id=?", started, number)
        _sql(store, "update events set time=? where job=? and kind='starting'", started, number)
        with store.change():
            store.set_state(number, "running", "", "running", "")
        _sql(store, "update events set time=? where job=? and kind='running'", started + 3, number)
    if state != "running":
        with store.change():
            if started is not None:
                store.end_attempt(number, 1, 0 if state == "succeeded" else 1, reason)
            store.set_state(number, state, reason)
        _sql(store, "update jobs set ended=? where id=?", ended, number)
        _sql(store, "update attempts set ended=? where job=?", ended, number)
        _sql(store, "update events set time=? where job=? and kind=?", ended, number, state)


def _sql(store: Store, statement: str, *values: Any) -> None:
    with sqlite3.connect(store.home / "jobs.sqlite", timeout=30) as db:
        db.execute(statement, values)


def _past(store: Store, rng: random.Random, i: int, at: float) -> None:
    names = (
        *("mnist-baseline", "cifar-resnet20", "wide-and-deep-ctr", "speech-commands"),
        *("translation-small", "criteo-dcn", "unet-pets", "digits-ps"),
    )
    name = names[i % len(names)]
    job = Job(
        f"{name}-{chr(97 + i % 5)}" if i % 3 else name,
        ("python", "train.py", "--epochs", str(4 + i % 9)),
        code=Code(git=_GIT.format(name), commit="9f31c0de77a1", at="/root/code"),
        roles={"workers": JobRole(1 + i % 3, 4, 16 * GIB, 1)},
        engine="lab-slurm" if i % 4 == 1 else "local",
        priority=3 + i % 4,
    )
    number = _queued(store, job, at)
    took = rng.uniform(200, 9000)
    if i % 9 == 4:
        _set(store, number, "cancelled", "cancelled", at + 40, at + took)
    elif i % 7 == 3:
        reason = rng.choice(
            (
                "worker:1 failed first: exit code 1: FileNotFoundError: /mnt/data/train-00031",
                "worker:0 was killed by the kernel: out of memory",
                "it ran longer than its timeout, 7200 s",
            )
        )
        _set(store, number, "failed", reason, at + 30, at + took)
    else:
        _set(store, number, "succeeded", "", at + 12, at + took)


def _failed(store: Store, at: float) -> None:
    job = Job(
        "unet-pets-augmented",
        ("python", "train.py", "--augment", "heavy"),
        code=Code(git=_GIT.format("unet-pets"), commit="27be41c9d0f3", at="/root/code"),
        roles={"workers": JobRole(2, 4, 16 * GIB, 1)},
        restarts=2,
    )
    number = _queued(store, job, at)
    reason = (
        "worker:1 failed first, 0.4 s before worker:0: exit code 1\n"
        "Traceback (most recent call last):\n"
        '  File "/root/code/train.py", line 84, in <module>\n'
        "    main()\n"
        '  File "/root/code/train.py", line 61, in main\n'
        "    masks = augment(masks, strength=flags.augment)\n"
        "ValueError: masks must have one channel, got shape (32, 128, 128, 3)"
    )
    _set(store, number, "failed", reason, at + 8, at + 190)
    add_log(store.home, number, "worker-0", b"Found 2 workers.\nEpoch 1/20\n")
    add_log(store.home, number, "worker-1", reason.encode() + b"\n")
    _sql(store, "update jobs set restarts=2 where id=?", number)


def _pair(store: Store, rng: random.Random, at: float) -> None:
    for rate, name, floor in ((0.4, "resnet50-lr-0-4", 1.02), (0.1, "resnet50-lr-0-1", 1.21)):
        job = Job(
            name,
            ("python", "train.py", "--rate", str(rate), "--epochs", "90"),
            code=Code(git=_GIT.format("resnet50"), commit="c41d88ab9012", at="/root/code"),
            data=(JobData("nfs://nas/imagenet", "/mnt/imagenet"),),
            roles={"workers": JobRole(4, 8, 64 * GIB, 2)},
            env={"RATE": str(rate), "BATCH": "1024"},
            priority=6 if rate == 0.4 else 5,
        )
        number = _queued(store, job, at)
        _set(store, number, "succeeded", "", at + 20, at + 9 * 3600)
        _curves(store.home, number, rng, at, 90, 360, floor, 6.9, 0.05 if rate == 0.4 else 0.033)
        add_log(store.home, number, "worker-0", b"Epoch 90/90\nloss: 1.0214\n")


def _running(store: Store, rng: random.Random, at: float) -> None:
    job = Job(
        "vit-cifar-distributed",
        ("python", "train.py", "--epochs", "60", "--mixup", "0.2"),
        code=Code(git=_GIT.format("vit-cifar"), commit="8d02f7a64e11", at="/root/code"),
        data=(
            JobData("nfs://nas/cifar", "/mnt/cifar"),
            JobData("s3://team/out/vit", "/mnt/out", True),
        ),
        roles={
            "workers": JobRole(3, 4, 16 * GIB, 1),
            "ps": JobRole(1, 2, 8 * GIB),
            "evaluator": JobRole(1, 2, 8 * GIB),
        },
        env={"BATCH": "256"},
        secrets=("WANDB_API_KEY",),
        restarts=3,
        timeout=43200,
        priority=7,
    )
    number = _queued(store, job, at)
    _set(store, number, "running", started=at + 6)
    _sql(
        store,
        "insert into events(job, time, kind, text) values(?, ?, 'data', ?)",
        number,
        at + 31,
        "/mnt/cifar is nfs://nas/cifar, read only",
    )
    attempt = store.home / "jobs" / str(number) / "attempt-1"
    names = ["worker:0", "worker:1", "worker:2", "ps:0", "evaluator:0"]
    attempt.joinpath("logs").mkdir(parents=True, exist_ok=True)
    pids = {name: {"pid": 41200 + i, "gpus": None} for i, name in enumerate(names)}
    (attempt / "logs" / "processes.json").write_text(json.dumps(pids))
    with open(attempt / "usage.jsonl", "w") as file:
        file.write(json.dumps({"pids": {name: each["pid"] for name, each in pids.items()}}) + "\n")
        for i in range(240):
            line: dict[str, Any] = {"t": at + 10 + i * 11.6}
            for name in names:
                kind = name.partition(":")[0]
                busy = 1 - math.exp(-i / 6)
                cpu = {"worker": 3.1, "ps": 1.3, "evaluator": 0.7}[kind] * busy
                cpu *= rng.uniform(0.86, 1.12)
                memory = (
                    {"worker": 5.4, "ps": 2.2, "evaluator": 3.1}[kind] * GIB * (0.6 + 0.4 * busy)
                )
                gpu = rng.uniform(0.82, 0.97) * busy if kind == "worker" else None
                taken = int(14.2 * GIB) if kind == "worker" else None
                line[name] = [round(cpu, 3), int(memory), gpu, taken]
            file.write(json.dumps(line) + "\n")
    _curves(store.home, number, rng, at, 23, 196, 0.42, 2.3, 0.11)
    for name in names:
        add_log(store.home, number, name.replace(":", "-"), _training_log(rng, name))
    add_log(store.home, number, "../launch", b"5 processes on 1 host\n")
    kept = store.home / "jobs" / str(number) / "work" / "checkpoints"
    kept.mkdir(parents=True)
    for epoch in (20, 21, 22):
        (kept / f"ckpt-{epoch}.safetensors").write_bytes(bytes(int(3.2e6)))


def _curves(
    home: Path,
    number: int,
    rng: random.Random,
    at: float,
    epochs: int,
    steps: int,
    floor: float,
    top: float,
    speed: float,
) -> None:
    logs = home / "jobs" / str(number) / "work" / "logs"
    runs = {name: SummaryFile(logs / name) for name in ("train", "validation")}
    for epoch in range(epochs):
        when = at + 60 + epoch * 118
        loss = floor + (top - floor) * math.exp(-speed * epoch)
        for name, file in runs.items():
            off = 0.0 if name == "train" else 0.06 + 0.004 * epoch
            value = (loss + off) * rng.uniform(0.97, 1.03)
            accuracy = max(0.0, 1 - 0.42 * value / (1 + 0.25 * value)) * rng.uniform(0.985, 1.0)
            file.add(scalar_message("epoch_loss", value), epoch, when)
            file.add(scalar_message("epoch_accuracy", accuracy), epoch, when)
    for step in range(0, epochs * steps, max(1, epochs * steps // 700)):
        when = at + 60 + step / steps * 118
        share = step / (epochs * steps)
        rate = 1e-3 * min(1, step / (2 * steps)) * 0.5 * (1 + math.cos(math.pi * share))
        loss = floor + (top - floor) * math.exp(-speed * step / steps)
        noisy = loss * rng.lognormvariate(0, 0.06)
        runs["train"].add(scalar_message("learning_rate", rate), step, when)
        runs["train"].add(scalar_message("batch_loss", noisy), step, when)
    for file in runs.values():
        file.close()


def _training_log(rng: random.Random, name: str) -> bytes:
    kind = name.partition(":")[0]
    lines = [f"{_DIM}2026-11-27 12:03:11{_OFF} {_CYAN}{name}{_OFF} joins 5 processes"]
    if kind == "ps":
        lines += [f"{_GREEN}Serves{_OFF} 86 variables (22.1 MiB) to 3 workers."]
    for epoch in range(1, 24):
        if kind == "worker":
            lines.append(f"{_BOLD}Epoch {epoch}/60{_OFF}")
            loss = 0.42 + 1.9 * math.exp(-0.11 * epoch)
            bars = "\r".join(_bar(step) for step in (20, 96, 150, 196))
            lines.append(
                f"{bars} 590ms/step - accuracy: {0.98 - 0.3 * loss:.4f} - "
                f"loss: {loss * rng.uniform(0.98, 1.02):.4f} - "
                f"val_accuracy: {0.96 - 0.31 * loss:.4f} - val_loss: {loss + 0.09:.4f}\x1b[K"
            )
            if epoch == 21:
                text = "<script>alert('it stays text')</script> is in 3 labels"
                lines.append(f"{_YELLOW}WARNING{_OFF} {text}")
        elif kind == "evaluator":
            lines.append(f"Evaluated ckpt-{epoch}: accuracy {0.66 + 0.01 * epoch:.4f}")
    return ("\n".join(lines) + "\n").encode()


def _bar(step: int) -> str:
    """The progress bar of Keras, which is written over by the next."""
    done, left = "━" * (step * 20 // 196), "━" * (20 - step * 20 // 196)
    return f"{_BOLD}{step}/196{_OFF} {_GREEN}{done}{_OFF}{_WHITE}{left}{_OFF} {_BOLD}116s{_OFF}"


def _named(home: Path) -> None:
    code = {
        "vit-cifar": {
            "git": _GIT.format("vit-cifar"),
            "commit": "main",
            "user": "ada",
            "token": "GIT_TOKEN",
        },
        "digits": {"folder": "/home/ada/digits"},
    }
    data = {
        "imagenet": {"from": "nfs://nas/imagenet", "at": "/mnt/imagenet"},
        "cifar": {"from": "dataset://cifar10"},
        "results": {"from": "s3://team/out", "at": "/mnt/out", "write": True},
    }
    for kind, named in (("code", code), ("data", data)):
        for name, fields in named.items():
            (home / "saved" / kind / f"{name}.json").write_text(json.dumps(fields))
    for name in ("GIT_TOKEN", "HF_TOKEN", "WANDB_API_KEY"):
        path = home / "secrets" / name
        path.write_text(f"{name.lower()}-7f3e-not-a-real-one")
        path.chmod(0o600)
    settings = {"shared": "/shared/drumline", "partition": "gpu"}
    hosts = {"hosts": ["node1", "node2"], "folder": "~/.drumline-jobs", "options": [], "gpus": -1}
    for name, kind, fields in (("lab-slurm", "slurm", settings), ("lab-hosts", "ssh", hosts)):
        record = {"kind": kind, "settings": fields}
        (home / "engines" / f"{name}.json").write_text(json.dumps(record))
