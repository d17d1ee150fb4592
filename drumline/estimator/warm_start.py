"""Beginning with the values of another model's checkpoint, as TensorFlow's warm start does."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from drumline.training.checkpoint import file_format, index


class VocabInfo(NamedTuple):
    """The vocabularies of a variable's rows, or columns, then and now: ``tf.estimator.VocabInfo``.

    Attributes:
        new_vocab: the path of a file with a word a line: of the variable.
        new_vocab_size: how many of its words count.
        num_oov_buckets: how many rows follow for words that are in no vocabulary.
        old_vocab: that of the checkpoint.
        old_vocab_size: how many of its words count; -1 for all.
        backup_initializer: gives new words' rows, of a shape and a dtype; None for zeros.
        axis: 0 if words are rows, 1 if they are columns.
    """

    new_vocab: str
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str
    old_vocab_size: int = -1
    backup_initializer: Callable[..., Any] | None = None
    axis: int = 0


class _Settings(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: Any
    var_name_to_vocab_info: dict[str, VocabInfo]
    var_name_to_prev_var_name: dict[str, str]


class WarmStartSettings(_Settings):
    """With which values training begins, as ``tf.estimator.WarmStartSettings``.

    Args:
        ckpt_to_initialize_from: the path of a checkpoint, or a directory with some.
        vars_to_warm_start: a regular expression, that trainable variables' names begin with; a list
            of such, for all variables, those of optimizers too; a list of variables; or None for
            those in ``var_name_to_vocab_info`` alone.
        var_name_to_vocab_info: `VocabInfo` by the variable's name.
        var_name_to_prev_var_name: the checkpoint's name by the variable's name.

    Raises:
        ValueError: there is no checkpoint given.

    Example:
        >>> dl.estimator.WarmStartSettings("model", "dense.*").vars_to_warm_start
        'dense.*'
    """

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: Any,
        vars_to_warm_start: Any = ".*",
        var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> WarmStartSettings:
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        return super().__new__(
            cls,
            os.fspath(ckpt_to_initialize_from),
            vars_to_warm_start,
            dict(var_name_to_vocab_info or {}),
            dict(var_name_to_prev_var_name or {}),
        )


def settings_of(warm_start_from: Any) -> WarmStartSettings | None:
    """The settings that a path stands for.

    Raises:
        ValueError: it is neither a path nor `WarmStartSettings`.
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if isinstance(warm_start_from, (str, os.PathLike)):
        return WarmStartSettings(warm_start_from)
    raise ValueError(
        "warm_start_from must be a string or a WarmStartSettings, instead got "
        f"{type(warm_start_from)}"
    )


def warm_start(
    settings: WarmStartSettings,
    variables: Mapping[str, Any],
    saved_values: Callable[[str], Mapping[str, Any]],
) -> None:
    """Give variables the values of a checkpoint.

    Args:
        settings: which, and of what.
        variables: by name.
        saved_values: gives the values of a checkpoint by name.

    Raises:
        ValueError: there is no checkpoint, it lacks a variable or has it in another shape, or a
            name in the settings is of no variable that is begun with.
    """
    path = settings.ckpt_to_initialize_from
    if os.path.isdir(path):
        latest = index.latest_checkpoint(path)
        if latest is None:
            raise ValueError(f"warm_start_from: there is no checkpoint in {path!r}")
        path = latest
    elif not file_format.file_of(path).exists():
        raise ValueError(f"warm_start_from: there is no checkpoint {path!r}")
    saved = saved_values(path)
    chosen = _chosen(settings, variables)
    for argument, names in (
        ("var_name_to_vocab_info", settings.var_name_to_vocab_info),
        ("var_name_to_prev_var_name", settings.var_name_to_prev_var_name),
    ):
        unused = sorted(names.keys() - chosen.keys())
        if unused:
            raise ValueError(
                f"You provided the following variables in {argument} that were not used: {unused}. "
                f"Perhaps you misspelled them? Here is the list of viable variable names: "
                f"{sorted(variables)}"
            )
    for name, variable in chosen.items():
        before = settings.var_name_to_prev_var_name.get(name, name)
        if before not in saved:
            raise ValueError(
                f"warm_start_from: the checkpoint {path!r} has no variable {before!r}; it has "
                f"{', '.join(sorted(saved))}. Give its name in var_name_to_prev_var_name, or leave "
                "it out by vars_to_warm_start."
            )
        value = np.asarray(saved[before])
        info = settings.var_name_to_vocab_info.get(name)
        if info is not None:
            value = _remapped(value, info, name)
        if value.shape != tuple(variable.shape):
            raise ValueError(
                f"warm_start_from: {before!r} has the shape {value.shape} in {path!r}, and "
                f"{name!r} has {tuple(variable.shape)}"
            )
        variable.assign(value)


def _chosen(settings: WarmStartSettings, variables: Mapping[str, Any]) -> dict[str, Any]:
    wanted = settings.vars_to_warm_start
    if isinstance(wanted, str):
        found = {
            name: variable
            for name, variable in variables.items()
            if variable.trainable and re.match(wanted, name)
        }
    elif wanted is None:
        found = {}
    elif isinstance(wanted, Sequence) and all(isinstance(each, str) for each in wanted):
        found = {
            name: variable
            for name, variable in variables.items()
            if any(re.match(each, name) for each in wanted)
        }
    elif isinstance(wanted, Sequence) and all(isinstance(each, keras.Variable) for each in wanted):
        ids = {id(each) for each in wanted}
        found = {name: variable for name, variable in variables.items() if id(variable) in ids}
    else:
        raise ValueError(
            "vars_to_warm_start must be a regular expression, a list of them, a list of variables, "
            f"or None, not {wanted!r}"
        )
    for name in settings.var_name_to_vocab_info:
        if name in variables and (wanted is None or name in found):
            found[name] = variables[name]
    return found


def _remapped(value: np.ndarray, info: VocabInfo, name: str) -> np.ndarray:
    """The rows of the new vocabulary's words: those that the old one has, and new ones."""
    if info.axis not in (0, 1):
        raise ValueError("The only supported values for the axis argument are 0 and 1.")
    old = _words(info.old_vocab, info.old_vocab_size)
    new = _words(info.new_vocab, info.new_vocab_size)
    rows = np.moveaxis(value, info.axis, 0)
    if len(rows) < len(old):
        raise ValueError(
            f"VocabInfo of {name!r}: the old vocabulary has {len(old)} words, and the checkpoint's "
            f"variable has {len(rows)} rows"
        )
    shape = (len(new) + info.num_oov_buckets, *rows.shape[1:])
    if info.backup_initializer is None:
        found = np.zeros(shape, value.dtype)
    else:
        whole = tuple(np.moveaxis(np.empty(shape, bool), 0, info.axis).shape)
        made = np.asarray(info.backup_initializer(whole, dtype=value.dtype.name))
        found = np.moveaxis(made, info.axis, 0).copy()
    places = {word: row for row, word in enumerate(old)}
    for row, word in enumerate(new):
        if word in places:
            found[row] = rows[places[word]]
    return np.moveaxis(found, 0, info.axis)


def _words(path: str, size: int) -> list[str]:
    with open(path, encoding="utf-8") as file:
        words = file.read().splitlines()
    if size > len(words):
        raise ValueError(f"VocabInfo: {path!r} has {len(words)} words, fewer than {size}")
    return words if size < 0 else words[:size]
