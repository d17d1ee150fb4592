"""A parameter server, asked as its clients ask it, and updates of Keras's optimizers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import keras
import numpy as np
import pytest

from drumline.distribute.parameter_server.compiler.update import export_update, native_optimizer
from drumline.distribute.parameter_server.server import ParameterServer
from drumline.distribute.parameter_server.server.optimizer_updates import OptimizerUpdate
from drumline.distribute.parameter_server.server.shard import ServerShard
from drumline.distribute.parameter_server.wire.codec import Message

RULES: dict[Any, OptimizerUpdate] = {}
"""They are exported and compiled once for all tests."""


class Client:
    """Asks a parameter server, and waits for its replies."""

    def __init__(self, server: ParameterServer) -> None:
        self.server = server
        self._handlers = server.handlers()

    def start(self, op: str, header: dict[str, Any], arrays: Sequence[Any] = ()) -> Any:
        sent = json.loads(json.dumps(header))  # as another process would see it
        return self._handlers[op](Message(sent, [np.asarray(each) for each in arrays]))

    def ask(self, op: str, header: dict[str, Any], arrays: Sequence[Any] = ()) -> Message:
        reply = self.start(op, header, arrays)
        reply = reply.result(10) if isinstance(reply, Future) else reply
        return Message(json.loads(json.dumps(reply.header)), reply.arrays)

    def create(self, name: str, value: Any, table: bool = False, start: int = 0) -> None:
        value = np.asarray(value)
        header = {
            "name": name,
            "shape": list(value.shape),
            "dtype": str(value.dtype),
            "table": table,
            "start": start,
        }
        self.ask("create", header, [value])

    def attach(
        self,
        name: str,
        optimizer: keras.optimizers.Optimizer,
        rule: str = "r",
        formula: bool = True,
    ) -> None:
        part = self.server._shards.get(name)
        config = repr({**optimizer.get_config(), "name": None})
        key = (rule, type(optimizer), config, part.shape, part.dtype, part.is_table, formula)
        rules = self.server._updates
        if key not in RULES:
            self.send_rule(rule, part, optimizer, formula)
            RULES[key] = rules.get(rule)
        rules.add(RULES[key])
        values = {"learning_rate": float(optimizer.learning_rate)}
        self.ask("set_hyperparameters", {"update": rule, "values": values})
        self.ask("attach", {"name": name, "update": rule})

    def send_rule(
        self,
        rule: str,
        part: ServerShard,
        optimizer: keras.optimizers.Optimizer,
        formula: bool = True,
    ) -> None:
        program, slots = export_update(
            optimizer, part.shape, str(part.dtype), part.is_table, platforms=("cpu",)
        )
        header = {"update": rule, "sparse": part.is_table, "slots": slots}
        if formula:
            header["native"] = native_optimizer(optimizer, str(part.dtype))
        self.ask("define_update", header, [np.frombuffer(program, np.uint8)])

    def push(self, name: str, kind: str, *arrays: Any, closure: str | None = None) -> bool:
        header = {"closure": closure, "push": [{"name": name, "kind": kind}]}
        (applied,) = self.ask("push_pull", header, arrays).header["applied"]
        return applied

    def gather(self, name: str, ids: Any) -> np.ndarray:
        return self.ask("push_pull", {"gather": [{"name": name}]}, [np.asarray(ids)]).arrays[0]

    def read(self, name: str, start: int | None = None, stop: int | None = None) -> np.ndarray:
        return self.ask("read", {"name": name, "start": start, "stop": stop}).arrays[0]

    def slots(self, name: str) -> dict[str, np.ndarray]:
        reply = self.ask("slots", {"name": name})
        return dict(zip(reply.header["slots"], reply.arrays, strict=True))


@pytest.fixture
def client() -> Client:
    return Client(ParameterServer(0))


@pytest.fixture
def make_client() -> Callable[[int], Client]:
    return lambda index: Client(ParameterServer(index))
