"""What a program and the environment choose for this process.

Kernels and buffers are chosen before JAX is loaded. What a program sets by other calls is noted
here, for worker processes, which are new interpreters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

CPU_KERNELS_VARIABLE = "DRUMLINE_CPU_KERNELS"
LARGE_BUFFERS_VARIABLE = "DRUMLINE_LARGE_BUFFERS"
CACHE_VARIABLE = "DRUMLINE_COMPILATION_CACHE"

CPU_KERNELS = (
    "max_pool_gradient",
    "pointwise_convolution",
    "direct_convolution",
    "weight_gradient",
    "few_channels",
    "pooled_convolution",
    "eigen_convolution",
)
"""The groups of CPU kernels, in the order in which they are tried."""


def chosen_kernels(value: str | None) -> tuple[str, ...]:
    """The groups that the environment's value asks for, in the order of `CPU_KERNELS`.

    ``None`` and ``"1"`` ask for all, ``"0"`` for none, a comma-separated list for its members.

    Raises:
        ValueError: if a member of the list is not known, or the list is empty.
    """
    if value is None or value.strip() == "1":
        return CPU_KERNELS
    if value.strip() == "0":
        return ()
    try:
        return ordered(name.strip() for name in value.split(","))
    except ValueError as error:
        raise ValueError(
            f"{CPU_KERNELS_VARIABLE}={value!r}: {error}. Set it to 0 (none), to 1 (all), or to a "
            "comma-separated list of these names."
        ) from None


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """These groups, in the order of `CPU_KERNELS`.

    Raises:
        ValueError: if one is not known.
    """
    asked = list(names)
    unknown = [name for name in asked if name not in CPU_KERNELS]
    if unknown:
        raise ValueError(
            f"{', '.join(map(repr, unknown))} is no group of CPU kernels; they are "
            f"{', '.join(CPU_KERNELS)}"
        )
    return tuple(name for name in CPU_KERNELS if name in asked)


def chosen_buffers(value: str | None) -> bool:
    """Whether the environment's value asks for XLA's large buffers to be reused.

    Raises:
        ValueError: if it is neither 0 nor 1.
    """
    text = "0" if value is None else value.strip()
    if text not in ("0", "1"):
        raise ValueError(
            f"{LARGE_BUFFERS_VARIABLE}={value!r}: set it to 1 to reuse XLA's large buffers on the "
            "CPU from call to call, or to 0 (the default) to leave them to the C library."
        )
    return text == "1"


def cache_directory() -> str:
    """Where compiled programs are kept unless another directory is named: in the user's cache."""
    caches = os.environ.get("XDG_CACHE_HOME")
    base = Path(caches) if caches else Path.home() / ".cache"
    return str(base / "drumline" / "compilation")


cpu_kernels: tuple[str, ...] = chosen_kernels(os.environ.get(CPU_KERNELS_VARIABLE))
large_buffers: bool = chosen_buffers(os.environ.get(LARGE_BUFFERS_VARIABLE))


_choices: dict[Callable[[Any], object], Any] = {}


def note_choice(setter: Callable[[Any], object], value: Any) -> None:
    """Note that the program called ``setter(value)``: worker processes that start later call it."""
    _choices[setter] = value


def choices() -> list[tuple[Callable[[Any], object], Any]]:
    """Return what was noted, by the setters, which are functions of modules, with their values."""
    return list(_choices.items())
