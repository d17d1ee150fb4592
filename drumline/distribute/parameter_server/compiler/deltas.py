"""Which writes of variables add to them, and what."""

from __future__ import annotations

from typing import Any

from drumline.training import jax_internals

_PASSED_ON = frozenset({"copy", "copy_p", "stop_gradient"})


def added_terms(jaxpr: Any, old: Any, new: Any) -> list[tuple[int, Any]] | None:
    """What a program adds to one of its inputs.

    Args:
        jaxpr: the program.
        old: the input: what a variable holds before.
        new: what it holds after.

    Returns:
        ``(sign, term)`` for each term of the sum ``new = old + ...``, or None if `new` is no sum
        with `old`. Terms are variables or literals of the program.
    """
    made = {variable: eqn for eqn in jaxpr.eqns for variable in eqn.outvars}
    terms: list[tuple[int, Any]] = []
    while new is not old:
        eqn = None if jax_internals.is_literal(new) else made.get(new)
        name = None if eqn is None else eqn.primitive.name
        if eqn is None:
            return None
        if name in _PASSED_ON or _is_same_dtype(eqn):
            new = eqn.invars[0]
        elif name == "sub":
            terms.append((-1, eqn.invars[1]))
            new = eqn.invars[0]
        elif name in ("add", "add_any"):
            left, right = eqn.invars
            leads = _reaches(made, right, old)
            if leads and _reaches(made, left, old):
                return None
            new, other = (right, left) if leads else (left, right)
            terms.append((1, other))
        else:
            return None
    return terms


def _reaches(made: dict[Any, Any], atom: Any, old: Any) -> bool:
    """Whether `atom` is `old` or a sum with it."""
    while atom is not old:
        eqn = None if jax_internals.is_literal(atom) else made.get(atom)
        if eqn is None:
            return False
        name = eqn.primitive.name
        if name in _PASSED_ON or name == "sub" or _is_same_dtype(eqn):
            atom = eqn.invars[0]
        elif name in ("add", "add_any"):
            return any(_reaches(made, each, old) for each in eqn.invars)
        else:
            return False
    return True


def _is_same_dtype(eqn: Any) -> bool:
    """Whether the equation converts to the dtype that there is."""
    is_conversion = eqn.primitive.name == "convert_element_type"
    return is_conversion and bool(eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype)
