"""Trainings that go wrong in one of the processes."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import keras

import drumline as dl
from tests.distribute.multi_worker import trainings

AT_BATCH = 3


def member(fault: str, heartbeat: int = 25, timeout: float | None = None) -> None:
    """In a process of a cluster: train by `fit` for long; one of them has a fault soon."""
    strategy = dl.distribute.MultiWorkerMirroredStrategy(
        communication_options=dl.distribute.CommunicationOptions(timeout_seconds=timeout),
        heartbeat_timeout_seconds=heartbeat,
    )
    model = trainings.build(strategy)
    has_fault = strategy.process_index == (0 if fault == "leaves" else 1)

    def on_train_batch_end(batch: int, logs: Any) -> None:
        if batch == AT_BATCH:
            print(json.dumps({"facts": {"training": True}, "time": time.time()}), flush=True)
        if batch == AT_BATCH and has_fault:
            _happen(fault)
        if fault == "none":
            time.sleep(0.05)

    model.fit(
        trainings.in_order().repeat(),
        steps_per_epoch=100_000,
        verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=on_train_batch_end)],
    )


def _happen(fault: str) -> None:
    match fault:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raises":
            raise ArithmeticError("the learning rate fell off the table")
        case "sleeps":
            time.sleep(1_000)
        case "leaves":
            sys.exit(0)
        case "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
