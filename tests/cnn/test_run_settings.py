"""What a run is made of, from its flags: dataset, rates, types, batches ahead, where it begins."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.cnn import flags, models, program
from drumline.cnn.loop.training import RunCheckpoints, RunPlan
from drumline.cnn.updates import modes
from drumline.cnn.updates.steps import LossOptions

HOSTS = "--job_name=worker --worker_hosts=a:1,b:1"
RESNET = "--model=resnet20 --data_name=cifar10 --batch_size=100"


def run_of(given: str) -> Any:
    return program.BenchmarkRun(flags.parse(given.split()))


def test_resnets_base_rate_is_of_resnets_alone() -> None:
    assert run_of("--model=vgg16 --resnet_base_lr=0.5")._rate(256)(0) == pytest.approx(0.005)
    rate = run_of("--model=resnet50 --resnet_base_lr=0.5")._rate(256)
    assert float(rate(np.int32(30_000))) == pytest.approx(0.5)


def test_workers_that_run_apart_count_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is an update, of its own rows: an epoch has as many updates as of one worker."""
    made: list[int] = []
    monkeypatch.setattr(modes, "mode_of", lambda flags, say: mode)
    mode = modes.Mode(dl.distribute.get_strategy(), ("cpu:0",), num_workers=2)
    for more in ("", " --nocross_replica_sync"):
        run = run_of(f"{RESNET} {HOSTS} --ps_hosts=c:1{more}")
        monkeypatch.setattr(run, "_rate", made.append)
        monkeypatch.setattr(run, "_optimizer", lambda rate: _stop())
        with pytest.raises(StopIteration):
            run.run()
    assert made == [200, 100]


def _stop() -> None:
    raise StopIteration


def test_a_summarys_rate_counts_the_updates_of_all_workers_and_runs() -> None:
    run = run_of(f"{RESNET} {HOSTS} --ps_hosts=c:1 --nocross_replica_sync")
    mode = modes.Mode(dl.distribute.get_strategy(), ("cpu:0",), num_workers=2)
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.iterations.assign(40_000)
    rates = run._rates(mode, run._rate(100), optimizer)
    # The original's first cut is behind 82 epochs of 500 updates, 1,000 updates from here on.
    assert [rates(steps) for steps in (0, 500, 501)] == pytest.approx([0.1, 0.1, 0.01])


@pytest.mark.parametrize(
    ("given", "travels_in"),
    [
        ("--use_fp16 --variable_update=replicated", "float16"),
        ("--use_bf16 --variable_update=replicated --nocompact_gradient_transfer", None),
        ("--use_fp16 --variable_update=independent", None),
        ("--use_fp16", None),
        (f"--use_bf16 --variable_update=collective_all_reduce {HOSTS}", "bfloat16"),
        ("--variable_update=replicated", None),
    ],
)
def test_gradients_are_cut_to_16_bits_where_an_all_reduce_sums_them(
    given: str, travels_in: str | None
) -> None:
    """As in the original, whose other modes sum what the variables' type is."""
    assert program._travel_type(flags.parse(given.split())) == travels_in


def test_batches_ahead_are_of_each_device() -> None:
    run = run_of("--num_gpus=3 --datasets_prefetch_buffer_size=2 --data_dir=imagenet")
    mode = modes.Mode(dl.distribute.get_strategy(), ("cpu:0",))
    assert run._input_options(mode, 1).buffered_batches == 3 * (2 + 1)


def test_a_large_folder_is_not_searched_for_cifar10(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "data_batch_1").touch()
    given = flags.parse([f"--data_dir={tmp_path / 'a'}"])
    with pytest.raises(ValueError, match="Say --data_name"):
        program.dataset_of(given)
    folder = tmp_path / "a" / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").touch()
    assert program.dataset_of(given) == "cifar10"


def test_rates_are_refused_before_a_model_is_built() -> None:
    with pytest.raises(ValueError, match="finite numbers from 0 on"):
        run_of("--piecewise_learning_rate_schedule=nan;1;0.1")


class Made(NamedTuple):
    """What a run makes of its flags before its steps."""

    built: dict[str, Any]
    optimizer: keras.optimizers.Optimizer | None
    options: LossOptions
    plan: RunPlan


