"""What rewritten functions call: Python where conditions are concrete, XLA's control flow else."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from drumline.autograph.values import TensorKind, TracedRange
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.state_scope import StateScope


class _Nothing:
    def __repr__(self) -> str:
        return "<not assigned>"


NOTHING = _Nothing()
"""What a name holds that has no value."""

_VALUE = "__value__"
_PLAIN = (bool, int, float, complex)
_ARRAYS = (jax.Array, np.ndarray, np.generic)


class ControlFlow:
    """The runtime of one converted function and of the functions it calls.

    Args:
        values: what knows tensors.
        convert: converts a function that is called.
    """

    nothing = NOTHING

    def __init__(
        self, values: TensorKind, convert: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self._values = values
        self._convert = convert
        self._traced = values.is_traced

    def callee(self, function: Any) -> Any:
        """Return a function that is about to be called, converted where it is the user's."""
        kind = type(function)
        if kind is types.BuiltinFunctionType or kind is type:
            return self._values.replaced(function)
        return self._convert(function)

    def not_(self, value: Any) -> Any:
        """``not value``."""
        if self._traced(value):
            return self._values.wrap(jnp.logical_not(self._values.truth(value)))
        return not value

    def and_(self, value: Any, *others: Callable[[], Any]) -> Any:
        """``value and other and ...``: of traced values all are computed."""
        for other in others:
            if self._traced(value):
                value = self._both(jnp.logical_and, value, other())
            elif not value:
                return value
            else:
                value = other()
        return value

    def or_(self, value: Any, *others: Callable[[], Any]) -> Any:
        """``value or other or ...``: of traced values all are computed."""
        for other in others:
            if self._traced(value):
                value = self._both(jnp.logical_or, value, other())
            elif value:
                return value
            else:
                value = other()
        return value

    def _both(self, operation: Callable[..., Any], value: Any, other: Any) -> Any:
        right = self._values.truth(other) if self._traced(other) else bool(other)
        return self._values.wrap(operation(self._values.truth(value), right))

    def if_expression(
        self, test: Any, then: Callable[[], Any], otherwise: Callable[[], Any], line: int = 0
    ) -> Any:
        """``then if test else otherwise``; `line` is for messages."""
        if not self._traced(test):
            return then() if test else otherwise()
        cell = types.CellType()

        def branch(value: Callable[[], Any]) -> Callable[[], None]:
            def run() -> None:
                cell.cell_contents = value()

            return run

        self._cond(test, branch(then), branch(otherwise), {_VALUE: cell}, line)
        return cell.cell_contents

    def repeat(
        self,
        test: Callable[..., Any],
        body: Callable[..., Sequence[Any]],
        values: Sequence[Any],
        limit: int | None,
        line: int,
    ) -> list[Any]:
        """Return the values after ``while test(*values): values = body(*values)``.

        Args:
            test: gives a condition; the loop is traced once this is.
            body: gives as many values as it takes.
            values: before the first step.
            limit: at most so many steps; None for no limit.
            line: for messages.
        """
        cells = {f"loop variable {i}": types.CellType(each) for i, each in enumerate(values)}

        def held() -> list[Any]:
            return [cell.cell_contents for cell in cells.values()]

        def step(_: Any) -> None:
            for cell, value in zip(cells.values(), body(*held()), strict=True):
                cell.cell_contents = value

        steps = 0
        while limit is None or steps < limit:
            on = test(*held())
            if self._traced(on):
                rest = None if limit is None else limit - steps
                self._loop(cells, lambda _: test(*held()), step, rest, (), line)
                break
            if not on:
                break
            step(None)
            steps += 1
        return held()

    def assert_(self, test: Any, message: Callable[[], Any]) -> None:
        """``assert test, message``; a traced one fails when the program runs."""
        if not self._traced(test):
            if not test:
                text = message()
                raise AssertionError() if text is None else AssertionError(text)
            return
        text = message()
        frame = sys._getframe(1)
        code, line = frame.f_code, frame.f_lineno

        def failed() -> Exception:
            error = AssertionError() if text is None else AssertionError(text)
            error.add_note(f'asserted in File "{code.co_filename}", line {line}, in {code.co_name}')
            return error

        self._values.require(self._values.truth(test), failed)

    def returned(self, flag: Any, value: Any) -> Any:
        """Return what a function returns that may reach its end without a ``return``.

        Raises:
            ValueError: a traced condition decides whether it returns a value.
        """
        if self._traced(flag):
            if value is None:
                return None
            raise ValueError(
                "A traced condition decides whether the function returns a value: if one branch "
                "returns a value, all paths must. Add a `return` at its end."
            )
        return value if flag else None

    def if_(
        self,
        test: Any,
        then: types.FunctionType,
        otherwise: types.FunctionType,
        names: Sequence[str],
        line: int,
        stores: Sequence[str] = (),
    ) -> None:
        """``if``: the branches assign `names` in the closure they share."""
        if not self._traced(test):
            if test:
                then()
            else:
                otherwise()
            return
        self._refuse_stores(stores, line)
        lists = _lists((then, otherwise))
        self._cond(test, then, otherwise, self._cells(names, line, then, otherwise), line)
        self._refuse_appends(lists, line)

    def _cond(
        self,
        test: Any,
        then: Callable[[], Any],
        otherwise: Callable[[], Any],
        cells: dict[str, types.CellType],
        line: int,
    ) -> None:
        before = _Names(self._values, cells)
        branches = []
        for branch in (then, otherwise):
            trace = _Trace()

            def run(branch: Any = branch, trace: Any = trace) -> list[Any]:
                branch()
                return trace.take(_Names(self._values, cells))

            try:
                trace.program = jax.make_jaxpr(run)()
            finally:
                before.restore()
            branches.append(trace)
        a, b = branches
        variables = {**before.written_by(a.state), **before.written_by(b.state)}
        for trace in branches:
            trace.keep_only(variables, before)
        merged = {name: _merged(str(name), a, b, name, line, self._values) for name in a.kinds}
        trees = [found for found in merged.values() if isinstance(found, _Tree)]

        def results(place: int) -> list[Any]:
            arrays = jaxpr_as_fun(branches[place].program)()
            return [leaf for tree in trees for leaf in tree.leaves(place, arrays)]

        leaves = iter(
            jax.lax.cond(self._values.truth(test), lambda: results(0), lambda: results(1))
        )
        for name, found in merged.items():
            if isinstance(found, _Tree):
                own = [next(leaves) for _ in found.avals]
                found = self._values.wrap(jax.tree.unflatten(found.treedef, own))
            before.assign(name, found, variables)

    def while_(
        self,
        test: types.FunctionType,
        body: types.FunctionType,
        names: Sequence[str],
        line: int,
        stores: Sequence[str] = (),
    ) -> None:
        """``while``: as Python until the condition is traced."""
        while True:
            before = test()
            if self._traced(before):
                break
            if not before:
                return
            body()
        self._refuse_stores(stores, line)
        cells = self._cells(names, line, test, body)
        self._loop(cells, lambda _: test(), lambda _: body(), None, (test, body), line)

    def for_(
        self,
        iterable: Any,
        body: types.FunctionType,
        going: types.FunctionType | None,
        names: Sequence[str],
        line: int,
        stores: Sequence[str] = (),
    ) -> None:
        """``for`` over anything but a dataset."""
        traced = self._traced(iterable)
        if not traced and not isinstance(iterable, TracedRange):
            items = iter(iterable)
            for item in items:
                body(item)
                if going is None:
                    continue
                on = going()
                if self._traced(on):
                    self._refuse_stores(stores, line)
                    self._rest(list(items), body, going, names, line)
                    return
                if not on:
                    return
            return
        self._refuse_stores(stores, line)
        functions = (body,) if going is None else (body, going)
        cells = self._cells(names, line, *functions)
        if isinstance(iterable, TracedRange):
            length: Any = iterable.length()
            element: Callable[[Any], Any] = iterable.item
        else:
            array = self._values.unwrap(iterable)
            if not array.shape:
                raise TypeError(
                    "A loop cannot go over a scalar; it goes over an array's first axis."
                )
            length, element = array.shape[0], array.__getitem__
            if length == 0:
                return
        more = None if going is None else (lambda _: going())

        def step(index: Any) -> None:
            body(self._values.wrap(element(index)))

        self._loop(cells, more, step, length, functions, line)

    def _rest(
        self, items: list[Any], body: Any, going: Any, names: Sequence[str], line: int
    ) -> None:
        """The items after one at which a traced condition decides whether the loop continues."""
        cells = self._cells(names, line, body, going)
        for item in items:
            self._cond(going(), functools.partial(body, item), lambda: None, cells, line)

    def _loop(
        self,
        cells: dict[str, types.CellType],
        test: Callable[[Any], Any] | None,
        body: Callable[[Any], Any],
        length: Any,
        functions: Sequence[types.FunctionType],
        line: int,
    ) -> None:
        """A traced loop over what its functions assign; with a `length`, of so many steps."""
        before = _Names(self._values, cells)
        lists = _lists(functions)
        start = {name: _carried(value) for name, value in before.values.items()}
        index = jnp.zeros((), int)
        for _ in range(4):
            trace = self._loop_body(before, start, cells, test, body, index)
            self._refuse_appends(lists, line)
            settled = True
            for name, (treedef, leaves) in trace.kinds.items():
                avals = [_aval(leaf, trace) for leaf in leaves]
                were, structure = jax.tree.flatten(before.values.get(name, NOTHING))
                unchanged = structure == treedef and all(map(_same, were, leaves))
                new = _settled(
                    str(name),
                    before.values.get(name),
                    start.get(name),
                    (treedef, avals),
                    unchanged,
                    line,
                    self._values,
                )
                settled = settled and new is None
                if new is not None:
                    start[name] = new
            if settled:
                break
        carried = {name: each for name, each in start.items() if each is not None}

        def restore(leaves: Sequence[Any]) -> None:
            position = 0
            for name, (treedef, kept) in carried.items():
                part = leaves[position : position + len(kept)]
                position += len(kept)
                before.assign(
                    name, self._values.wrap(jax.tree.unflatten(treedef, part)), before.variables
                )

        def step(state: Any) -> Any:
            position, leaves = state
            restore(leaves)
            body(position)
            after = _Names(self._values, cells)
            new = []
            for name, (_, kept) in carried.items():
                found = jax.tree.leaves(after.values[name])
                new += [jnp.asarray(v).astype(o.dtype) for v, o in zip(found, kept, strict=True)]
            return position + 1, new

        def more(state: Any) -> Any:
            restore(state[1])
            on = True if test is None else test(state[0])
            on = self._values.truth(on) if self._traced(on) else jnp.asarray(bool(on))
            return on if length is None else jnp.logical_and(on, state[0] < length)

        initial = (index, [leaf for _, leaves in carried.values() for leaf in leaves])
        try:
            if isinstance(length, int):

                def scanned(state: Any, _: Any) -> Any:
                    if test is None:
                        return step(state), None
                    return jax.lax.cond(more(state), step, lambda same: same, state), None

                (_, leaves), _ = jax.lax.scan(scanned, initial, None, length=length)
            else:
                _, leaves = jax.lax.while_loop(more, step, initial)
        finally:
            before.restore()
        restore(leaves)

    def _loop_body(
        self, before: _Names, start: Any, cells: Any, test: Any, body: Any, index: Any
    ) -> _Trace:
        """Trace the body once to see what it leaves."""
        trace = _Trace()
        carried = {name: each for name, each in start.items() if each is not None}

        def run(position: Any, leaves: Any) -> list[Any]:
            for name, values in zip(carried, leaves, strict=True):
                tree = self._values.wrap(jax.tree.unflatten(carried[name][0], values))
                before.assign(name, tree, before.variables)
            if test is not None:
                test(position)
            body(position)
            after = _Names(self._values, cells)
            taken = trace.take(after)
            variables = before.written_by(after)
            before.variables |= variables
            trace.keep_only(variables, before)
            for key in variables:
                start.setdefault(key, _carried(before.variable_value(variables[key])))
            return taken

        try:
            trace.program = jax.make_jaxpr(run)(index, [leaves for _, leaves in carried.values()])
        finally:
            before.restore()
        return trace

    def _cells(self, names: Sequence[str], line: int, *functions: Any) -> dict[str, types.CellType]:
        found: dict[str, types.CellType] = {}
        for function in functions:
            found |= zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name in names:
            if name not in found:
                raise self._values.refused(
                    f"Line {line} assigns the global {name!r} under a condition that is known only "
                    "when the program runs. Return the value, or assign it outside."
                )
        return {name: found[name] for name in names}

    def _refuse_appends(self, lists: Sequence[tuple[str, list[Any], list[Any]]], line: int) -> None:
        for name, before, held in lists:
            if len(held) != len(before):
                held[:] = before
                raise self._values.refused(
                    f"The condition or loop in line {line} changes the length of the list "
                    f"{name!r}, and whether and how often it runs is known only when the program "
                    f"runs. {self._values.instead_of_lists}"
                )

    def _refuse_stores(self, stores: Sequence[str], line: int) -> None:
        if stores:
            raise self._values.refused(
                f"The condition or loop in line {line} assigns {', '.join(stores)}, and whether it "
                "runs is known only when the program runs: only names and drumline's variables can "
                "depend on that. Assign a name there, and the item or attribute after it."
            )


