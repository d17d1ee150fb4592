"""What the text of a compiled program says: cycles, loops and collectives.

The text is XLA's: computations of instructions, one of which is the entry. A TPU's compiler writes
into each fusion how many cycles it expects of it, and into each collective its algorithm. What runs
more often than once is counted so: a loop's body as often as it runs. A collective that runs beside
other work stands in several computations (its start, a fusion with the work, its end), which carry
the number of their chain: it is counted once.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping

from drumline.plan.compiled.roofline import ProgramTextError, products_of, taken_by, type_bytes

COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
)
_NO_WORK = frozenset(
    (
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"),
        *("partition-id", "replica-id", "iota", "opt-barrier", "add-dependency", "domain"),
        *("broadcast", "async-update", "copy-start", "slice-start", "send", "recv"),
    )
)
"""What takes no time of the chip's units: ``-done`` neither, and memory is copied beside work."""
_HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+) .*\{$")
_NAMED = re.compile(r"(?:ROOT )?%?([\w.\-]+) = (.*)$", re.S)
_OPERAND = re.compile(r"%([\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"?(\d+)')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CALLED = re.compile(r"\b(body|condition|calls|to_apply)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}|(?:true|false)_computation=%?([\w.\-]+)")
_ALGORITHM = re.compile(r'"(?:strategy|emitter)":"(\w+)')
_STRATEGY = re.compile(r'"strategy":"(\w+)')
_CHAIN = re.compile(r'chain_id="(\d+)"')
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_LISTED = re.compile(r"replica_groups=\{\{([\d,\s]*)\}")
_IOTA = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=")
_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\]\s*\{([^}]*)\}")
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_PARTITIONS = re.compile(r"\bnum_partitions=(\d+)|\breplica_count=(\d+)")
_CONSTANT = re.compile(r"constant\((-?\d+)\)")
_MEGASCALE = re.compile(r'"?_xla_megascale_transfer_type"?="(\w+)"')
_DEEPEST = 64
_LARGEST_COUNT = 10**9


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        name: unique in the program.
        type: of its result, as written.
        opcode: such as ``"fusion"``.
        operands: the names of what it takes.
        rest: all that is written after the opcode.
    """

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    rest: str

    @property
    def op_name(self) -> str:
        """Where in the traced function it comes from; "" if the text does not say."""
        found = _OP_NAME.search(self.rest)
        return found[1] if found else ""


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective operation.

    Attributes:
        kind: one of `COLLECTIVES`.
        bytes: of the whole array (the gathered, or that to be scattered), of one device, each time.
        dtypes: the bytes by dtype.
        times: how often it runs in a step.
        group: how many devices take part together; 0 where the text does not say.
        algorithm: as the compiler calls it; "" where it does not.
        overlapped: whether it runs beside other work.
        op_name: where it comes from.
        network: whether it is the part between slices alone, which each chip runs for its share.
    """

    kind: str
    bytes: float
    dtypes: Mapping[str, float]
    times: float
    group: int
    algorithm: str
    overlapped: bool
    op_name: str
    network: bool = False


@dataclasses.dataclass(frozen=True)
class Work:
    """Something that computes.

    Attributes:
        name: of the instruction.
        opcode: such as ``"fusion"``.
        cycles: as the compiler estimates them, all times together; None where it does not.
        times: how often it runs.
        bytes: of its result, once.
        op_name: where it comes from.
        operations: FLOP of a kernel that is known by its name, once; None of all else.
        products: FLOP of matrix products and convolutions, once, by their operands' dtype, and
        moved: bytes of what it takes and gives, once: both where there are no cycles.
    """

    name: str
    opcode: str
    cycles: float | None
    times: float
    bytes: float
    op_name: str
    operations: float | None = None
    products: Mapping[str, float] = dataclasses.field(default_factory=dict)
    moved: float = 0.0


@dataclasses.dataclass(frozen=True)
class Summary:
    """What one run of a program does on one device.

    Attributes:
        work: what computes, that with the most cycles first.
        collectives: in the order of the text.
        unknown_loops: loops of which the text does not say how often they run; they count once.
    """

    work: tuple[Work, ...]
    collectives: tuple[Collective, ...]
    unknown_loops: tuple[str, ...]

    @property
    def cycles(self) -> float:
        """The estimated cycles of all work that has an estimate."""
        return sum(each.cycles or 0.0 for each in self.work)

    @property
    def without_estimate(self) -> tuple[Work, ...]:
        """What computes, and has no estimate."""
        return tuple(each for each in self.work if each.cycles is None and each.operations is None)


