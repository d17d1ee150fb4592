"""Compiled functions as bytes, which run where neither the function nor Keras is known.

`export_function` makes StableHLO of a function, `load_program` a function of that. The bytes begin
with a mark and a SHA-256 (`pack_checked`), so damaged ones are never taken for a program, and a
program of another JAX or for another platform is refused with the remedy.

`Input` and `Output` say what goes into a step's program and what comes out of it. The chief
exports; workers and servers load. Everything here is without state, and any thread may call it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from drumline._forks import ForkSafeLock
from drumline.distribute.parameter_server.errors import CorruptProgramError, ProgramError

InputKind = Literal["dense", "rows", "inverse", "rows_by_id", "argument", "state"]
OutputKind = Literal[
    "gradient", "row_gradient", "row_gradient_by_id", "add", "assign", "state", "result"
]


@dataclass(frozen=True)
class Input:
    """One array that a program takes.

    Attributes:
        kind: ``"dense"``: a variable's value; ``"rows"``: the rows of a table that the step looks
            up, each once, padded to the number of its ids; ``"inverse"``: for each id of that table
            where its row is among them; ``"rows_by_id"``, in the place of both: for each id its
            row; ``"argument"``: an array of the step's arguments; ``"state"``: a random
            generator's state, which each worker has its own of.
        key: the variable's key; None for arguments.
        index: which of the arguments' arrays; None for others.
        shape: of the array.
        dtype: its name.
    """

    kind: InputKind
    key: str | None
    index: int | None
    shape: tuple[int, ...]
    dtype: str

    def to_json(self) -> dict[str, Any]:
        """As objects that JSON has."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Input:
        """What `to_json` described."""
        return cls(**{**value, "shape": tuple(value["shape"])})


