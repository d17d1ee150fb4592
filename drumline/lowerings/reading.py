"""Who defines and who uses the values of a program."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from drumline.lowerings import jax_internals

_NESTED = ("jit", "pjit", "custom_jvp_call")


class Reading:
    """A program, read once. Copies of a value are taken for the value itself."""

    def __init__(self, program: Any) -> None:
        self.equations = list(program.eqns)
        self._original: dict[Any, Any] = {}
        self._definition: dict[Any, int] = {}
        self._uses: dict[Any, set[int]] = defaultdict(set)
        self._copies: dict[Any, set[int]] = defaultdict(set)
        for number, equation in enumerate(self.equations):
            if equation.primitive.name == "copy":
                value = self.value(equation.invars[0])
                self._original[equation.outvars[0]] = value
                if jax_internals.is_variable(value):
                    self._copies[value].add(number)
                continue
            for variable in equation.outvars:
                self._definition[variable] = number
            for atom in equation.invars:
                if jax_internals.is_variable(atom):
                    self._uses[self.value(atom)].add(number)
        self.outputs = {
            self.value(atom) for atom in program.outvars if jax_internals.is_variable(atom)
        }

    def value(self, atom: Any) -> Any:
        """What `atom` is a copy of, or `atom` itself."""
        if not jax_internals.is_variable(atom):
            return atom
        return self._original.get(atom, atom)

    def inputs(self, number: int) -> list[Any]:
        """The values that an equation takes."""
        return [self.value(atom) for atom in self.equations[number].invars]

    def output(self, number: int) -> Any:
        """The one value that an equation defines."""
        return self.equations[number].outvars[0]

    def uses(self, value: Any) -> set[int]:
        """The numbers of the equations that take a value."""
        return self._uses[value]

    def copies(self, value: Any) -> set[int]:
        """The numbers of the equations that copy a value."""
        return self._copies[value]

    def definition(self, value: Any, name: str) -> int | None:
        """The number of the equation that defines `value`, if its primitive is called `name`."""
        number = self._definition.get(value) if jax_internals.is_variable(value) else None
        if number is None or self.equations[number].primitive.name != name:
            return None
        return number

    def is_zero(self, atom: Any) -> bool:
        """Whether this is the constant zero, in any shape."""
        if not jax_internals.is_variable(atom):
            return _is_scalar_zero(atom)
        number = self.definition(atom, "broadcast_in_dim")
        return number is not None and _is_scalar_zero(self.equations[number].invars[0])

    def relu(self, value: Any) -> tuple[int, Any] | None:
        """The equation that makes `value` the greater of zero and another value, and that value."""
        number = self._definition.get(value)
        if number is None:
            return None
        equation = self.equations[number]
        if equation.primitive.name != "max" and not is_relu(equation):
            return None
        inputs = self.inputs(number)
        if equation.primitive.name == "max" and self.is_zero(inputs[0]):
            inputs.reverse()
        if len(inputs) == 2 and not self.is_zero(inputs[1]):
            return None
        return (number, inputs[0]) if jax_internals.is_variable(inputs[0]) else None


def is_relu(equation: Any) -> bool:
    """Whether the equation calls a program that takes the greater of zero and its only operand."""
    program = jax_internals.called_program(equation, _NESTED)
    if program is None or len(program.eqns) != 1 or len(program.invars) != 1:
        return False
    (inner,) = program.eqns
    if len(program.outvars) != 1 or program.outvars[0] is not inner.outvars[0]:
        return False
    if inner.invars[0] is not program.invars[0]:
        return False
    if inner.primitive.name == "max":
        return _is_scalar_zero(inner.invars[1])
    return is_relu(inner)


def _is_scalar_zero(atom: Any) -> bool:
    return jax_internals.is_literal(atom) and atom.aval.shape == () and bool(atom.val == 0)
