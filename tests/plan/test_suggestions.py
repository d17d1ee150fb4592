"""What a plan suggests to change: by formulas, and planned."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

from drumline.distribute.step.compiled_step import NotPlannedError
from drumline.plan import report
from drumline.plan.changes import suggestions
from drumline.plan.changes.suggestions import MEMORY, by_formula
from drumline.plan.changes.variant import AS_WRITTEN, Variant
from drumline.plan.hardware import Known, group_of
from drumline.plan.plan import Plan, find_step, plan_script
from tests.plan.training_scripts import FIT, LOOP, MIRRORED, script

CPUS = group_of("cpu-2x2")


@pytest.fixture(autouse=True)
def own_policy() -> Iterator[None]:
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


def write(directory: Path, text: str) -> Path:
    path = directory / "train.py"
    path.write_text(text)
    return path


def planned(directory: Path, text: str, **options: Any) -> Plan:
    return plan_script(write(directory, text), (), CPUS, **options)


def barriers(text: str) -> int:
    """How many parts of a program are kept apart: each that is computed again is."""
    return text.count("optimization_barrier")


def test_formulas_say_what_memory_a_change_would_leave(tmp_path: Path) -> None:
    plan = planned(tmp_path, script(FIT))
    parts = {name: known.value for name, known in plan.memory.parts}
    total = plan.memory.total.value
    assert {each.name: each.effects[MEMORY].value for each in plan.suggestions} == {
        "shard='optimizer'": total - parts["optimizer"] * 3 / 4,
        "shard='parameters'": total - (parts["optimizer"] + parts["parameters"]) * 3 / 4,
        "dtype policy mixed_bfloat16": total - parts["arrays made in the step"] / 2,
    }
    assert all(each.effects[MEMORY].how == "model" for each in plan.suggestions)
    (section,) = (each for each in report.sections(plan) if each.title == "What to change")
    assert len(section.rows) == 3 and "--suggest" in section.notes[-1]


def test_a_step_that_does_not_fit_is_to_take_fewer_rows(tmp_path: Path) -> None:
    path = write(tmp_path, script(FIT))
    found, planner = find_step(path, (), CPUS)
    memory = plan_script(path, (), CPUS).memory
    available = Known(memory.total.value / 4, "B", "published", "")
    full = dataclasses.replace(memory, available=available, fits=False)
    *_, last = by_formula(found, full, None, planner.policy)
    assert last.options == ("--batch", "12"), "64 rows, a quarter of the memory, and a margin"
    ample = Known(1000.0, "rows", "model", "")
    *_, last = by_formula(found, memory, ample, planner.policy)
    assert last.options == ("--batch", "872")
    enough = Known(70.0, "rows", "model", "")
    assert not any("--batch" in s.options for s in by_formula(found, memory, enough, "float32"))


def test_a_variant_is_what_the_script_would_be_so_written(tmp_path: Path) -> None:
    def text_of(text: str, variant: Variant = AS_WRITTEN) -> str:
        found, _ = find_step(write(tmp_path, text), (), CPUS, variant=variant)
        return found.lower(found.rows).as_text()

    cut = script(FIT, MIRRORED.replace("()", "(shard='parameters')"))
    assert text_of(script(FIT), Variant(shard="parameters")) == text_of(cut)
    halved = script(FIT).replace(
        "\nstrategy =", "\nkeras.config.set_dtype_policy('mixed_bfloat16')\nstrategy ="
    )
    text = text_of(script(FIT), Variant(policy="mixed_bfloat16"))
    assert text == text_of(halved) and "bf16" in text
    keras.config.set_dtype_policy("float32")
    before, _, after = script(FIT).partition("    model = ")
    _, _, after = after.partition('name="last")])')
    again = f"""{before}    with keras.RematScope("list_of_layers", layer_names=["a", "last"]):
        layers = [keras.layers.Dense(64, "relu", name="a"), keras.layers.Dense(10, name="last")]
    model = keras.Sequential([keras.Input((20,)), *layers]){after}"""
    text = text_of(script(FIT), Variant(rematerializes=True))
    assert text == text_of(again) and barriers(text) == barriers(text_of(script(FIT))) + 2


def test_a_loop_s_models_are_computed_again_as_fit_s_are(tmp_path: Path) -> None:
    path = write(tmp_path, script(LOOP))
    found, _ = find_step(path, ("run",), CPUS, variant=Variant(rematerializes=True))
    plain, _ = find_step(path, ("run",), CPUS)
    texts = [each.lower(each.rows).as_text() for each in (found, plain)]
    assert barriers(texts[0]) == barriers(texts[1]) + 2


def test_what_cannot_be_changed_says_why(tmp_path: Path) -> None:
    set_itself = "\nkeras.config.set_dtype_policy('float32')\nstrategy ="
    for text, variant, message in (
        (
            script(FIT).replace("\nstrategy =", set_itself),
            Variant(policy="mixed_bfloat16"),
            "the script sets float32 itself",
        ),
        (script(FIT), Variant(policy="bfloat17"), "--dtype-policy bfloat17"),
        (
            script(FIT, "dl.distribute.Strategy(['cpu:0', 'cpu:1'])"),
            Variant(shard="optimizer"),
            "Strategy cuts nothing over its replicas",
        ),
        (
            script(FIT)
            .replace('keras.layers.Dense(64, "relu")', "keras.layers.Dropout(0.1)")
            .replace(
                "keras.layers.Dense(10, ",
                "keras.layers.SpectralNormalization(keras.layers.Dense(10), ",
            ),
            Variant(rematerializes=True),
            "no layer to compute again",
        ),
    ):
        with pytest.raises(NotPlannedError, match=message):
            find_step(write(tmp_path, text), (), CPUS, variant=variant)


def test_a_change_is_planned_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, script(LOOP))
    found, _ = find_step(path, ("run",), CPUS)
    other = dataclasses.replace(found, can_be_cut=False)
    said: list[str] = []
    (again,) = suggestions.planned(
        other, (), "mixed_bfloat16", path, ["run"], CPUS, 128, said.append
    )
    assert said == ["Planning rematerialization"] and not again.refused
    assert again.options == ("--rematerialize",) and again.fits is None
    assert again.effects[MEMORY].how == "compiled"
    expected = plan_script(path, ["run"], CPUS, rows=128, variant=Variant(rematerializes=True))
    assert again.effects[MEMORY].value == expected.memory.total.value


@pytest.mark.thorough
def test_all_changes_are_planned_and_shown(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, script(LOOP).replace("kind = sys.argv[1]", "kind = 'run'"), suggest=True
    )
    by_name = {each.name: each for each in plan.suggestions}
    assert by_name["dtype policy mixed_bfloat16"].effects[MEMORY].value < plan.memory.total.value
    sharded = by_name["shard='optimizer'"]
    assert not sharded.refused and sharded.effects[MEMORY].how == "compiled"
    cut = plan_script(tmp_path / "train.py", (), CPUS, variant=Variant(shard="optimizer"))
    assert sharded.effects[MEMORY].value == cut.memory.total.value != plan.memory.total.value
    page = report.sections(plan)
    text, read = report.markdown(page), json.loads(report.as_json(plan))
    assert {each["name"] for each in read["suggestions"]} == set(by_name)
    for name in by_name:
        assert name in text
    report.write_picture(plan, tmp_path / "plan.png")