@dataclass(frozen=True)
class Output:
    """One array that a program gives.

    Attributes:
        kind: ``"gradient"``: of a variable; ``"row_gradient"``: of the rows of a table, in the
            order in which they were given; ``"row_gradient_by_id"``: of the row of each id, those
            of one row to be summed; ``"add"``: what to add to a variable; ``"assign"``: its new
            value; ``"state"``: the next state of a random generator; ``"result"``: an array that
            the step returned.
        key: the variable's key; None for results.
        index: which of the results; None for others.
        optimizer: for gradients, the number of the optimizer that applies them.
        shape: of the array.
        dtype: its name.
    """

    kind: OutputKind
    key: str | None
    index: int | None
    optimizer: int | None
    shape: tuple[int, ...]
    dtype: str

    def to_json(self) -> dict[str, Any]:
        """As objects that JSON has."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Output:
        """What `to_json` described."""
        return cls(**{**value, "shape": tuple(value["shape"])})


_MAGIC = b"drumline program 1\n"
_CHECKSUM_BYTES = 32


def pack_checked(payload: bytes) -> bytes:
    """`payload` behind a mark and its SHA-256."""
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def unpack_checked(data: bytes) -> bytes:
    """The payload that `sealed` was given.

    Raises:
        CorruptProgramError: if the bytes are of something else, cut short, or damaged.
    """
    data = bytes(data)
    start = len(_MAGIC) + _CHECKSUM_BYTES
    if len(data) < start or not data.startswith(_MAGIC):
        raise CorruptProgramError(
            f"These {len(data)} bytes are no program of this version of drumline. Let all tasks of "
            "the cluster run the same version."
        )
    payload = data[start:]
    if hashlib.sha256(payload).digest() != data[len(_MAGIC) : start]:
        raise CorruptProgramError(
            f"A program of {len(payload)} bytes does not match its checksum: it was cut short or "
            "damaged on its way. Send it again."
        )
    return payload


PLATFORMS = ("cpu", "tpu", "cuda")
"""What a program can run on, by default."""

_PLACE = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)")


def export_function(
    function: Callable[..., Any], specs: Sequence[Any], platforms: Sequence[str] = PLATFORMS
) -> bytes:
    """`function` of arrays as StableHLO with a checksum.

    Args:
        function: from arrays to a list of arrays.
        specs: a `jax.ShapeDtypeStruct` for each argument.
        platforms: those on which it will run.

    Raises:
        ProgramError: if it calls back into Python, or JAX cannot export it.
    """
    compiled = jax.jit(function)
    compiled.trace(*specs)  # what the function itself raises is raised here, as it is
    try:
        exported = jax.export.export(compiled, platforms=list(platforms))(*specs)
        return pack_checked(bytes(exported.serialize()))
    except (NotImplementedError, ValueError, TypeError) as error:  # of a callback's lowering
        raise ProgramError(
            f"A function cannot be sent to other tasks: {error}. jax.debug.print, jax.debug."
            "callback, jax.pure_callback and the like work in this process only; leave them out of "
            "steps that others run. So do summaries: return the value, and record it with "
            "dl.summary where the step is scheduled."
        ) from error


def load_program(data: bytes, donate: Sequence[int] = ()) -> Callable[..., Any]:
    """What `export_function` wrote, compiled when it is first called.

    Args:
        data: its bytes.
        donate: the arguments whose buffers may be overwritten.

    Returns:
        A function of arrays that gives a list of arrays.

    Raises:
        CorruptProgramError: if the bytes are damaged.
        ProgramError: if this JAX is too old or too new for it, if this device's platform is not
            among its own, or it was made for more devices than there are here.
    """
    payload = unpack_checked(data)
    try:
        exported = jax.export.deserialize(bytearray(payload))
    except Exception as error:
        raise ProgramError(
            f"This jax ({jax.__version__}) cannot read a program of the cluster: {error}. Let all "
            "tasks run the same version of jax."
        ) from error
    _check(exported)
    copies = _copies(exported.nr_devices)
    compiled = jax.jit(exported.call, donate_argnums=tuple(donate), in_shardings=copies)
    if copies is None or jax.default_backend() != "cpu":
        return compiled

    def alone(*arrays: Any) -> Any:
        with _on_several_cpus:
            return jax.block_until_ready(compiled(*arrays))

    return alone


_on_several_cpus = ForkSafeLock()
"""XLA's threads would wait for each other in collectives of two programs on several CPU devices."""


def _copies(devices: int) -> NamedSharding | None:
    """Where a program of several devices finds its arguments: on each; None for one device."""
    if devices == 1:
        return None
    here = jax.local_devices()
    if len(here) < devices:
        raise ProgramError(
            f"A program of the cluster was made for {devices} devices, and this task has "
            f"{len(here)}. Give every worker as many."
        )
    return NamedSharding(Mesh(np.array(here[:devices]), ("device",)), PartitionSpec())


def _check(exported: jax.export.Exported) -> None:
    version = exported.calling_convention_version
    oldest = jax.export.minimum_supported_calling_convention_version
    newest = jax.export.maximum_supported_calling_convention_version
    if not oldest <= version <= newest:
        raise ProgramError(
            f"A program of the cluster has the calling convention {version}, and this jax "
            f"({jax.__version__}) knows {oldest} to {newest}. Let all tasks run the same version "
            "of jax."
        )
    platform = jax.default_backend()
    names = {"gpu": ("cuda", "rocm")}.get(platform, (platform,))
    if not set(names) & set(exported.platforms):
        raise ProgramError(
            f"A program of the cluster was made for {', '.join(exported.platforms)}, and this task "
            f"runs on {platform}. Set JAX_PLATFORMS=cpu for this task, or give the platform when "
            "the program is made."
        )


def digest_of(exported: jax.export.Exported) -> str:
    """Equal for programs that do the same: without the places in the source.

    These differ from export to export.
    """
    lines = str(exported.mlir_module()).splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#loc"))
    return hashlib.sha256(_PLACE.sub("", text).encode()).hexdigest()