class _At:
    """The place of an array among a trace's results."""

    def __init__(self, index: int) -> None:
        self.index = index


class _Tree:
    """A merged pytree.

    Args:
        treedef: what both branches leave in the end.
        avals: the shapes and dtypes of its leaves.
        sides: the leaves that each branch leaves, as `_Trace` keeps them; `NOTHING` becomes zeros.
        common: makes the one structure of what a branch leaves; None if it has it.
        own: the structure that each branch leaves, for `common`.
    """

    def __init__(
        self,
        treedef: Any,
        avals: Sequence[Any],
        sides: Sequence[Sequence[Any]],
        common: Callable[[Any], Any] | None = None,
        own: Sequence[Any] = (),
    ) -> None:
        self.treedef = treedef
        self.avals = avals
        self._sides = sides
        self._common = common
        self._own = own

    def leaves(self, place: int, arrays: Sequence[Any]) -> list[Any]:
        """Return what a branch leaves, where `arrays` are its trace's results."""
        found = [
            arrays[leaf.index] if isinstance(leaf, _At) else leaf for leaf in self._sides[place]
        ]
        if self._common is not None:
            found = jax.tree.leaves(self._common(self._own[place].unflatten(found)))
        return [
            jnp.zeros(aval.shape, aval.dtype)
            if leaf is NOTHING
            else jnp.asarray(leaf).astype(aval.dtype)
            for leaf, aval in zip(found, self.avals, strict=True)
        ]


