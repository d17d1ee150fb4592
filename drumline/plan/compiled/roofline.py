"""What kernels of a GPU's program compute and move, from its text: FLOP of products, and bytes.

The compiler estimates nothing of them. Products are matrix products and convolutions, those in
fusions and those that libraries compute; all else is counted by what it reads and writes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumline.plan.compiled.program_text import CompiledProgram, Instruction

_ARRAY = re.compile(r"\b([a-z]+[0-9]*[a-z0-9]*)\[([^\]]*)\]")
_BITS = re.compile(r"[a-z]+(\d+)")
_SHAPE = re.compile(r"\b([a-z]+[0-9]*[a-z0-9]*)\[([\d,]*)\]")
_CALLED = re.compile(r"\bcalls=%?([\w.\-]+)")
_CONTRACTED = re.compile(r"lhs_contracting_dim(?:ension)?s\"?[=:]\s*[\[{]\"?([\d\",\s]*)\"?[\]}]")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_CONVOLUTIONS = {
    # Which of a result and two operands is the kernel, and which the forward pass's output.
    "__cudnn$convForward": ("second", "result"),
    "__cudnn$convBiasActivationForward": ("second", "result"),
    "__cudnn$convBackwardInput": ("second", "first"),
    "__cudnn$convBackwardFilter": ("result", "second"),
}
_MATMULS = ("__cublas$gemm", "__cublas$lt$matmul")

Shape = tuple[str, tuple[int, ...]]


class ProgramTextError(ValueError):
    """The text is not that of a compiled program; the message says where it ends to be one."""


def type_bytes(text: str) -> dict[str, float]:
    """The bytes of a type as written, a tuple among them, by dtype.

    Raises:
        ProgramTextError: if a dimension is not a number, or the size is none that memory has.
    """
    total: dict[str, float] = {}
    for dtype, dimensions in _ARRAY.findall(text):
        bits = 8 if dtype == "pred" else _bits(dtype)
        count = 1
        for dimension in filter(None, dimensions.split(",")):
            size = dimension.strip().removeprefix("<=")
            if not size.isdecimal() or len(size) > 18:
                raise ProgramTextError(f"{dtype}[{dimensions}] has the dimension {dimension!r}.")
            count *= int(size)
            if count > 1 << 62:
                raise ProgramTextError(f"{dtype}[{dimensions[:80]}] is larger than any memory.")
        if bits:
            total[dtype] = total.get(dtype, 0.0) + count * bits / 8
    return total


def _bits(dtype: str) -> int:
    found = _BITS.match(dtype)  # f8e4m3fn has 8; token and opaque have none
    return int(found[1][:3]) if found else 0


def products_of(
    instruction: Instruction, here: Mapping[str, Instruction], program: CompiledProgram
) -> dict[str, float]:
    """The FLOP of the products that one run of `instruction` computes, by their operands' dtype.

    Args:
        instruction: of the program.
        here: the computation that it is in.
        program: the program.
    """
    total: dict[str, float] = {}
    for dtype, operations in _found(instruction, here, program):
        total[dtype] = total.get(dtype, 0.0) + operations
    return total


def taken_by(instruction: Instruction, here: Mapping[str, Instruction]) -> float:
    """The bytes of what an instruction takes: all of each array, of which it may read a part."""
    types = [here[name].type for name in instruction.operands if name in here]
    return sum(sum(type_bytes(type_).values()) for type_ in types)


def _found(
    instruction: Instruction, here: Mapping[str, Instruction], program: CompiledProgram
) -> Iterator[tuple[str, float]]:
    opcode = instruction.opcode
    if opcode == "fusion" and (called := _CALLED.search(instruction.rest)):
        inside = program.computations.get(called[1], {})
        for each in inside.values():
            if each.opcode in ("dot", "convolution", "fusion"):
                yield from _found(each, inside, program)
        return
    names = (*instruction.operands[:2], "", "")
    first, second = (_shape(here.get(name)) for name in names[:2])
    result = _first(instruction.type)
    if first is None or second is None or result is None:
        return
    target = _TARGET.search(instruction.rest) if opcode == "custom-call" else None
    if opcode == "dot" or (target and target[1].startswith(_MATMULS)):
        contracted = _CONTRACTED.search(instruction.rest)
        if contracted:
            sides = [int(side[:9]) for side in re.findall(r"\d+", contracted[1])]
            size = math.prod(first[1][side] for side in sides if side < len(first[1]))
            yield first[0], 2.0 * math.prod(result[1]) * size
    elif opcode == "convolution" or (target and target[1] in _CONVOLUTIONS):
        by_name = {"first": first, "second": second, "result": result}
        kernel, output = _CONVOLUTIONS.get(target[1] if target else "", ("second", "result"))
        labels = _LABELS.search(instruction.rest)
        if labels and len(labels[2]) == len(by_name[kernel][1]):
            # Each element of the output has a product with each of the kernel's, per channel of it.
            channels = max(1, by_name[kernel][1][labels[2].index("o")])
            pairs = math.prod(by_name[output][1]) * math.prod(by_name[kernel][1]) / channels
            yield first[0], 2.0 * pairs


def _shape(instruction: Instruction | None) -> Shape | None:
    return None if instruction is None else _first(instruction.type)


def _first(type_: str) -> Shape | None:
    found = _SHAPE.search(type_)
    if found is None:
        return None
    return found[1], tuple(int(side[:18]) for side in found[2].split(",") if side)
