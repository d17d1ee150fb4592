"""What fills a chip's memory in a step: what the compiler says, and of what it consists."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from drumline.plan.compiled.program_text import CompiledProgram, type_bytes
from drumline.plan.hardware import ChipGroup, Known

LARGEST = 10
_UNITS = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_SIZE = r"(\d+(?:\.\d+)?)([KMGT]?)i?B?"
_NEEDED = (
    re.compile(rf"[Uu]sed {_SIZE} of {_SIZE} hbm"),
    re.compile(rf"required for [\w ]+ \({_SIZE}\) exceeds available \w+ \({_SIZE}\)"),
)
_ALLOCATION = re.compile(
    rf"Size: {_SIZE}\b.*?(?:Operator: op_name=\"([^\"]*)\".*?)?Shape: (\S+)", re.S
)
_NOT_MADE = frozenset(
    ("parameter", "tuple", "get-tuple-element", "bitcast", "constant", "while", "conditional")
)
_ON_CHIP = re.compile(r"\bS\(\d+\)")


class Buffer(NamedTuple):
    """Something that takes memory.

    Attributes:
        name: a variable's path, or the place in the traced function.
        shape: with its dtype, as ``"f32[512,512]"``.
        bytes: of one chip.
    """

    name: str
    shape: str
    bytes: Known


@dataclasses.dataclass(frozen=True)
class Memory:
    """What a step takes of a chip's memory.

    Attributes:
        available: of the chip.
        total: what the step needs; value 0 where the compiler gave up without saying.
        fits: whether that is available; None where the chip's memory is not known.
        parts: what the total consists of.
        largest: the largest arrays, of variables and batch, and those made in the step.
        message: what the compiler said if it found no room.
    """

    available: Known
    total: Known
    fits: bool | None
    parts: tuple[tuple[str, Known], ...]
    largest: tuple[Buffer, ...]
    message: str = ""


def memory_of(compiled: Any, text: str, arguments: Sequence[Any], group: ChipGroup) -> Memory:
    """Return what a compiled step takes.

    Args:
        compiled: as JAX gives it.
        text: of the program.
        arguments: of `planner.Argument`, what the step takes.
        group: the chips.
    """
    stats = compiled.memory_analysis()
    kinds, buffers = _of_arguments(arguments, group)
    padding = stats.argument_size_in_bytes - sum(kinds.values())
    parts = {kind: _model(size, "shapes of the script's arrays") for kind, size in kinds.items()}
    if padding > 0:
        parts["padding of these on the chip"] = _compiled(padding)
    parts["results in memory of their own"] = _compiled(
        stats.output_size_in_bytes - stats.alias_size_in_bytes
    )
    parts["arrays made in the step"] = _compiled(stats.temp_size_in_bytes)
    if group.chip.platform == "tpu":  # of others the program is in the host's memory
        parts["the program itself"] = _compiled(stats.generated_code_size_in_bytes)
    total = (
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
        + (stats.generated_code_size_in_bytes if group.chip.platform == "tpu" else 0)
    )
    available = _available(group)
    made = _largest_made(CompiledProgram(text))
    return Memory(
        available,
        _compiled(total),
        total <= available.value if available.value else None,
        tuple(parts.items()),
        tuple(sorted((*buffers, *made), key=lambda each: -each.bytes.value)[:LARGEST]),
    )


def out_of_memory(message: str, lowered: str, arguments: Sequence[Any], group: ChipGroup) -> Memory:
    """Return what is known of a step for which the compiler found no room.

    Args:
        message: the compiler's.
        lowered: the text of the program that it was given.
        arguments: of `planner.Argument`, what the step takes.
        group: the chips.
    """
    kinds, buffers = _of_arguments(arguments, group)
    needed = available = 0.0
    for pattern in _NEEDED:
        if found := pattern.search(message):
            needed, available = _bytes(found[1], found[2]), _bytes(found[3], found[4])
            break
    of_compiler = [
        Buffer(name or "made in the step", shape, _compiled(_bytes(size, unit)))
        for size, unit, name, shape in _ALLOCATION.findall(message)
    ]
    parts = [(kind, _model(size, "shapes of the script's arrays")) for kind, size in kinds.items()]
    known = _available(group)
    return Memory(
        Known(available, "B", "compiled", "the compiler's limit") if available else known,
        Known(needed, "B", "compiled" if needed else "assumed", "the compiler's message"),
        False,
        tuple(parts),
        tuple(
            sorted(
                (*(of_compiler or _largest_lowered(lowered)), *buffers),
                key=lambda each: -each.bytes.value,
            )[:LARGEST]
        ),
        message.strip().splitlines()[0],
    )


def _available(group: ChipGroup) -> Known:
    known, cores = group.chip.memory, group.chip.cores
    if cores == 1:
        return known
    return known._replace(value=known.value / cores, source=f"{known.source}: of {cores} cores")


def _of_arguments(
    arguments: Sequence[Any], group: ChipGroup
) -> tuple[dict[str, float], list[Buffer]]:
    replicas = group.chips * group.chip.cores
    kinds: dict[str, float] = defaultdict(float)
    buffers = []
    for each in arguments:
        size = float(math.prod(each.shape) * each.dtype.itemsize)
        if each.cut:
            size /= replicas
        kinds[each.kind] += size
        shape = f"{each.dtype}[{','.join(map(str, each.shape))}]"
        buffers.append(Buffer(f"{each.kind}: {each.name}", shape, _model(size, "its shape")))
    return dict(kinds), buffers


def _largest_made(program: CompiledProgram) -> list[Buffer]:
    """The largest arrays in the chip's main memory that the entry computation makes."""
    found = []
    for instruction in program.computations[program.entry].values():
        if instruction.opcode in _NOT_MADE or instruction.opcode.endswith("-done"):
            continue
        if _ON_CHIP.search(instruction.type):
            continue
        size = sum(type_bytes(instruction.type).values())
        place = instruction.op_name.partition(";")[0] or instruction.name
        shape = re.sub(r"\{[^{}]*\}", "", instruction.type)
        shape = shape if len(shape) <= 60 else f"{shape[:57]}..."
        found.append(
            Buffer(
                f"made in the step: {place}",
                shape,
                Known(size, "B", "compiled", "as long as it is used; tiles may add to it"),
            )
        )
    return sorted(found, key=lambda each: -each.bytes.value)[:LARGEST]