class _Names:
    """What names and drumline's variables hold at one moment.

    Args:
        values: what knows tensors.
        cells: the names' variables.
    """

    def __init__(self, values: TensorKind, cells: dict[str, types.CellType]) -> None:
        self._cells = cells
        self._unwrap = values.unwrap
        self._held = {name: _read(cell) for name, cell in cells.items()}
        self.values: dict[Any, Any] = {n: values.unwrap(v) for n, v in self._held.items()}
        scope = get_stateless_scope()
        self._scope = scope if isinstance(scope, StateScope) else None
        self._mapping = {} if self._scope is None else dict(self._scope.state_mapping)
        self.variables: dict[Any, Any] = {}
        if self._scope is not None:
            self.variables = {id(variable): variable for variable in self._scope.written}
            self.values |= {key: self._scope.value_of(v) for key, v in self.variables.items()}

    def restore(self) -> None:
        """Give names and variables what they held."""
        for name, cell in self._cells.items():
            _write(cell, self._held[name])
        if self._scope is not None:
            self._scope.state_mapping = dict(self._mapping)

    def assign(self, name: Any, value: Any, variables: dict[Any, Any]) -> None:
        """Give a name, or the variable of that key, a value."""
        if name in self._cells:
            _write(self._cells[name], value)
        elif self._scope is not None:
            self._scope.add_update((variables[name], self._unwrap(value)))

    def written_by(self, after: _Names) -> dict[Any, Any]:
        """The variables that were written since."""
        return {
            key: variable
            for key, variable in after.variables.items()
            if after._mapping.get(key) is not self._mapping.get(key)
        }

    def variable_value(self, variable: Any) -> Any:
        assert self._scope is not None
        return self._scope.value_of(variable)


