"""The values of variables while a function that reads and writes them is traced.

Also the variables that a trace creates: they get their initial values after it.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import jax

from drumline.training.jax_internals import (
    Tracer,
    ancestors,
    current_trace,
    is_staged,
    same_value,
)
from drumline.training.keras_internals import (
    StatelessScope,
    Variable,
    get_stateless_scope,
    initialize_all_variables,
    uninitialized_variables,
)

# Functions that the user compiled with jax.jit are traced again in every scope, and after a write
# of a variable that such a function has read: an earlier trace holds the value of then.
_scope_number = jax.make_user_context(default_value=0)
_numbers = itertools.count(1)


class NewVariables(BaseException):
    """The function used variables that were not among those it was traced with.

    Raised while tracing and caught by whoever asked for the trace, which then starts again. Not an
    ``Exception``, so that no handler of the user's swallows it on its way.
    """


class WideVariables(BaseException):
    """The function used a variable of 64-bit numbers and was not traced for such.

    Raised while tracing within `refusing_wide`, and caught as `NewVariables` is.
    """


_refusing_wide: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "drumline_refusing_wide", default=False
)


@contextlib.contextmanager
def refusing_wide(refuse: bool) -> Iterator[None]:
    """Within the block a scope raises `WideVariables` where a variable keeps 64 bits, or not."""
    token = _refusing_wide.set(refuse)
    try:
        yield
    finally:
        _refusing_wide.reset(token)


def keeps_64_bits(variable: Variable) -> bool:
    """Whether `variable` holds numbers of 64 bits that JAX would narrow by default."""
    return bool(getattr(variable, "keeps_64_bits", False))


class StateScope(StatelessScope):
    """Values of variables in one trace; reads and writes go here and are recorded.

    Writes are gone when the block ends, unless they are read from `value_of`. Variables that are
    used without having been given are noted in `discovered`; until they are written they have the
    value of the enclosing scope, or their own.

    Args:
        variables: the variables whose values are given.
        values: their values, in the same order.
        sealed: raise `NewVariables` on the use of any other variable.
        outer: the enclosing scope; by default the one in force.
        symbol_of: ``symbol_of(value, trace)`` is what a discovered variable holds that has this
            value, or None for the value; by default the value itself.

    Attributes:
        discovered: the variables that were used without having been given.
        creates: whether variables made inside get their values at once, as outside of any scope.
        taking_part: who else is to know of the trace: strategies whose steps became part of it.
        lifted: the variables for which there is a symbol, in the order of these.
        needs_values: whether a value was read for which there is no symbol: of a variable that has
            none yet, or where something is computed at once.
        may_be_left: whether the trace may end early by an exception, where a step is not to be
            part of it.
    """

    def __init__(
        self,
        variables: Iterable[Variable] = (),
        values: Iterable[Any] = (),
        *,
        sealed: bool = False,
        outer: StatelessScope | None = None,
        symbol_of: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        super().__init__(collect_losses=True, initialize_variables=False)
        self._known = {id(variable): variable for variable in variables}
        self.state_mapping = dict(zip(self._known, values, strict=True))
        self._written: dict[int, Variable] = {}
        self.taking_part: list[Any] = []
        self._sealed = sealed
        self._outer = get_stateless_scope() if outer is None else outer
        self._numbers = contextlib.ExitStack()
        self._trace: Any = None
        self._read_within: set[int] = set()
        self._brought: dict[int, Any] = {}
        self.discovered: list[Variable] = []
        self.creates = False
        self.needs_values = False
        self.may_be_left = False
        self.lifted: list[Variable] = []
        self._symbol_of = symbol_of

    def __enter__(self) -> StateScope:
        self._numbers.enter_context(_scope_number(next(_numbers)))
        self._trace = current_trace()
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._numbers.__exit__(*exception)

    @property
    def written(self) -> list[Variable]:
        """The variables that were written, in the order of their first write."""
        return list(self._written.values())

    def value_before(self, variable: Variable) -> Any:
        """What `variable` holds outside of this scope, as the raw array."""
        return variable._value if self._outer is None else _value_in(self._outer, variable)

    def value_of(self, variable: Variable) -> Any:
        """What `variable` holds now, as the raw array."""
        return _value_in(self, variable)

    def get_current_value(self, variable: Variable) -> Any:
        """Keras asks for the value of `variable`; never None, which its losses do not expect."""
        if current_trace() is not self._trace:
            self._read_within.add(id(variable))
        if self._symbol_of is not None and not is_staged(current_trace()):
            # Computed at once while the function is traced, what is read may become a constant.
            self.needs_values = True
            if id(variable) not in self._written and variable._value is not None:
                self._discover(variable)
                return variable._value
        value = self.state_mapping.get(id(variable))
        if value is None:
            self._discover(variable)
            if self._outer is not None:
                value = self._brought_in(variable, self._outer.get_current_value(variable))
            if value is None:
                value = variable._value
            if value is None:
                self.needs_values = True
                value = self.state_mapping[id(variable)] = _stand_in(variable)
            elif self._symbol_of is not None:
                value = self._symbol_for(variable, value)
        return value

    def _symbol_for(self, variable: Variable, value: Any) -> Any:
        """The symbol of a variable, or its value where there are none."""
        assert self._symbol_of is not None
        symbol = self._symbol_of(value, self._trace)
        if symbol is None:
            self.needs_values = True
            return value
        self.lifted.append(variable)
        self.state_mapping[id(variable)] = symbol
        return symbol

    def _brought_in(self, variable: Variable, value: Any) -> Any:
        """A symbol of a trace around this one as a symbol of this one, which open tapes see."""
        if not isinstance(value, Tracer) or value._trace in ancestors(self._trace):
            return value
        if id(variable) not in self._brought:
            self._brought[id(variable)] = same_value(value, self._trace)
        return self._brought[id(variable)]

    def add_update(self, update: tuple[Variable, Any]) -> None:
        """Keras writes a variable."""
        variable, value = update
        self._discover(variable)
        if id(variable) in self._read_within:
            self._read_within.clear()
            self._numbers.enter_context(_scope_number(next(_numbers)))
        self.state_mapping[id(variable)] = value
        self._written[id(variable)] = variable

    def _discover(self, variable: Variable) -> None:
        if id(variable) in self._known:
            return
        if keeps_64_bits(variable) and _refusing_wide.get():
            raise WideVariables()
        if self._sealed:
            raise NewVariables()
        self._known[id(variable)] = variable
        self.discovered.append(variable)


def current_values(variables: Sequence[Variable]) -> list[Any]:
    """The raw arrays that `variables` hold, in the enclosing scope if there is one.

    A variable that a trace in progress created has none yet, and gets a stand-in of its shape.
    """
    scope = get_stateless_scope()
    if scope is None:
        return [variable._value for variable in variables]
    return [_value_in(scope, variable) for variable in variables]


def _value_in(scope: StatelessScope, variable: Variable) -> Any:
    value = scope.get_current_value(variable)
    if value is None:
        value = variable._value
    return _stand_in(variable) if value is None else value


def _stand_in(variable: Variable) -> Any:
    """Something of the shape of a variable that a trace in progress created."""
    return variable._initializer(variable.shape, dtype=variable._dtype)


def assign_values(variables: Sequence[Variable], values: Sequence[Any]) -> None:
    """Give `variables` their new raw arrays, in the enclosing scope if there is one."""
    scope = get_stateless_scope()
    if scope is None:
        for variable, value in zip(variables, values, strict=True):
            variable._direct_assign(value)
        return
    for variable, value in zip(variables, values, strict=True):
        scope.add_update((variable, value))


def initialize_created() -> list[Variable]:
    """Give the variables that a trace created their initial values, and return them."""
    created = list(uninitialized_variables())
    if created:
        initialize_all_variables()
    return created


def refuse_created(fn: Callable[..., Any], created: Sequence[Variable]) -> NoReturn:
    """Raise because a step created variables other than in its first trace.

    Raises:
        ValueError: always, as ``tf.function`` does.
    """
    names = ", ".join(repr(variable.path) for variable in created)
    raise ValueError(
        f"{getattr(fn, '__qualname__', fn)!s} created the variable(s) {names} when it was traced "
        "again. A step may create variables the first time it is traced only. Create them outside "
        "of it, or keep them: `if self.v is None: self.v = dl.Variable(...)`."
    )