_RESULT = re.compile(
    r"= (?:stablehlo|mhlo)\.(\w+).*?-> tensor<((?:\d+x)+)([a-z]\w*)>(?: loc.*)?$", re.M
)
_BITS = re.compile(r"\d+")


def _largest_lowered(text: str) -> list[Buffer]:
    """The largest results of a program's operations before it is compiled, those alike once."""
    found: dict[tuple[str, str, str], int] = {}
    for operation, sides, dtype in _RESULT.findall(text):
        found[operation, sides, dtype] = found.get((operation, sides, dtype), 0) + 1
    buffers = []
    for (operation, sides, dtype), times in found.items():
        bits = _BITS.search(dtype)
        shape = [int(side) for side in sides.split("x") if side]
        size = math.prod(shape) * (int(bits[0]) if bits else 8) / 8
        often = f", {times} of them" if times > 1 else ""
        name = f"made in the step: {operation}{often}"
        source = "before compiling, which fuses some away"
        text_of = f"{dtype}[{','.join(map(str, shape))}]"
        buffers.append(Buffer(name, text_of, _model(size, source)))
    return sorted(buffers, key=lambda each: -each.bytes.value)[:LARGEST]


def _bytes(number: str, unit: str) -> float:
    return float(number) * _UNITS[unit]


def _compiled(size: float) -> Known:
    return Known(float(size), "B", "compiled", "the compiler's analysis")


def _model(size: float, source: str) -> Known:
    return Known(size, "B", "model", source)
