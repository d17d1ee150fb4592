"""The command as a user types it: every mode trains, and prints what scripts read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cnn.commands import ROOT, SHORT, TOTAL, environment_with, losses, run, started
from tests.ports import free_addresses

TWO = ["--num_gpus=2", "--display_every=1"]


@pytest.fixture(scope="module")
def together() -> dict[int, float]:
    """The losses of two devices that keep their weights alike."""
    return losses(run(*TWO, "--variable_update=replicated"))


def test_parameters_on_the_cpu_train_to_the_same_numbers(together: dict[int, float]) -> None:
    out = run(*TWO, "--local_parameter_device=cpu")
    assert "the logical CPU devices cpu:1 to cpu:2 stand for gpu:0 to gpu:1" in out
    assert "Batch size:  8 global\n             4 per device" in out
    assert (
        "Variables:   parameter_server" in out and "Done warm up\nStep\tImg/sec\ttotal_loss" in out
    )
    assert losses(out) == pytest.approx(together, rel=1e-3) and sorted(together) == [1, 2, 3, 4]
    assert TOTAL.search(out)


@pytest.mark.parametrize(
    ("environment", "reused"), [({}, "True"), ({"DRUMLINE_LARGE_BUFFERS": "0"}, "False")]
)
def test_large_buffers_are_kept_from_step_to_step(environment: dict[str, str], reused: str) -> None:
    given = environment_with(environment)
    if not environment:
        given.pop("DRUMLINE_LARGE_BUFFERS", None)
    script = (
        "import drumline as dl\nfrom drumline.cnn import command\n"
        f"assert command.main({[*SHORT, '--num_batches=1']}) == 0\n"
        "import os\nprint(os.environ['XLA_FLAGS'], dl.config.reuses_large_buffers())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=given,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.split()[-1] == reused, done.stderr[-3000:]
    # Devices that share few processors are far apart in a large step.
    assert done.stdout.split()[-2].endswith("terminate_timeout_seconds=1800")


@pytest.mark.parametrize(
    "flags",
    [
        ["--variable_update=replicated", "--all_reduce_spec=pscpu:32k:xring#2"],
        pytest.param(
            ["--variable_update=replicated", "--nouse_nccl", "--agg_small_grads_max_bytes=4096"],
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            ["--variable_update=replicated", "--hierarchical_copy", "--gradient_repacking=2"],
            marks=pytest.mark.thorough,
        ),
    ],
    ids=lambda flags: flags[1],
)
def test_algorithms_change_no_number(flags: list[str], together: dict[int, float]) -> None:
    assert losses(run(*TWO, *flags)) == pytest.approx(together, rel=1e-3)


def test_relaxed_gradients_come_a_step_later(together: dict[int, float]) -> None:
    out = run(*TWO, "--variable_update=replicated", "--variable_consistency=relaxed")
    staged = run(*TWO, "--local_parameter_device=cpu", "--staged_vars")
    assert "Staged vars: True" in staged
    assert losses(out) == pytest.approx(losses(staged), rel=1e-3)
    assert losses(out) != pytest.approx(together, rel=1e-3)


def test_independent_replicas_in_16_bits() -> None:
    out = run(*TWO, "--variable_update=independent", "--use_bf16", "--print_training_accuracy")
    assert "Step\tImg/sec\ttotal_loss\ttop_1_accuracy\ttop_5_accuracy" in out
    assert len(losses(out)) == 4


@pytest.mark.thorough
def test_loss_scales() -> None:
    scaled = ["--use_fp16", "--fp16_loss_scale=8", "--gradient_clip=1", "--optimizer=momentum"]
    assert len(losses(run(*TWO, "--variable_update=replicated", *scaled))) == 4
    automatic = ["--use_fp16", "--fp16_enable_auto_loss_scale"]
    assert len(losses(run("--display_every=1", *automatic))) == 4


def test_a_run_is_continued_evaluated_and_logged(tmp_path: Path) -> None:
    kept = [f"--train_dir={tmp_path / 'train'}", f"--benchmark_log_dir={tmp_path / 'log'}"]
    first = run(
        *kept,
        "--eval_during_training_every_n_steps=2",
        "--num_eval_batches=2",
        "--save_summaries_steps=2",
        "--summary_verbosity=3",
        f"--trace_file={tmp_path / 'trace.json'}",
        "--num_warmup_batches=3",
    )
    assert first.count("Accuracy @ 1 = ") == 2 and "Done with training" in first
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["traceEvents"]
    again = run(*kept, "--num_batches=6", "--display_every=1")
    assert "Successfully loaded model from" in again and sorted(losses(again)) == [5, 6]
    evaluated = run(*kept, "--eval", "--num_eval_batches=2")
    assert re.search(r"Accuracy @ 1 = [\d.]{6} Accuracy @ 5 = [\d.]{6} \[8 examples\]", evaluated)
    metrics = [json.loads(line) for line in (tmp_path / "log/metric.log").read_text().splitlines()]
    names = {metric["name"] for metric in metrics}
    assert names >= {"current_examples_per_sec", "average_examples_per_sec", "eval_top_1_accuracy"}
    info = json.loads((tmp_path / "log/benchmark_run.log").read_text())
    assert info["model_name"] == "trivial"
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    kept_events = loading.EventAccumulator(str(tmp_path / "train")).Reload()
    tags = set(kept_events.Tags()["tensors"])
    assert tags >= {"total_loss", "learning_rate", "log_gradients"}
    weights = {tag.removesuffix("/gradients") for tag in tags if tag.endswith("/gradients")}
    assert weights and weights < tags
    assert [event.step for event in kept_events.Tensors("log_gradients")] == [2, 4]


@pytest.fixture
def hosts() -> list[str]:
    return free_addresses(3)


@pytest.mark.parametrize(
    "mode", [["parameter_server", "--num_gpus=2"], ["parameter_server", "--nocross_replica_sync"]]
)
def test_parameter_servers_of_other_processes(mode: list[str], hosts: list[str]) -> None:
    flags = [*SHORT, f"--ps_hosts={hosts[0]}", f"--worker_hosts={hosts[1]},{hosts[2]}"]
    flags += [f"--variable_update={mode[0]}", *mode[1:], "--display_every=1"]
    tasks = [("worker", 0), ("worker", 1), ("ps", 0)]
    token = {"DRUMLINE_CLUSTER_TOKEN": "0" * 64}
    processes = [
        started([*flags, f"--job_name={job}", f"--task_index={index}"], **token)
        for job, index in tasks
    ]
    outs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outs
    assert sorted(losses(outs[0])) == [1, 2, 3, 4]
    assert f"Sync:        {'--nocross_replica_sync' not in mode}" in outs[0]
    assert "Running worker 1" in outs[1] and "Running parameter server 0" in outs[2]


def test_relaxed_gradients_come_a_step_later_over_processes(hosts: list[str]) -> None:
    """The losses are those of two devices of one process, which are those of the formula."""
    flags = [*SHORT, "--display_every=1", "--variable_consistency=relaxed"]
    over_hosts = ["--variable_update=collective_all_reduce", "--job_name=worker"]
    over_hosts += [f"--worker_hosts={hosts[0]},{hosts[1]}"]
    processes = [started([*flags, *over_hosts, f"--task_index={index}"]) for index in (0, 1)]
    outs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outs
    alone = losses(run("--variable_update=replicated", "--num_gpus=2", *flags))
    assert losses(outs[0]) == pytest.approx(alone, rel=1e-3)


def test_collectives_of_two_processes(hosts: list[str]) -> None:
    flags = [*SHORT, f"--worker_hosts={hosts[0]},{hosts[1]}", "--display_every=1", "--num_gpus=2"]
    flags += ["--variable_update=collective_all_reduce", "--all_reduce_spec=nccl/xring"]
    processes = [
        started([*flags, "--job_name=worker", f"--task_index={index}"]) for index in (0, 1)
    ]
    outs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outs
    assert losses(outs[0]) == losses(outs[1]) and len(losses(outs[0])) == 4
    assert "Batch size:  16 global" in outs[0] and "AllReduce:   nccl/xring" in outs[0]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--modle=vgg16"], "There is no flag --modle. Did you mean"),
        (["--model=vgg17"], "Did you mean.*vgg16"),
        (["--variable_update=horovod"], "give collective_all_reduce"),
        (["--data_dir=/nowhere/imagenet"], "no file matches /nowhere/imagenet/train"),
        (["--data_dir=/nowhere"], "Say --data_name=imagenet"),
        (["--variable_update=replicated", "--all_reduce_spec=psgpu#9"], "9 shards need as many"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_a_wrong_command_ends_with_one_line(flags: list[str], why: str) -> None:
    process = started([*SHORT, *flags])
    out, _ = process.communicate(timeout=120)
    assert process.returncode in (1, 2) and re.search(why, out, re.S), out
    assert "Traceback" not in out
