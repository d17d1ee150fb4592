"""A step as the chief sends it to workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drumline.distribute.parameter_server.compiler.container import sealed, unsealed
from drumline.distribute.parameter_server.compiler.errors import CorruptProgramError
from drumline.distribute.parameter_server.compiler.exporting import load_program
from drumline.distribute.parameter_server.compiler.ids_program import IdsProgram
from drumline.distribute.parameter_server.compiler.slots import Input, Output


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
        return sealed(len(text).to_bytes(8, "little") + text + self.main + (ids or b""))

    @classmethod
    def from_bytes(cls, data: bytes) -> StepProgram:
        """What `to_bytes` wrote.

        Raises:
            CorruptProgramError: if the bytes are damaged, or no step's.
        """
        payload = unsealed(data)
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
