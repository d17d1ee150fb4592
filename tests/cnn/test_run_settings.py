"""What a run is made of, from its flags: dataset, rates, types, batches ahead, where it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.cnn import flags, program
from drumline.cnn.loop.training import RunCheckpoints
from drumline.cnn.updates import modes

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
