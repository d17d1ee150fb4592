"""The command line: its syntax, what is refused, and that the original's flags are all known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drumline.cnn.consistency import check
from drumline.cnn.flags import FLAGS, GROUPS, help_text, parse
from tests.cnn.commands import GUIDE


@pytest.mark.parametrize("command", GUIDE)
def test_commands_of_the_guide_are_read(command: str) -> None:
    found = parse(command.split())
    check(found)
    assert found.remarks == []
    assert str(found.num_gpus) in command and found.model in command


def test_values_have_their_types_and_the_later_counts() -> None:
    found = parse(
        [
            "--batch_size=8",
            "-batch_size",
            "16",
            "--weight_decay=1e-3",
            "--noxla_compile",
            "--eval=True",
            "--eval_during_training_at_specified_steps=3,5",
            "--distortions",
            "--num_epochs",
            "0.5",
        ]
    )
    assert (found.batch_size, found.weight_decay, found.eval) == (16, 1e-3, True)
    assert found.eval_during_training_at_specified_steps == ["3", "5"]
    assert (found.distortions, found.num_epochs) == (True, 0.5)
    assert found.xla_compile is False
    assert found.remarks == ["--xla_compile has no effect here: XLA compiles every step here."]
    assert parse([]).variable_update == "parameter_server"
    assert parse(["--nodistortions", "--distortions"]).distortions is True


def test_lists_are_not_shared() -> None:
    parse([]).eval_during_training_at_specified_steps.append("1")
    assert parse([]).eval_during_training_at_specified_steps == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--modle=vgg16"], "no flag --modle. Did you mean.*model"),
        (["vgg16"], "'vgg16' is no flag"),
        (["--"], "'--' is no flag"),
        (["--batch_size=many"], "--batch_size=many: it is a whole number"),
        (["--batch_size=8.5"], "it is a whole number"),
        (["--batch_size=-1"], "it is 0 or more"),
        (["--num_gpus=0"], "it is 1 or more"),
        (["--weight_decay=big"], "it is a number"),
        (["--learning_rate_decay_factor=nan"], "a number that is finite"),
        (["--eval=maybe"], "--eval=maybe: it is true or false"),
        (["--distortions", "False"], "--distortions takes a value behind an equals sign alone"),
        (["--nodistrotions"], "Did you mean 'distortions'"),
        (["--display_perf_ewma=1.5"], "it is 1 or less"),
        (["--stop_at_top_1_accuracy=75"], "it is 1 or less"),
        (["--tf_random_seed=4294967296"], "it is 4.29497e\\+09 or less"),
        (["--weight_decay=inf"], "a number that is finite"),
        (["--trt_mode=FP8"], "one of FP32, FP16, INT8"),
        (["--flagfile"], "--flagfile needs a value"),
        (["--flagfile=/no/such/file"], "--flagfile=/no/such/file: it cannot be read"),
        (["--noeval=true"], "--noeval takes no value"),
        (["--nobatch_size"], "no flag --nobatch_size"),
        (["--batch_size"], "--batch_size needs a value"),
        (["--optimizer=adamw"], "one of momentum, sgd, rmsprop, adam"),
        (["--variable_update=replicate"], "Did you mean.*replicated"),
    ],
)
def test_what_is_refused(arguments: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){why}"):
        parse(arguments)


def test_all_flags_are_in_the_help() -> None:
    text = help_text(["vgg16", "resnet50"])
    assert all(f"--{name}" in text for name in FLAGS) and "vgg16, resnet50" in text
    assert max(map(len, text.splitlines())) <= 100
    assert sum(map(len, GROUPS.values())) == len(FLAGS), "no flag is there twice"


def test_an_unknown_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match="no flag 'batchsize'"):
        _: Any = parse([]).batchsize


def test_flags_in_files(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.flags", tmp_path / "outer.flags"
    inner.write_text("// of a machine\n--num_gpus=4\n--batch_size=8\n")
    outer.write_text(f"# of a job\n\n--model=vgg16\n  --flagfile={inner}\n--nodistortions\n")
    found = parse(["--num_gpus=2", "--batch_size=16", f"--flagfile={outer}", "--batch_size=32"])
    assert (found.model, found.num_gpus, found.batch_size) == ("vgg16", 4, 32)
    assert parse(["--flagfile", str(inner)]).batch_size == 8


def test_a_file_that_names_itself_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first.flags", tmp_path / "second.flags"
    first.write_text(f"--flagfile={second}")
    second.write_text(f"--flagfile={first}")
    with pytest.raises(ValueError, match="it is read already, by way of .*first.flags, .*second"):
        parse([f"--flagfile={first}"])
    second.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="it cannot be read"):
        parse([f"--flagfile={first}"])