class _Trace:
    """What one traced branch left."""

    program: Any
    state: _Names

    def __init__(self) -> None:
        self.kinds: dict[Any, tuple[Any, list[Any]]] = {}

    def take(self, state: _Names) -> list[Any]:
        self.state = state
        arrays: list[Any] = []
        for name, value in state.values.items():
            leaves, treedef = jax.tree.flatten(value)
            kept = []
            for leaf in leaves:
                if (
                    isinstance(leaf, _ARRAYS)
                    and leaf.dtype != object
                    and leaf.dtype.kind not in "SU"
                ):
                    kept.append(_At(len(arrays)))
                    arrays.append(leaf)
                else:
                    kept.append(leaf)
            self.kinds[name] = (treedef, kept)
        return arrays

    def keep_only(self, variables: dict[Any, Any], before: _Names) -> None:
        """Of drumline's variables, those that a branch wrote."""
        for name in [n for n in self.kinds if isinstance(n, int) and n not in variables]:
            del self.kinds[name]
        for key, variable in variables.items():
            if key not in self.kinds:
                self.kinds[key] = (jax.tree.structure(0), [before.variable_value(variable)])


def _read(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return NOTHING


def _write(cell: types.CellType, value: Any) -> None:
    if value is not NOTHING:
        cell.cell_contents = value
    elif _read(cell) is not NOTHING:
        del cell.cell_contents


def _lists(functions: Sequence[Any]) -> list[tuple[str, list[Any], list[Any]]]:
    found = []
    for function in functions:
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            held = _read(cell)
            if type(held) is list:
                found.append((name, list(held), held))
    return found


def _is_numeric(leaf: Any) -> bool:
    return isinstance(leaf, (_At, *_PLAIN)) or (
        isinstance(leaf, _ARRAYS) and leaf.dtype.kind in "biufcV"
    )


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (*_PLAIN, str, bytes)) and a == b)


