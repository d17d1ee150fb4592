"""A step of `Strategy.run` whose variables live on another device than its replicas run on.

The traced step is divided in two. Where replicas have come together, by a sum, a gather, or as an
optimizer is given gradients, all have the same; what a variable is to hold and is computed from
that, and from variables, is computed once, where variables live: the updates of optimizers, above
all. The replicas' program is the rest, and is given what it reads (`central_programs`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from drumline._interrupts import signals_held_back
from drumline.distribute.step.central_programs import CentralPrograms
from drumline.distribute.step.compiled_step import sends_parcels
from drumline.distribute.step.looked_up_rows import SUMS, StepForm
from drumline.distribute.step.replica_programs import ReplicaProgram
from drumline.distribute.step.replica_scope import has_copies
from drumline.distribute.variable import strategy_of_variable
from drumline.training import jax_internals
from drumline.training.optimizer_hooks import GradientMarks
from drumline.training.row_sparse.table_access import WholeTableReadError
from drumline.training.variable_buffer import VariableBuffer

_log = logging.getLogger("drumline")

_JOINING = frozenset(("all_gather", "pmax", "pmin", "psum"))
"""Collectives that give all replicas the same."""

_CALLS = frozenset(("io_callback", "pure_callback"))


_NO_MESH = jax.sharding.AbstractMesh((), ())


class NotSeparable(BaseException):
    """The step cannot be divided; says why. Raised while it is traced and caught by the step."""


@dataclass(frozen=True)
class HomePart:
    """What of a step is computed where variables live.

    Attributes:
        jaxpr: takes the values of the variables at `reads`, then what comes from the replicas.
        consts: its constants.
        reads: the positions of variables.
        writes: the positions of the variables whose new values it gives.
        tables: for each value that comes from the replicas, the position of the variable of whose
            gradient it is the sum; None for others.
    """

    jaxpr: Any
    consts: Sequence[Any]
    reads: list[int]
    writes: list[int]
    tables: list[int | None]

    def compiled(self, home: Any) -> Any:
        """The program: of values that it uses up, others, and what comes from the replicas."""
        used_up = [position in self.writes for position in self.reads]

        def update_at_home(written: Any, read: Any, came: Any) -> Any:
            own, others = iter(written), iter(read)
            values = [next(own) if is_own else next(others) for is_own in used_up]
            new = jax.core.eval_jaxpr(self.jaxpr, self.consts, *values, *came)
            # What is given back as it came would be one array that two variables hold.
            return [jnp.copy(each) if any(each is v for v in values) else each for each in new]

        return jax.jit(update_at_home, donate_argnums=0, out_shardings=home)


class DividedStep:
    """A traced step, divided.

    Args:
        traced: of the values of variables and more.
        at_home: for each variable, whether it has one value, which lives at home.
        new: where among the results the written variables' new values are; these are the first
            ones of the variables.
        marks: those that were made.

    Attributes:
        home: what is computed there.
        came: what the replicas leave for it.
        gradients: the gradients among that, not summed over the replicas, by position.
    """

    def __init__(
        self, traced: Any, at_home: Sequence[bool], new: range, marks: GradientMarks
    ) -> None:
        jaxpr = traced.jaxpr
        self._position = {variable: i for i, variable in enumerate(jaxpr.invars[: len(at_home)])}
        self._makers: dict[Any, Any] = {}
        self._joined: dict[Any, tuple[Any, int | None]] = {}
        alike = set(jaxpr.constvars)
        alike |= {variable for variable, i in self._position.items() if at_home[i]}
        self._find(jaxpr.eqns, alike)
        marked = [position for _, position in self._joined.values() if position is not None]
        if sorted(marked) != sorted(set(marks.made)) or len(marks.made) != len(set(marks.made)):
            raise NotSeparable(
                "an optimizer is given gradients twice, or within a function that JAX transforms"
            )
        results = [jaxpr.outvars[i] for i in new]
        writes = [i for i, atom in enumerate(results) if at_home[i] and self._is_in(atom, alike)]
        outputs = [results[i] for i in writes]
        eqns, inputs, joined = self._needed(jaxpr, outputs)
        self.home = HomePart(
            jax_internals.linear_jaxpr(jaxpr, [*inputs, *joined], outputs, eqns),
            traced.consts,
            [self._position[variable] for variable in inputs],
            writes,
            [self._joined[variable][1] for variable in joined],
        )
        self.came = [self._joined[variable][0] for variable in joined]
        self.gradients = {
            position: atom
            for atom, position in self._joined.values()
            if position is not None and position in marks.unreduced
        }

    def _find(self, eqns: Sequence[Any], alike: set[Any]) -> None:
        """Find what all replicas have alike, and where it was joined."""
        for eqn in eqns:
            name = eqn.primitive.name
            position = GradientMarks.position_of(eqn)
            if position is not None:
                self._joined[eqn.outvars[0]] = eqn.invars[0], position
                alike.update(eqn.outvars)
            elif eqn.effects:
                if name in _JOINING and eqn.params.get("axis_index_groups") is None:
                    self._joined.update({each: (each, None) for each in eqn.outvars})
                    alike.update(eqn.outvars)
            elif name not in _CALLS and all(self._is_in(atom, alike) for atom in eqn.invars):
                self._makers.update(dict.fromkeys(eqn.outvars, eqn))
                alike.update(eqn.outvars)

    @staticmethod
    def _is_in(atom: Any, found: Collection[Any]) -> bool:
        return not jax_internals.is_variable(atom) or atom in found

    def _needed(self, jaxpr: Any, outputs: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """The equations that compute `outputs`, the inputs that they read, and what was joined."""
        wanted, seen = [each for each in outputs if jax_internals.is_variable(each)], set[Any]()
        eqns: set[int] = set()
        while wanted:
            variable = wanted.pop()
            if variable in seen:
                continue
            seen.add(variable)
            if variable in self._makers and variable not in self._joined:
                eqn = self._makers[variable]
                eqns.add(id(eqn))
                wanted += [each for each in eqn.invars if jax_internals.is_variable(each)]
        return (
            [eqn for eqn in jaxpr.eqns if id(eqn) in eqns],
            [variable for variable in self._position if variable in seen],
            [variable for variable in self._joined if variable in seen],
        )


class CentralReplicaProgram(ReplicaProgram):
    """A `ReplicaProgram` of variables that live at home, which are updated there.

    A step that cannot be divided is one program, as where variables live on the replicas' devices:
    it takes copies of all variables that it uses.
    """

    _is_separable = True
    _programs_of_replicas: CentralPrograms | None = None
    _traced: dict[Hashable, HomePart]
    _at_home: dict[Hashable, tuple[HomePart, Any]]

    def _compile(self, arrays: Sequence[Any]) -> None:
        super()._compile(arrays)
        strategy = self.strategy
        name = getattr(self.fn, "__qualname__", str(self.fn))
        self._programs_of_replicas = CentralPrograms(strategy, lambda: name, keeps_copies=True)
        # By the shapes of arguments, which a step may compute with, as a batch's size.
        self._traced, self._at_home = {}, {}
        home = strategy.variable_sharding
        self._is_separable = all(
            strategy_of_variable(variable) is strategy
            and (has_copies(variable) or strategy.sharding_of(variable) == home)
            for variable in (*self.written, *self.read)
        )

    def execute(self, read: Any, arrays: Sequence[Any]) -> Any:
        if not self._is_separable:
            return super().execute(read, arrays)
        if self._bank is None or self._bank.ended:
            self._bank = VariableBuffer(self.written)
        placed = self.place(arrays)
        with signals_held_back:
            values = [*self._bank.take(), *read]
            try:
                outputs, new, parcels = self._divided(values, placed)
            except NotSeparable as reason:
                self._is_separable, self._bank = False, None
                _log.warning(
                    "%s: its variables are copied to each compute device in each step, an "
                    "optimizer's among them, because %s",
                    getattr(self.fn, "__qualname__", self.fn),
                    reason,
                )
                return super().execute(read, arrays)
            self._bank.put(new)
        for device_programs in self._guards:
            device_programs.started((outputs, new))
        if sends_parcels(self.strategy):
            parcels.send()
        return outputs

    def _divided(self, values: list[Any], arrays: Sequence[Any]) -> tuple[Any, list[Any], Any]:
        """The outputs, the written variables' new values, and parcels."""
        programs = self._programs_of_replicas
        assert programs is not None
        arguments = ((values,), list(arrays))
        shapes = tuple((jnp.shape(array), jnp.result_type(array)) for array in arrays)
        results, of_tables = programs.compute(
            "run", arguments, lambda: self._form(arguments, shapes)
        )
        outputs, reduced, others, _, came, copies, parcels = results
        if shapes not in self._at_home:
            traced = self._traced[shapes]
            self._at_home[shapes] = traced, traced.compiled(self.strategy.variable_sharding)
        part, update_at_home = self._at_home[shapes]
        moved = iter(programs.to_home([*came, *others.values()]))
        given = [of_tables[each] if each in of_tables else next(moved) for each in part.tables]
        used_up = [values[each] for each in part.reads if each in part.writes]
        kept = [values[each] for each in part.reads if each not in part.writes]
        new = dict(zip(part.writes, update_at_home(used_up, kept, given), strict=True))
        new.update(zip(others, moved, strict=True))
        new.update(copies)
        return (outputs, reduced), [new[i] for i in range(len(self.written))], parcels

    def _form(self, arguments: Any, kind: Hashable) -> StepForm:
        variables = [*self.written, *self.read]
        arrays = self.strategy._arrays
        placed, by_rows = arrays.program_sharding, arrays.program_sharding
        if not self._alone:
            by_rows = self.strategy.batch_sharding
        values = [by_rows if has_copies(variable) else placed for variable in variables]
        batch = [by_rows if cut else placed for cut in self._cut]
        return StepForm(
            self.strategy,
            lambda tables: (
                lambda given, arrays: self._part_of_replicas(tables, kind, given, arrays)
            ),
            arguments,
            variables,
            ((values,), batch),
            (by_rows, placed, placed, placed, placed, by_rows, by_rows),
            on_replicas=not self._alone,
        )

    def _part_of_replicas(
        self, tables: Collection[int], kind: Hashable, given: Any, arrays: Any
    ) -> Any:
        """Traced on a replica: what it computes; see `_divided` and `StepForm`."""
        (values,) = given
        variables, written = [*self.written, *self.read], len(self.written)
        marks = GradientMarks(variables, tables)

        def step(values: Any, arrays: Any) -> Any:
            (outputs, reduced), new, parcels = self._step(
                values[:written], values[written:], arrays
            )
            return new, (outputs, reduced, parcels)

        # For types without a mesh: what is computed at home is of none.
        given = jax.tree.map(_type_of, (list(values), list(arrays)))
        with marks.marking(), jax.sharding.use_abstract_mesh(_NO_MESH):
            traced, shapes = jax.make_jaxpr(step, return_shape=True)(*given)
        at_home = [not has_copies(variable) for variable in variables]
        divided = DividedStep(traced, at_home, range(written), marks)
        self._traced[kind] = divided.home
        rest = [i for i in range(written) if i not in divided.home.writes]
        found = traced.jaxpr.outvars
        wanted = (
            list(found[written:]),
            {i: found[i] for i in rest if at_home[i]},
            [divided.gradients.get(i) for i in range(len(variables))],
            [
                atom
                for atom, table in zip(divided.came, divided.home.tables, strict=True)
                if table not in divided.gradients
            ],
            {i: found[i] for i in rest if not at_home[i]},
        )
        atoms, tree = jax.tree.flatten(wanted)
        program = jax_internals.linear_jaxpr(
            traced.jaxpr, traced.jaxpr.invars, atoms, traced.jaxpr.eqns
        )
        program, used = jax_internals.without_dead_code(program)
        for eqn in program.eqns:
            position = GradientMarks.position_of(eqn)
            if position in marks.unreduced:
                path, line = variables[position].path, jax_internals.source_line(eqn)
                name = "an operation behind the update"
                raise WholeTableReadError(f"table {position}", path, name, line)
        inputs = zip([*values, *arrays], used, strict=True)
        read = [value for value, is_read in inputs if is_read]
        left = jax.core.eval_jaxpr(program, traced.consts, *read)
        results, others, sums, came, copies = jax.tree.unflatten(tree, left)
        structure = jax.tree.structure(shapes[1])
        outputs, reduced, parcels = jax.tree.unflatten(structure, results)
        return outputs, reduced, others, sums, came, copies, parcels


def _type_of(value: Any) -> jax.ShapeDtypeStruct:
    weak = bool(getattr(value, "weak_type", False))
    return jax.ShapeDtypeStruct(jnp.shape(value), jnp.result_type(value), weak_type=weak)


assert SUMS == 3  # the place of `sums` in what `_part_of_replicas` returns
