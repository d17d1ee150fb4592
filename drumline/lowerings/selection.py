"""Which lowerings the environment asks for."""

from __future__ import annotations

VARIABLE = "DRUMLINE_CPU_LOWERINGS"
"""The environment variable that switches lowerings off, or names those to keep."""


def select(value: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names of ``known`` that ``value`` asks for, in the order of ``known``.

    ``None`` and ``"1"`` ask for all, ``"0"`` for none, a comma-separated list for its members.

    Raises:
        ValueError: if a member of the list is not in ``known``, or the list is empty.
    """
    if value is None or value.strip() == "1":
        return known
    if value.strip() == "0":
        return ()
    asked = [name.strip() for name in value.split(",")]
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise ValueError(
            f"{VARIABLE}={value!r} names {', '.join(map(repr, unknown))}, which is no CPU "
            f"lowering. Set it to 0 (none), to 1 (all), or to a comma-separated list out of: "
            f"{', '.join(known)}."
        )
    return tuple(name for name in known if name in asked)