def _aval(leaf: Any, trace: _Trace) -> Any:
    """Shape, dtype and weakness of a leaf; None for what is no number."""
    if isinstance(leaf, _At):
        return trace.program.out_avals[leaf.index]
    return jax.typeof(jnp.asarray(leaf)) if _is_numeric(leaf) else None


def _merged(text: str, a: _Trace, b: _Trace, name: Any, line: int, values: TensorKind) -> Any:
    """What a name holds after either branch: the same object, a `_Tree`, or nothing.

    Raises:
        TypeError: the branches leave arrays of different structure, shape or dtype.
    """
    (tree_a, leaves_a), (tree_b, leaves_b) = a.kinds[name], b.kinds[name]
    hidden = text.startswith("__")
    for leaves, other, treedef in ((leaves_a, b, tree_b), (leaves_b, a, tree_a)):
        if len(leaves) == 1 and leaves[0] is NOTHING:
            kept = other.kinds[name][1]
            avals = [_aval(leaf, other) for leaf in kept]
            if not hidden or None in avals:
                return NOTHING
            missing = [NOTHING] * len(kept)
            return _Tree(treedef, avals, [missing, kept] if leaves is leaves_a else [kept, missing])
    if tree_a != tree_b:
        return _alike(text, a.kinds[name], a, b.kinds[name], b, line, values)
    if len(leaves_a) == 1 and tree_a == jax.tree.structure(0) and _same(leaves_a[0], leaves_b[0]):
        return leaves_a[0]
    avals = []
    for x, y in zip(leaves_a, leaves_b, strict=True):
        first, second = _aval(x, a), _aval(y, b)
        if first is None or second is None:
            if not hidden and not _same(x, y):
                return NOTHING  # functions, strings and the like of one branch only
            raise TypeError(_differs(text, line, type(x).__name__, type(y).__name__))
        avals.append(_of_both(text, first, second, line, values))
    return _Tree(tree_a, avals, (leaves_a, leaves_b))


