"""A step as the chief sends it to workers.

Random states that differ from worker to worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.parameter_server.compiler.exporting import (
    Input,
    Output,
    load_program,
    pack_checked,
    unpack_checked,
)
from drumline.distribute.parameter_server.compiler.ids_program import IdsProgram
from drumline.distribute.parameter_server.errors import CorruptProgramError


@dataclass(frozen=True)
class StepProgram:
    """A step on arrays alone: what it takes, what it gives, and compiled code between them.

    Attributes:
        inputs: the arrays that `main` takes, in order.
        outputs: the arrays that it gives, in order.
        ids: computes the ids of the rows among the inputs.
        applied: for each optimizer how often the step applies it, as ``optimizer.iterations``
            counts.
        main: the program's bytes; see `load`.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    ids: IdsProgram
    applied: tuple[int, ...]
    main: bytes

    def to_bytes(self) -> bytes:
        """Everything, to be sent."""
        ids = self.ids.exported
        header = {
            "inputs": [each.to_json() for each in self.inputs],
            "outputs": [each.to_json() for each in self.outputs],
            "ids": self.ids.to_json(),
            "applied": list(self.applied),
            "bytes": [len(self.main), None if ids is None else len(ids)],
        }
        text = json.dumps(header).encode()
        return pack_checked(len(text).to_bytes(8, "little") + text + self.main + (ids or b""))

    @classmethod
    def from_bytes(cls, data: bytes) -> StepProgram:
        """What `to_bytes` wrote.

        Raises:
            CorruptProgramError: if the bytes are damaged, or no step's.
        """
        payload = unpack_checked(data)
        try:
            length = int.from_bytes(payload[:8], "little")
            header = json.loads(payload[8 : 8 + length])
            size, ids_size = header["bytes"]
            start = 8 + length
            main, ids = payload[start : start + size], payload[start + size :]
            if len(main) != size or len(ids) != (ids_size or 0):
                raise ValueError("the lengths do not fit")
            return cls(
                tuple(Input.from_json(each) for each in header["inputs"]),
                tuple(Output.from_json(each) for each in header["outputs"]),
                IdsProgram.from_json(header["ids"], None if ids_size is None else ids),
                tuple(header["applied"]),
                main,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptProgramError(
                f"{len(payload)} bytes are a program, but not that of a step: {error!r}. Let all "
                "tasks of the cluster run the same version of drumline."
            ) from error


def load(program: StepProgram) -> Callable[[Sequence[Any]], list[Any]]:
    """The step, compiled when it is first called. Needs no Keras.

    Args:
        program: the step.

    Returns:
        A function from the arrays of `program.inputs` to those of `program.outputs`. It leaves
        its inputs as they are, so that a step can be run again.

    Raises:
        CorruptProgramError, ProgramError: as `load_program`.
    """
    compiled = load_program(program.main)

    def run(arrays: Sequence[Any]) -> list[Any]:
        return list(compiled(*arrays))

    return run


def worker_state(state: Any, worker: int) -> np.ndarray:
    """A worker's first state of a random generator, from the chief's.

    Workers draw independently of each other, and the same again in a job that starts again.

    Args:
        state: what the chief's `keras.random.SeedGenerator` holds, of shape (2,).
        worker: the worker's number.

    Returns:
        An array of the same shape and dtype.
    """
    array: np.ndarray = np.asarray(state)
    key = jax.random.wrap_key_data(jnp.asarray(array.astype(np.uint32)), impl="threefry2x32")
    folded = jax.random.key_data(jax.random.fold_in(key, worker))
    return np.asarray(folded).astype(array.dtype)
