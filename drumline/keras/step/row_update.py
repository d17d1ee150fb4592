"""An optimizer's update within a replica's step, of the rows that the replica has.

In a step of `Strategy.run` the optimizer is called by the user, so that the step cannot be split
there, as in `fit` (`sharded_update`). Each replica sums its row of the gradients
(reduce-scatter), and the optimizer computes on rows, of gradients, slots and weights: right where
what it computes is the same element by element, and refused for others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from drumline.distribute import ReplicaContext
from drumline.distribute.step.cut_rows import gather_rows, own_row, scattered
from drumline.distribute.step.replica_scope import ReplicaScope
from drumline.keras import internals
from drumline.keras.step.reductions import aggregates, overwrites
from drumline.keras.step.sharded_update import ShardedUpdate, in_rows
from drumline.training.cut_values import is_cut
from drumline.training.keras_internals import get_stateless_scope


def updates_rows(
    apply: Callable[..., Any],
    context: ReplicaContext,
    optimizer: Any,
    grads: Sequence[Any],
    trainable_variables: Sequence[Any] | None,
) -> bool:
    """Update what is cut by rows, if anything is, and return whether it was.

    Args:
        apply: ``apply(optimizer, grads, variables)``, Keras's.
        context: the replica's, of a strategy that cuts slots.
        optimizer: the outermost one.
        grads: this replica's gradients.
        trainable_variables: their variables; None for all of the optimizer's.

    Raises:
        ValueError: if the optimizer computes across a variable that is cut.
    """
    if trainable_variables is not None and not optimizer.built:
        with keras.name_scope(optimizer.name, caller=optimizer):
            optimizer.build(trainable_variables)
    given = trainable_variables
    if given is None:
        given = optimizer._trainable_variables
    slots = list(optimizer.variables)
    if not any(map(is_cut, [*given, *slots])):
        return False
    with context.agreeing():
        _require_by_element(optimizer, context)
        _update_rows(functools.partial(apply, optimizer), context, grads, list(given), slots)
    return True


def _require_by_element(optimizer: Any, context: ReplicaContext) -> None:
    strategy = context.strategy
    scales = any(map(overwrites, optimizer._trainable_variables))
    if not scales and ShardedUpdate(optimizer, strategy).is_by_element():
        return
    raise ValueError(
        f"{type(optimizer).__name__} {optimizer.name!r} computes across a variable (as norms for "
        "clipping, loss scaling, Lamb, Adafactor and Muon do), and in a step of `strategy.run` "
        f"each replica of {type(strategy).__name__}(shard={getattr(strategy, 'shard', None)!r}) "
        "has a part of each. Train by Keras's `fit` or `train_on_batch`, which take every "
        "optimizer; or take one that computes element by element, such as SGD, Adam or AdamW "
        "without norms; or a strategy without `shard`."
    )


def _update_rows(
    apply: Callable[..., Any],
    context: ReplicaContext,
    grads: Sequence[Any],
    variables: Sequence[Any],
    slots: Sequence[Any],
) -> None:
    """Update `variables` and `slots` by what `apply` does to this replica's rows of them."""
    strategy, replicas = context.strategy, context.num_replicas_in_sync
    scope = get_stateless_scope()

    def row_of(variable: Any) -> jax.Array:
        if isinstance(scope, ReplicaScope):
            return scope.row_of(variable)
        return own_row(variable.value, replicas)

    real = [position for position, grad in enumerate(grads) if grad is not None]
    values = [jnp.asarray(grads[position]) for position in real]
    sums = scattered(values, strategy) if aggregates() else [own_row(v, replicas) for v in values]
    rows: list[Any] = [None] * len(grads)
    for position, row in zip(real, sums, strict=True):
        rows[position] = row
    cut_slots = [slot for slot in slots if is_cut(slot)]
    others = [slot for slot in slots if not is_cut(slot)]
    before = [
        *((variable, row_of(variable)) for variable in (*variables, *cut_slots)),
        *((other, other.value) for other in others),
    ]
    with in_rows([*variables, *cut_slots], replicas, 1):
        with internals.StatelessScope(state_mapping=before) as updated:
            apply(rows, variables)
        new = {id(each): updated.get_current_value(each) for each, _ in before}
    whole = [variable for variable in variables if not is_cut(variable)]
    shapes = [tuple(variable.shape) for variable in whole]
    for variable, value in zip(
        whole, gather_rows([new[id(each)] for each in whole], shapes, strategy), strict=True
    ):
        variable.assign(value)
    for other in others:
        other.assign(new[id(other)])
    for variable in filter(is_cut, (*variables, *slots)):
        if isinstance(scope, ReplicaScope):
            scope.put_row(variable, new[id(variable)])
        else:
            (value,) = gather_rows([new[id(variable)]], [tuple(variable.shape)], strategy)
            variable.assign(value)