def _of_both(text: str, first: Any, second: Any, line: int, values: TensorKind) -> Any:
    """The shape and dtype of a leaf, by those that the branches leave."""
    if first.shape != second.shape or (
        first.dtype != second.dtype and not (first.weak_type or second.weak_type)
    ):
        reason = _differs(text, line, first.str_short(), second.str_short())
        raise values.unlike(reason, first, second)
    dtype = first.dtype if not first.weak_type else second.dtype
    if first.weak_type != second.weak_type or first.weak_type:
        dtype = jnp.result_type(first, second)
    return jax.ShapeDtypeStruct(first.shape, dtype)


def _alike(
    text: str, one: Any, a: _Trace, other: Any, b: _Trace, line: int, values: TensorKind
) -> _Tree:
    """What a name holds after branches that leave two structures of which one can be made."""
    own = [treedef for treedef, _ in (one, other)]
    sides = [leaves for _, leaves in (one, other)]
    avals = [
        [_aval(leaf, trace) for leaf in leaves] for leaves, trace in zip(sides, (a, b), strict=True)
    ]
    forms = [treedef.unflatten(each) for treedef, each in zip(own, avals, strict=True)]
    known = all(aval is not None for each in avals for aval in each)
    common = values.common(*forms) if known else None
    if common is not None:
        first, second = (jax.make_jaxpr(common, return_shape=True)(form) for form in forms)
        treedef: Any = jax.tree.structure(first[1])
        if treedef == jax.tree.structure(second[1]):
            pairs = zip(first[0].out_avals, second[0].out_avals, strict=True)
            of_both = [_of_both(text, x, y, line, values) for x, y in pairs]
            return _Tree(treedef, of_both, sides, common, own)
    raise values.unlike(_differs(text, line, *map(str, own)), *forms)


def _differs(name: str, line: int, first: str, second: str) -> str:
    shown = "the value that is returned" if name == _VALUE else repr(name)
    return (
        f"The branches of the condition in line {line} leave {shown} as {first} and as {second}. "
        "The condition is known only when the program runs, so both must leave the same "
        "structure, shape and dtype."
    )


def _carried(value: Any) -> tuple[Any, list[Any]] | None:
    """A value as arrays that a loop carries; None for what is no number."""
    leaves, treedef = jax.tree.flatten(value)
    if not all(_is_numeric(leaf) for leaf in leaves):
        return None
    return treedef, [jnp.asarray(leaf) for leaf in leaves]


def _settled(
    text: str,
    held: Any,
    current: Any,
    after: tuple[Any, list[Any]],
    same: bool,
    line: int,
    values: TensorKind,
) -> Any:
    """None if a step leaves a name as it was, else what the loop is to start it with.

    Raises:
        TypeError: a step changes structure, shape or dtype.
    """
    treedef, avals = after
    if current is None:
        if held is NOTHING and None not in avals:
            return treedef, [jnp.zeros(aval.shape, aval.dtype) for aval in avals]
        if held is not NOTHING and not same:
            raise TypeError(_changes(text, line, f"{held!r:.40}", "another object"))
        return None
    if treedef != current[0] and None not in avals:
        start = values.started(jax.tree.unflatten(*current), treedef.unflatten(avals))
        if start is not None and jax.tree.structure(start) == treedef:
            return treedef, [jnp.asarray(leaf) for leaf in jax.tree.leaves(start)]
    if treedef != current[0] or None in avals:
        forms = jax.tree.unflatten(*current), treedef.unflatten(avals)
        raise values.unlike(_changes(text, line, str(current[0]), str(treedef)), *forms)
    leaves, changed = [], False
    for leaf, aval in zip(current[1], avals, strict=True):
        fits = leaf.shape == aval.shape and leaf.dtype == aval.dtype
        weak = jax.typeof(leaf).weak_type and not aval.shape and not leaf.shape
        if not fits and not aval.weak_type and weak and leaf.dtype.kind == aval.dtype.kind:
            leaf, fits, changed = leaf.astype(aval.dtype), True, True
        if not fits:
            was = jax.typeof(leaf).str_short()
            raise TypeError(_changes(text, line, was, aval.str_short()))
        leaves.append(leaf)
    return (treedef, leaves) if changed else None


def _changes(name: str, line: int, first: str, second: str) -> str:
    return (
        f"The loop in line {line} changes {name!r} from {first} to {second}. What a traced loop "
        "carries keeps structure, shape and dtype; start it with a value of the final kind."
    )