class CompiledProgram:
    """The computations of a compiled program.

    Args:
        text: what ``Compiled.as_text()`` gives.

    Raises:
        ProgramTextError: if it has no entry computation, or an instruction cannot be read.
    """

    def __init__(self, text: str) -> None:
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        found = re.findall(_PARTITIONS, text[: text.find("\n")])
        self.devices = max((int(n[:9]) for pair in found for n in pair if n), default=1)
        current: dict[str, Instruction] | None = None
        for number, line in _whole_lines(text):
            if line.startswith(("  ", "\t")):
                if current is not None:
                    instruction = _instruction(line.strip(), number)
                    current[instruction.name] = instruction
            elif line.startswith("}"):
                current = None
            elif header := _HEADER.match(line):
                current = self.computations.setdefault(header[2], {})
                if header[1]:
                    self.entry = header[2]
        if not self.entry:
            raise ProgramTextError("No line begins with ENTRY: this is no compiled program's text.")

    def summary(self) -> Summary:
        """Count what one run does.

        Raises:
            ProgramTextError: if computations call one another in a circle, or too deeply.
        """
        return _Count(self).summary()


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, those joined that an attribute with line breaks has cut."""
    instruction, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        begins = line.startswith(("  ", "\t")) or line.rstrip() == "}" or not line.strip()
        if instruction and not begins:
            instruction += line
            continue
        if instruction:
            yield first, instruction
            instruction = ""
        if line.startswith(("  ", "\t")):
            instruction, first = line, number
        else:
            yield number, line
    if instruction:
        yield first, instruction


def _instruction(line: str, number: int) -> Instruction:
    named = _NAMED.match(line)
    if named is None:
        raise ProgramTextError(f"Line {number} is no instruction: {line[:80]!r}.")
    name, rest = named[1], named[2]
    if rest.startswith("("):
        end = _closing(rest)
        if end < 0:
            raise ProgramTextError(f"Line {number}: a parenthesis of {name} is not closed.")
        type_, rest = rest[: end + 1], rest[end + 1 :].lstrip()
    else:
        type_, _, rest = rest.partition(" ")
    opcode, parenthesis, _ = rest.partition("(")
    if not parenthesis or not re.fullmatch(r"[\w\-.]+", opcode):
        raise ProgramTextError(f"Line {number}: {name} has no operation: {rest[:80]!r}.")
    end = _closing(rest[len(opcode) :])
    taken = rest[len(opcode) :] if end < 0 else rest[len(opcode) : len(opcode) + end]
    return Instruction(name, type_, opcode, tuple(_OPERAND.findall(taken)), rest)


def _closing(text: str) -> int:
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return at
    return -1


class _Count:
    """Walk through a program from its entry."""

    def __init__(self, program: CompiledProgram) -> None:
        self._program = program
        self._work: list[Work] = []
        self._collectives: list[Collective] = []
        self._unknown: list[str] = []
        self._chains: set[tuple[str, str, str]] = set()
        self._steps = 0

    def summary(self) -> Summary:
        self._walk(self._program.entry, 1.0, ())
        work = sorted(self._work, key=lambda each: -(each.cycles or 0.0))
        return Summary(tuple(work), tuple(self._collectives), tuple(dict.fromkeys(self._unknown)))

    def _walk(self, name: str, times: float, outer: tuple[str, ...]) -> None:
        if name in outer or len(outer) > _DEEPEST:
            raise ProgramTextError(f"{name} calls itself, or computations are nested too deeply.")
        for instruction in self._program.computations.get(name, {}).values():
            self._steps += 1
            if self._steps > 10_000_000:
                raise ProgramTextError("The program calls its computations too many times.")
            self._count(instruction, times, name, (*outer, name))

    def _count(
        self, instruction: Instruction, times: float, where: str, outer: tuple[str, ...]
    ) -> None:
        opcode = instruction.opcode
        called: dict[str, str] = dict(_CALLED.findall(instruction.rest))
        kind = opcode.removesuffix("-start")
        if kind in COLLECTIVES:
            self._collective(instruction, kind, times, opcode != kind)
        elif opcode == "send" and (found := _MEGASCALE.search(instruction.rest)):
            self._between_slices(instruction, found[1], times)
        elif opcode == "while":
            trips = self._trips(instruction, called, where)
            if trips is None:
                self._unknown.append(instruction.name)
            self._walk(called.get("body", ""), times * (1 if trips is None else trips), outer)
        elif opcode == "conditional":
            self._branches(instruction, times, outer)
        elif opcode in ("call", "async-start"):
            self._walk(called.get("to_apply") or called.get("calls", ""), times, outer)
        elif opcode not in _NO_WORK and not opcode.endswith("-done"):
            cycles = _CYCLES.search(instruction.rest)
            if opcode == "fusion":
                chain = self._inside(called.get("calls", ""), times, where)
                if chain and not cycles:
                    return  # the start or the end of a chain
            size = sum(type_bytes(instruction.type).values())
            here = self._program.computations[where]
            self._work.append(
                Work(
                    instruction.name,
                    opcode,
                    float(cycles[1][:18]) * times if cycles else None,
                    times,
                    size,
                    instruction.op_name,
                    _operations(instruction) if opcode == "custom-call" else None,
                    {} if cycles else products_of(instruction, here, self._program),
                    0.0 if cycles else size + taken_by(instruction, here),
                )
            )

    def _inside(self, name: str, times: float, where: str) -> bool:
        """Count the collectives that run beside a fusion's work; return whether there are any."""
        any_ = False
        for instruction in self._program.computations.get(name, {}).values():
            kind = instruction.opcode.removesuffix("-start")
            if kind not in COLLECTIVES:
                continue
            any_ = True
            found = _CHAIN.search(instruction.rest)
            chain = (where, kind, found[1] if found else f"in {name}")
            if chain not in self._chains:
                self._chains.add(chain)
                self._collective(instruction, kind, times, True)
        return any_

    def _branches(self, instruction: Instruction, times: float, outer: tuple[str, ...]) -> None:
        """Count the branch with the most cycles: which one runs, the text does not say."""
        names = [
            name
            for several, one in _BRANCHES.findall(instruction.rest)
            for name in ([one] if one else re.findall(r"[\w.\-]+", several))
        ]
        largest: _Count | None = None
        for name in names:
            count = _Count(self._program)
            count._steps = self._steps
            count._walk(name, times, outer)
            self._steps = count._steps
            if largest is None or _total(count) > _total(largest):
                largest = count
        if largest is not None:
            self._work += largest._work
            self._collectives += largest._collectives
            self._unknown += largest._unknown

    def _collective(
        self, instruction: Instruction, kind: str, times: float, overlapped: bool
    ) -> None:
        group = self._group(instruction.rest)
        dtypes = type_bytes(_result(instruction, kind))
        if kind == "reduce-scatter":  # its result is a share
            dtypes = {dtype: size * max(group, 1) for dtype, size in dtypes.items()}
        algorithm = _STRATEGY.search(instruction.rest) or _ALGORITHM.search(instruction.rest)
        self._collectives.append(
            Collective(
                kind,
                sum(dtypes.values()),
                dtypes,
                times,
                group,
                algorithm[1] if algorithm else "",
                overlapped,
                instruction.op_name,
            )
        )

    def _between_slices(self, instruction: Instruction, transfer: str, times: float) -> None:
        """Count what a chip sends to those of other slices; that it waits for it is assumed."""
        kind = transfer.lower().replace("_", "-")
        first = next(_parts(instruction.type[1:-1]), "")
        dtypes = type_bytes(first)
        self._collectives.append(
            Collective(
                kind if kind in COLLECTIVES else "collective-permute",
                sum(dtypes.values()),
                dtypes,
                times,
                0,
                "between slices",
                False,
                instruction.op_name,
                network=True,
            )
        )

    def _group(self, rest: str) -> int:
        if mesh := _MESH.search(rest):
            sizes = {name: int(size[:9]) for name, size in _AXIS.findall(mesh[1])}
            count = 1
            for name in re.findall(r"'([^']*)'", mesh[2]):
                count *= sizes.get(name, 1)
            return min(count, _LARGEST_COUNT)
        if found := _IOTA.search(rest):
            return int(found[2][:9])
        if found := _LISTED.search(rest):
            return len([member for member in found[1].split(",") if member.strip()])
        return self._program.devices

    def _trips(self, loop: Instruction, called: Mapping[str, str], where: str) -> float | None:
        """How often a loop runs: as the text says, or as its counter's start, step and end say."""
        if known := _TRIPS.search(loop.rest):
            return float(known[1][:18])
        computations = self._program.computations
        condition = computations.get(called.get("condition", ""), {})
        body = computations.get(called.get("body", ""), {})
        here = computations.get(where, {})
        initial = here.get(loop.operands[0]) if loop.operands else None
        if not condition or not body or initial is None:
            return None
        end, result = list(condition.values())[-1], list(body.values())[-1]
        if end.opcode != "compare" or len(end.operands) != 2:
            return None
        counter, limit = (condition.get(name) for name in end.operands)
        index, last = _index(counter), _constant(limit)
        if index is None or last is None:
            return None
        if index >= len(initial.operands) or index >= len(result.operands):
            return None
        first = _constant(_through(here.get(initial.operands[index]), here))
        step = _step(body.get(result.operands[index]), index, body)
        if first is None or step is None or step <= 0:
            return None
        direction = re.search(r"direction=(\w+)", end.rest)
        span = last - first + (1 if direction and direction[1] == "LE" else 0)
        if not direction or direction[1] not in ("LT", "LE", "NE"):
            return None
        return float(max(0, -(-span // step)))


_PRODUCTS = {"splash_mha_fwd": 2, "splash_mha_dq": 3, "splash_mha_dkv": 4}
"""Matrix products of queries by keys, or of that size, in the kernels of Splash attention."""
_OPERANDS = re.compile(r"operand_layout_constraints=\{(.*?)\}, \w+=")
_OF_ATTENTION = re.compile(r"\b(?:bf16|f32)\[((?:\d+,)+\d+)\]")


def _operations(kernel: Instruction) -> float | None:
    """The FLOP of a kernel of attention, without what a mask spares; None for others."""
    products = next((n for name, n in _PRODUCTS.items() if kernel.name.startswith(name)), None)
    operands = _OPERANDS.search(kernel.rest)
    if products is None or operands is None:
        return None
    shapes = [
        [int(side[:9]) for side in sides.split(",")] for sides in _OF_ATTENTION.findall(operands[1])
    ]
    wide = [shape for shape in shapes if len(shape) >= 3]
    if len(wide) < 2 or len(wide[0]) != len(wide[1]):
        return None
    queries, keys = wide[:2]
    return float(2 * products * math.prod(queries) * keys[-2])


def _result(instruction: Instruction, kind: str) -> str:
    """The type of the result, without the operands and the flags that a start returns, too."""
    if not instruction.opcode.endswith("-start") or not instruction.type.startswith("("):
        return instruction.type
    parts = list(_parts(instruction.type[1:-1]))
    if kind == "all-reduce":
        return instruction.type
    return parts[1] if len(parts) > 1 else instruction.type


def _parts(text: str) -> Iterator[str]:
    depth = begin = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def _total(count: _Count) -> float:
    return sum(each.cycles or 0.0 for each in count._work)


def _index(instruction: Instruction | None) -> int | None:
    found = re.search(r"\bindex=(\d{1,9})\b", instruction.rest) if instruction else None
    return int(found[1]) if found else None


def _constant(instruction: Instruction | None) -> int | None:
    if instruction is None or instruction.opcode != "constant":
        return None
    found = _CONSTANT.match(instruction.rest)
    return int(found[1][:18]) if found else None


def _through(
    instruction: Instruction | None, here: Mapping[str, Instruction]
) -> Instruction | None:
    """What a value is a copy of."""
    for _ in range(_DEEPEST):
        if instruction is None or instruction.opcode not in ("copy", "bitcast", "convert"):
            return instruction
        instruction = here.get(instruction.operands[0]) if instruction.operands else None
    return None


def _step(
    instruction: Instruction | None, index: int, body: Mapping[str, Instruction]
) -> int | None:
    """By how much a loop's body raises the counter at `index` of what it takes."""
    instruction = _through(instruction, body)
    if instruction is None or instruction.opcode != "add" or len(instruction.operands) != 2:
        return None
    values = [_through(body.get(name), body) for name in instruction.operands]
    for value, other in (values, values[::-1]):
        if value is not None and value.opcode == "get-tuple-element" and _index(value) == index:
            return _constant(other)
    return None
