"""What a test file may not leave behind is told apart from what it may."""

from __future__ import annotations

import logging

import jax
import keras
import numpy as np
import pytest

from tests import process_state


def test_nothing_is_reported_of_a_process_that_is_as_before() -> None:
    assert process_state.changes(process_state.state(), process_state.state()) == []


def test_each_setting_that_was_left_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    before = process_state.state()
    logger, level = logging.getLogger("drumline"), logging.getLogger("drumline").level
    epsilon, errors = keras.config.epsilon(), np.geterr()
    monkeypatch.setenv("TF_CONFIG", "{}")
    monkeypatch.setenv("LIBRARYS_OWN", "1")
    try:
        logger.setLevel(logging.ERROR)
        keras.config.set_epsilon(1e-3)
        np.seterr(over="raise")
        with jax.default_matmul_precision("highest"):
            pass  # what ends with its block is not left
        jax.config.update("jax_disable_most_optimizations", True)
        left = process_state.changes(before, process_state.state())
    finally:
        logger.setLevel(level)
        keras.config.set_epsilon(epsilon)
        np.seterr(**errors)
        jax.config.update("jax_disable_most_optimizations", False)
    assert [line.split(" was ")[0] for line in left] == [
        "jax.config.jax_disable_most_optimizations",
        "keras.config.epsilon()",
        "numpy.geterr()",
        "the environment variable TF_CONFIG",
        "the level of the logger 'drumline'",
    ]
    assert "the environment variable TF_CONFIG was 'absent' and is '{}'" in left


def test_programs_compiled_quickly_are_forgotten() -> None:
    def values() -> bytes:
        return np.asarray(jax.random.normal(jax.random.key(3), (1000,))).tobytes()

    before = values()
    with process_state.compiling_quickly():
        inside = values()
    if inside == before:
        pytest.skip("this version of XLA gives the same bits without optimizations")
    assert values() == before
