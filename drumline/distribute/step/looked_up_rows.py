"""Tables of embeddings that stay where variables live while a training step looks rows up.

A table is a variable from which the replicas' program takes rows by their ids, and nothing else, so
that its gradient is what is added to some rows. `tables_of` finds those of a step. Then each step
(`LookedUpRows`) runs a small program first, which computes the ids; each replica is sent rows of
its ids, each once, and where among them an id's is; the gradients of these rows come back, and are
added up in the order of the replicas, as where each replica's gradient has the table's shape.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.sharding import PartitionSpec, Sharding

from drumline.distribute.collectives.collective_channels import ChannelAllocator, ChannelRange
from drumline.distribute.values import REPLICA_AXIS
from drumline.training import jax_internals
from drumline.training.row_sparse.interpreter import RowSparse, Uniform, is_special
from drumline.training.row_sparse.table_access import TableInterpreter, WholeTableReadError

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


@dataclass(frozen=True)
class LeanProgram:
    """A compiled program, and which of the leaves of its arguments it reads.

    Attributes:
        jaxpr: the program.
        run: takes the leaves that are read, in order, and returns the results' leaves.
        reads: for each leaf of the arguments, whether it is read.
        ends: where the leaves of each argument end.
        results: their structure.
    """

    jaxpr: Any
    run: Callable[..., list[Any]]
    reads: tuple[bool, ...]
    ends: tuple[int, ...]
    results: Any

    @classmethod
    def of(
        cls, program: Callable[..., Any], arguments: Any, places: Sequence[Any], left: Any
    ) -> LeanProgram:
        """Trace `program`; it is compiled when it runs.

        Args:
            program: it takes `arguments`.
            arguments: a tuple.
            places: where the program finds each argument: a sharding, or a tree of its leaves'.
            left: where it leaves each result.
        """
        leaves, tree = jax.tree.flatten(arguments)

        def flat(*leaves: Any) -> Any:
            return program(*jax.tree.unflatten(tree, leaves))

        numbered = ChannelRange(flat, ChannelAllocator())
        traced, shapes = jax.make_jaxpr(numbered, return_shape=True)(*leaves)
        jaxpr, used = jax_internals.without_dead_code(traced.jaxpr)
        consts = traced.consts
        given = _for_leaves(places, arguments)

        def step(*read: Any) -> list[Any]:
            return list(jax.core.eval_jaxpr(jaxpr, consts, *read))

        run = jax.jit(
            step,
            in_shardings=[s for s, is_read in zip(given, used, strict=True) if is_read],
            out_shardings=_for_leaves(left, shapes),
        )
        ends = tuple(itertools.accumulate(len(_flat(part)) for part in arguments))
        return cls(jaxpr, run, tuple(used), ends, jax.tree.structure(shapes))

    def __call__(self, arguments: Any, place: Callable[[list[Any]], list[Any]]) -> Any:
        """Run it on `arguments`, of which `place` brings those that are read to the devices."""
        leaves = zip(_flat(arguments), self.reads, strict=True)
        read = place([leaf for leaf, is_read in leaves if is_read])
        return jax.tree.unflatten(self.results, self.run(*read))


def _for_leaves(places: Sequence[Any], trees: Sequence[Any]) -> list[Any]:
    """A place for each leaf of `trees`."""
    found: list[Any] = []
    for place, tree in zip(places, trees, strict=True):
        alike = place is None or isinstance(place, Sharding)
        found += [place] * len(_flat(tree)) if alike else _flat(place)
    return found


def _flat(tree: Any) -> list[Any]:
    leaves: list[Any] = jax.tree.leaves(tree)
    return leaves


@dataclass(frozen=True)
class StepForm:
    """A step that reads variables which live at home, and how it runs on the replicas.

    Attributes:
        strategy: whose replicas.
        body: ``body(tables)`` is the step, with the gradients of the variables at these positions
            not reduced. It returns a tuple, in which those that it has are at `SUMS`.
        arguments: of the step; the first is a tuple, whose first member is the variables' values.
        variables: those that may be tables.
        places: where it finds each argument; a sharding, or a tree of one for each leaf.
        left: where it leaves each result, `SUMS` among them.
        on_replicas: whether it runs on each replica, with a share of what is cut.
        has_gradients: whether it computes any.
    """

    strategy: Strategy
    body: Callable[[Collection[int]], Callable[..., Any]]
    arguments: tuple[Any, ...]
    variables: Sequence[Any]
    places: tuple[Any, ...]
    left: tuple[Any, ...]
    on_replicas: bool
    has_gradients: bool = True

    @property
    def parts(self) -> int:
        """How many different parts of the batch the replicas compute with."""
        return self.strategy.num_replicas_in_sync if self.on_replicas else 1

    @property
    def placed(self) -> Sharding:
        """Where what is the same for all replicas lies."""
        return self.strategy._arrays.program_sharding

    @property
    def by_parts(self) -> Sharding:
        """Where an array lies of which each replica has its own part."""
        return self.strategy.batch_sharding if self.on_replicas else self.placed

    def program(self, body: Callable[..., Any]) -> LeanProgram:
        """The step, traced for its arguments, with `body` in the place of its own."""
        return self._spread(body, self.arguments, self.places, self.left)

    def with_more(
        self, body: Callable[..., Any], given: Any, more: int, left: tuple[Any, ...]
    ) -> LeanProgram:
        """As `program`, of a body that takes `more` arguments, of which each replica has a part.

        Args:
            body: it takes all of `given`.
            given: the arguments, those among them.
            more: how many.
            left: where it leaves its results.
        """
        return self._spread(body, given, (*self.places, *[self.by_parts] * more), left)

    def _spread(self, body: Any, arguments: Any, places: Any, left: Any) -> LeanProgram:
        return LeanProgram.of(self.on_each(body, places, left), arguments, places, left)

    def on_each(self, body: Callable[..., Any], places: Any, left: Any) -> Callable[..., Any]:
        """`body`, run on each replica if the step is."""
        body.__name__ = "step"
        if not self.on_replicas:
            return body
        whole, cut = PartitionSpec(), PartitionSpec(REPLICA_AXIS)

        def specs(tree: Any) -> Any:
            return jax.tree.map(lambda place: whole if place == self.placed else cut, tree)

        return jax.shard_map(
            body,
            mesh=self.strategy.mesh,
            in_specs=specs(places),
            out_specs=specs(left),
            check_vma=False,
        )


@dataclass
class Tables:
    """Which weights of a step are tables.

    Attributes:
        positions: theirs among the weights, by their keys.
        whole: why each of the others from which rows are taken is none.
    """

    positions: dict[str, int] = field(default_factory=dict)
    whole: list[WholeTableReadError] = field(default_factory=list)


def tables_of(form: StepForm, step: LeanProgram) -> Tables:
    """Find the tables of a step, if it has any.

    Args:
        form: the step.
        step: all of it, traced.
    """
    variables = form.variables
    inputs = iter(step.jaxpr.invars)
    read = [next(inputs) if is_read else None for is_read in step.reads[: len(variables)]]
    sources = {each: position for position, each in enumerate(read) if each is not None}
    tables = Tables({f"table {each}": each for each in sorted(_looked_up(step.jaxpr, sources))})
    if not tables.positions:
        return tables

    def look(*arguments: Any) -> tuple[()]:
        while tables.positions:
            try:
                body = form.body(tuple(tables.positions.values()))
                found = _with_rows(body, arguments, tables, variables)
                _require_rows(found, tables, form.has_gradients)
                break
            except WholeTableReadError as reason:
                del tables.positions[reason.key]
                tables.whole.append(reason)
        return ()

    jax.make_jaxpr(ChannelRange(form.on_each(look, form.places, ()), None))(*form.arguments)
    return tables


def _looked_up(jaxpr: Any, sources: Mapping[Any, int]) -> set[int]:
    """From which of some inputs of a program a gather takes anything."""
    known, found = dict(sources), set[int]()
    for eqn in jaxpr.eqns:
        operands = [None if isinstance(v, core.Literal) else known.get(v) for v in eqn.invars]
        if all(each is None for each in operands):
            continue
        if eqn.primitive.name == "gather":
            found |= {each for each in operands[:1] if each is not None}
        elif eqn.primitive.name in _PASSED_ON:
            known[eqn.outvars[0]] = operands[0]
        for param in eqn.params.values():
            if jax_internals.is_program(param):
                inner, _ = jax_internals.opened(param)
                if len(inner.invars) == len(eqn.invars):
                    pairs = zip(inner.invars, operands, strict=True)
                    found |= _looked_up(inner, {v: each for v, each in pairs if each is not None})
    return found


_PASSED_ON = frozenset(("convert_element_type", "copy", "copy_p", "stop_gradient"))


def _with_rows(
    body: Callable[..., Any],
    arguments: Any,
    tables: Tables,
    variables: Sequence[Any],
    rows: Mapping[str, Any] | None = None,
    locate: Callable[[str, Any], Any] | None = None,
) -> Any:
    """Trace the step, and evaluate it with some rows in the place of the tables.

    Args:
        body: the step.
        arguments: its, symbols of what is traced around; those of tables are not used.
        tables: what the tables are.
        variables: the weights.
        rows: of each table, those there are; one of zeros, if not given.
        locate: see `TableInterpreter`.

    Returns:
        What the step does; the gradient of a table is a `RowSparse`.

    Raises:
        WholeTableReadError: if the step uses a table otherwise than by rows.
    """
    leaves, tree = jax.tree.flatten(arguments)

    def flat(*leaves: Any) -> Any:
        return body(*jax.tree.unflatten(tree, leaves))

    traced, shapes = jax.make_jaxpr(flat, return_shape=True)(*leaves)
    jaxpr, used = jax_internals.without_dead_code(traced.jaxpr)
    whole = {key: tuple(variables[each].shape) for key, each in tables.positions.items()}
    if rows is None:
        dtypes = {key: leaves[each].dtype for key, each in tables.positions.items()}
        rows = {key: jnp.zeros((1, *shape[1:]), dtypes[key]) for key, shape in whole.items()}
    values = list(leaves)
    for key, position in tables.positions.items():
        values[position] = RowSparse(rows[key], whole[key], key, zero_elsewhere=False)
    interpreter = TableInterpreter(
        whole,
        {key: variables[position].path for key, position in tables.positions.items()},
        {key: known.shape[0] for key, known in rows.items()},
        locate or (lambda key, ids: jnp.zeros_like(ids)),
        others=[
            tuple(variable.shape)
            for position, variable in enumerate(variables)
            if position not in tables.positions.values()
        ],
    )
    read = [value for value, is_used in zip(values, used, strict=True) if is_used]
    results = interpreter.evaluate(jaxpr, traced.consts, read)
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def _require_rows(results: Any, tables: Tables, has_gradients: bool) -> None:
    """Check that tables' gradients are rows, and that nothing else that a step leaves is.

    Raises:
        WholeTableReadError: naming one of which that is not so.
    """
    sums = list(results[SUMS]) if has_gradients else []
    for key, position in tables.positions.items() if has_gradients else ():
        found = sums[position]
        sums[position] = None
        if found is None:
            continue
        if not (isinstance(found, RowSparse) and found.group == key and found.zero_elsewhere):
            raise WholeTableReadError(key, key, "the gradient", "the step's end")
    for each in jax.tree.leaves((results[:SUMS], sums, results[SUMS + 1 :])):
        if isinstance(each, RowSparse):
            raise WholeTableReadError(each.group, each.group, "a result", "the step's end")


SUMS = 3
"""Which of the results of a step are its gradients."""


class LookedUpRows:
    """The programs around a step of which some weights are tables.

    Args:
        form: the step.
        tables: the tables.

    Raises:
        IdsFromRows: if the ids depend on what was looked up.
    """

    def __init__(self, form: StepForm, tables: Tables) -> None:
        self._form = form
        self._tables = tables
        self._counts = dict.fromkeys(tables.positions, 1)
        self._programs: dict[tuple[int, ...], LeanProgram] = {}
        self._ids = self._ids_program()
        # The first step's arrays are not kept.
        self._form = replace(form, arguments=(None,) * len(form.arguments))

    def _ids_program(self) -> LeanProgram:
        form, tables = self._form, self._tables

        def ids_of(*given: Any) -> Any:
            *arguments, rows = given
            found: dict[str, list[Any]] = {key: [] for key in tables.positions}

            def locate(key: str, ids: Any) -> Any:
                found[key].append(jnp.ravel(ids))
                return jnp.zeros_like(ids)

            body = form.body(tables.positions.values())
            _with_rows(body, tuple(arguments), tables, form.variables, rows, locate)
            return ({key: jnp.concatenate(each) for key, each in found.items()},)

        values = form.arguments[0][0]
        rows = {
            key: np.zeros((form.parts, *values[each].shape[1:]), values[each].dtype)
            for key, each in tables.positions.items()
        }
        program = form.with_more(ids_of, (*form.arguments, rows), 1, (form.by_parts,))
        if any(program.reads[-len(rows) :]):
            raise IdsFromRows
        return program

    def compute(
        self, arguments: tuple[Any, ...], place: Callable[[list[Any]], list[Any]]
    ) -> tuple[Any, dict[int, jax.Array]]:
        """Run the step.

        Args:
            arguments: its, the weights where they live.
            place: brings what a program reads to the devices.

        Returns:
            What the step leaves, and at the positions of tables the sums of their gradients over
            the replicas, at home.
        """
        form, tables = self._form, self._tables
        unread = dict.fromkeys(tables.positions, 0)
        (ids,) = self._ids((*arguments, unread), place)
        unique = {key: _unique(np.asarray(each), form.parts) for key, each in ids.items()}
        for key, (members, _) in unique.items():
            most = max(len(each) for each in members)
            self._counts[key] = max(self._counts[key], 1 << max(most - 1, 0).bit_length())
        weights = arguments[0][0]
        wanted: dict[str, list[np.ndarray]] = {}
        rows: dict[str, Any] = {}
        places: dict[str, Any] = {}
        for key, (members, where) in unique.items():
            table = weights[tables.positions[key]]
            count = self._counts[key]
            wanted[key] = [_padded(each, count, table.shape[0]) for each in members]
            rows[key] = self._sent([_taken(table, each) for each in wanted[key]])
            places[key] = jax.device_put(where, form.by_parts)
        given = (*arguments, rows, places)
        results = self._program(given)(given, place)
        if not form.has_gradients:
            return results, {}
        *left, of_rows = results
        home = form.strategy.variable_sharding
        sums = {}
        for key, found in of_rows.items():
            position = tables.positions[key]
            parts = jax.device_put(_parts(found, form.parts), home)
            shape = weights[position].shape
            sums[position] = _added_up(tuple(shape))(parts, wanted[key])
        return tuple(left), sums

    def _program(self, given: Any) -> LeanProgram:
        counts = tuple(self._counts.values())
        if counts in self._programs:
            return self._programs[counts]
        form, tables = self._form, self._tables

        def step(*given: Any) -> Any:
            *arguments, rows, places = given
            starts = dict.fromkeys(tables.positions, 0)

            def locate(key: str, ids: Any) -> Any:
                start = starts[key]
                starts[key] = start + math.prod(ids.shape)
                return places[key][start : starts[key]].reshape(ids.shape)

            body = form.body(tables.positions.values())
            results = _with_rows(body, tuple(arguments), tables, form.variables, rows, locate)
            results = [
                jax.tree.map(lambda x: x.whole() if isinstance(x, Uniform) else x, each)
                for each in results
            ]
            if not form.has_gradients:
                return tuple(results)
            sums = list(results[SUMS])
            of_rows = {key: sums[each] for key, each in tables.positions.items()}
            of_rows = {key: rows.value for key, rows in of_rows.items() if rows is not None}
            results[SUMS] = [each for each in sums if not is_special(each)]
            return (*results, of_rows)

        left = (*form.left, form.by_parts) if form.has_gradients else form.left
        program = form.with_more(step, given, 2, left)
        if any(program.reads[position] for position in tables.positions.values()):
            raise AssertionError("a step reads the whole of a table that it looks rows up in")
        self._programs[counts] = program
        return program

    def _sent(self, parts: Sequence[jax.Array]) -> jax.Array:
        """Rows for each part of the batch, on the devices that compute with it."""
        form = self._form
        if not form.on_replicas:
            return jax.device_put(parts[0], form.placed)
        devices = form.strategy.replica_devices
        placed = jax.device_put(list(parts), list(devices))
        shape = (len(parts) * parts[0].shape[0], *parts[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, form.by_parts, placed)


class IdsFromRows(Exception):
    """Which rows a step looks up depends on rows that it has looked up."""


def _unique(ids: np.ndarray, parts: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Each part's different ids, and where among them that of each id is."""
    found = [np.unique(part, return_inverse=True) for part in np.split(ids, parts)]
    where = [inverse.reshape(-1).astype(np.int32) for _, inverse in found]
    return [members for members, _ in found], np.concatenate(where)


def _padded(ids: np.ndarray, count: int, rows: int) -> np.ndarray:
    """The ids, and as many that are none as make `count`."""
    return np.pad(ids.astype(np.int32), (0, count - len(ids)), constant_values=rows)


@jax.jit
def _taken(table: jax.Array, ids: jax.Array) -> jax.Array:
    return jnp.take(table, ids, axis=0, mode="clip")


@functools.lru_cache(maxsize=64)
def _added_up(shape: tuple[int, ...]) -> Callable[..., jax.Array]:
    """The sum, of the table's shape, of rows of each part at their ids, which differ in a part."""

    def added_up(parts: list[jax.Array], ids: list[jax.Array]) -> jax.Array:
        total = jnp.zeros(shape, parts[0].dtype)
        for rows, own in zip(parts, ids, strict=True):
            total = total.at[own].add(rows, mode="drop", unique_indices=False)
        return total

    return jax.jit(added_up)


def _parts(rows: jax.Array, parts: int) -> list[jax.Array]:
    """What each replica computed, in their order; one of its copies, if that is the same."""
    shards = sorted(rows.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return [shard.data for shard in shards[:parts]]