def made_by(given: str, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Of a single process with one device, whose model is another, small one."""
    built: dict[str, Any] = {}
    steps: list[tuple[Any, LossOptions]] = []
    plans: list[RunPlan] = []

    def build(name: str, **how: Any) -> keras.Model:
        built.update(how, name=name)
        return linear(1.0)

    def step(strategy: Any, model: Any, optimizer: Any, options: LossOptions, **_: Any) -> Any:
        steps.append((optimizer, options))
        return SimpleNamespace(close=lambda: None)

    def loop(step: Any, batches: Any, plan: RunPlan, saver: Any, **_: Any) -> None:
        plans.append(plan)
        raise StopIteration

    mode = modes.Mode(dl.distribute.get_strategy(), ("cpu:0",))
    monkeypatch.setattr(modes, "mode_of", lambda flags, say: mode)
    monkeypatch.setattr(models, "build", build)
    monkeypatch.setattr(program, "TrainingStep", step)
    monkeypatch.setattr(program, "BenchmarkLoop", loop)
    monkeypatch.setattr(program.BenchmarkRun, "_batches", lambda *_: iter(()))
    with pytest.raises(StopIteration):
        run_of(given).run()
    ((optimizer, options),) = steps
    return Made(built, optimizer, options, *plans)


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ("", "float32"),
        ("--use_bf16", "mixed_bfloat16"),
        ("--use_fp16", "mixed_float16"),
        ("--use_fp16 --fp16_vars", "float16"),
    ],
)
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_a_model_is_built_as_the_flags_say(
    given: str, policy: str, data_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made_by(f"--model=vgg11 --data_format={data_format} {given}", monkeypatch).built
    expected = {"name": "vgg11", "dataset": "imagenet", "data_format": data_format}
    assert found == {**expected, "dtype": policy}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", LossOptions(16)),
        ("--weight_decay=0.25", LossOptions(16, weight_decay=0.25)),
        ("--use_fp16", LossOptions(16, loss_scale=128.0)),
        ("--use_fp16 --fp16_loss_scale=8", LossOptions(16, loss_scale=8.0)),
        ("--use_fp16 --fp16_enable_auto_loss_scale --fp16_loss_scale=8", LossOptions(16)),
        ("--print_training_accuracy", LossOptions(16, accuracies=True)),
        ("--forward_only", LossOptions(16, accuracies=True)),
    ],
)
def test_a_step_has_the_loss_of_the_flags(
    given: str, expected: LossOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made_by(f"--batch_size=16 --weight_decay=0 {given}", monkeypatch).options
    assert found == expected


def test_the_weight_decay_is_the_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_by("", monkeypatch).options.weight_decay == 4e-5


def test_an_automatic_loss_scale_is_that_of_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = "--use_fp16 --fp16_enable_auto_loss_scale"
    for more, first, every in (
        ("", 128.0, 1000),
        (" --fp16_loss_scale=8 --fp16_inc_loss_scale_every_n=3", 8.0, 3),
    ):
        optimizer = made_by(scaled + more, monkeypatch).optimizer
        assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == (first, every)
        assert isinstance(optimizer.inner_optimizer, keras.optimizers.SGD)


def test_the_forward_part_alone_updates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_by("--forward_only", monkeypatch).optimizer is None
    assert made_by("", monkeypatch).optimizer is not None


def test_the_loop_is_as_the_flags_say(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = made_by("--batch_size=16", monkeypatch).plan
    assert (plan.num_batches, plan.num_warmup_batches, plan.images) == (100, 10, 16)
    assert (plan.display_every, plan.loss, plan.accuracies) == (10, "total_loss", False)
    given = (
        "--num_batches=7 --num_warmup_batches=3 --batch_size=5 --display_every=2 "
        "--loss_type_to_report=base_loss --print_training_accuracy --display_perf_ewma=0.5 "
        "--trace_file=a.json --train_dir=nowhere --save_model_steps=4 --summary_verbosity=2 "
        "--save_summaries_steps=6"
    )
    monkeypatch.setattr(program, "RunCheckpoints", lambda *_: saver)
    step = SimpleNamespace(value=0)
    saver = SimpleNamespace(restore=lambda: None, begin_with=lambda path: None, step=step)
    monkeypatch.setattr(dl.summary, "create_file_writer", lambda folder: None)
    plan = made_by(given, monkeypatch).plan
    assert (plan.num_batches, plan.num_warmup_batches, plan.images) == (7, 3, 5)
    assert (plan.display_every, plan.loss, plan.accuracies) == (2, "base_loss", True)
    assert (plan.ewma, plan.trace_file, plan.save_steps) == (0.5, "a.json", 4)
    assert (plan.summary_steps, plan.summary_verbosity) == (6, 2)


def test_epochs_are_whole_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the original rounds: the last step takes what is left."""
    given = "--model=alexnet --data_name=cifar10 --batch_size=64"
    assert made_by(f"{given} --num_epochs=2", monkeypatch).plan.num_batches == 1563
    assert made_by(f"{given} --num_epochs=0.5", monkeypatch).plan.num_batches == 391


@pytest.mark.parametrize(
    ("given", "batch", "batches", "per_device"),
    [
        ("--num_batches=7", 4, 7, 4),
        ("--num_batches=7 --eval_batch_size=6 --num_eval_batches=3", 6, 3, 6),
        ("--eval_batch_size=100 --num_eval_epochs=0.5", 100, 250, 100),
    ],
)
def test_an_evaluation_is_as_the_flags_say(
    given: str, batch: int, batches: int, per_device: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the images for validation, of which there are 50,000."""
    found: list[tuple[int, int]] = []
    read: list[tuple[Any, ...]] = []

    def evaluation(strategy: Any, model: Any, made: Any, number: int, size: int, **_: Any) -> Any:
        made()
        found.append((size, number))

    monkeypatch.setattr(program, "Evaluation", evaluation)
    run = run_of(f"--eval --train_dir=x --batch_size=4 {given}")
    monkeypatch.setattr(run, "_batches", lambda mode, *how: read.append(how))
    run._evaluation(modes.Mode(dl.distribute.get_strategy(), ("cpu:0",)), None, None, None)
    assert found == [(batch, batches)] and read == [("validation", per_device)]


INPUT_FLAGS: dict[str, dict[str, Any]] = {
    "--distortions": {"distortions": True},
    "--resize_method=area": {"resize_method": "area"},
    "--nodistort_color_in_yiq": {"distort_color_in_yiq": False},
    "--nofuse_decode_and_crop": {"fuse_decode_and_crop": False},
    "--nodatasets_use_prefetch": {"datasets_use_prefetch": False},
    "--datasets_prefetch_buffer_size=3": {"datasets_prefetch_buffer_size": 3},
    "--multi_device_iterator_max_buffer_size=4": {"multi_device_iterator_max_buffer_size": 4},
    "--datasets_num_private_threads=3": {"datasets_num_private_threads": 3},
    "--datasets_use_caching": {"datasets_use_caching": True},
    "--datasets_repeat_cached_sample": {"datasets_repeat_cached_sample": True},
    "--datasets_parallel_interleave_cycle_length=3": {
        "datasets_parallel_interleave_cycle_length": 3
    },
    "--datasets_parallel_interleave_prefetch=2": {"datasets_parallel_interleave_prefetch": 2},
    "--datasets_sloppy_parallel_interleave": {"datasets_sloppy_parallel_interleave": True},
    "--ml_perf": {"match_mlperf": True},
    "--tf_random_seed=7": {"seed": 7},
    "--use_bf16": {"dtype": np.dtype(jnp.bfloat16)},
}


@pytest.mark.parametrize("given", INPUT_FLAGS)
def test_inputs_are_as_the_flags_say(given: str) -> None:
    mode = modes.Mode(dl.distribute.get_strategy(), ("cpu:0",))
    plain = run_of("--data_dir=imagenet")._input_options(mode, 8)
    assert (plain.batch_size, plain.image_size) == (8, (227, 227))
    assert (plain.shard_count, plain.shard_index) == (1, 0)
    found = run_of(f"--data_dir=imagenet {given}")._input_options(mode, 8)
    assert found == dataclasses.replace(plain, **INPUT_FLAGS[given]) != plain


def test_each_worker_reads_its_own_part() -> None:
    mode = modes.Mode(dl.distribute.get_strategy(), ("cpu:0",), num_workers=2)
    over = f"--data_dir=imagenet --variable_update=collective_all_reduce {HOSTS}"
    for index in (0, 1):
        found = run_of(f"{over} --task_index={index}")._input_options(mode, 8)
        assert (found.shard_count, found.shard_index) == (2, index)


def linear(value: float) -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.full((2, 1), value)])
    return model


def test_a_backbone_gives_weights_and_no_step(tmp_path: Path) -> None:
    optimizer = keras.optimizers.SGD(1.0)
    former = RunCheckpoints(str(tmp_path), linear(3.0), optimizer)
    optimizer.iterations.assign(7)
    former.save(7)
    path = former.restore()
    optimizer.iterations.assign(0)
    model = linear(1.0)
    saver = RunCheckpoints(None, model, optimizer)
    assert saver.begin_with(path) == path and saver.begin_with(None) is None
    assert int(saver.step.value) == 0 and int(optimizer.iterations.value) == 0
    assert np.asarray(model.get_weights()[0]).tolist() == [[3.0], [3.0]]
