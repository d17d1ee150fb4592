"""No flag is accepted and ignored in silence: those without effect beside others are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drumline.cnn import flags
from drumline.cnn.consistency import check
from drumline.cnn.idle_flags import remarks
from drumline.cnn.program import BenchmarkRun
from tests.cnn.test_flags import GUIDE

SUMMARIES = "--summary_verbosity=1 --save_summaries_steps=2 --train_dir=x"
ON_HOSTS = "--variable_update=collective_all_reduce --job_name=worker --worker_hosts=a:1,b:1"
IDLE = {
    "--eval --train_dir=x --gradient_clip=1": {"gradient_clip": "--eval trains nothing"},
    "--eval --train_dir=x --trace_file=a": {"trace_file": "--eval runs no step"},
    "--forward_only --optimizer=momentum": {"optimizer": "--forward_only trains nothing"},
    "--momentum=0.5": {"momentum": "--optimizer=momentum alone"},
    "--optimizer=momentum --momentum=0.5": {},
    "--optimizer=adam --rmsprop_decay=0.5": {"rmsprop_decay": "--optimizer=rmsprop alone"},
    "--resnet_base_lr=0.1": {"resnet_base_lr": "--model=trivial has a rate of its own"},
    "--fp16_loss_scale=8": {"fp16_loss_scale": "--use_fp16 alone"},
    "--use_fp16 --fp16_loss_scale=8": {},
    "--use_fp16 --fp16_inc_loss_scale_every_n=8": {
        "fp16_inc_loss_scale_every_n": "--fp16_enable_auto_loss_scale alone"
    },
    "--use_bf16 --nocompact_gradient_transfer": {"compact_gradient_transfer": "no 16-bit"},
    "--use_bf16 --nocompact_gradient_transfer --variable_update=replicated": {},
    "--eval_interval_secs=3 --eval_dir=x": {
        "eval_interval_secs": "--eval alone",
        "eval_dir": "--eval alone",
    },
    "--eval_batch_size=3": {"eval_batch_size": "nothing is evaluated"},
    "--eval_batch_size=3 --eval_during_training_every_n_steps=3": {},
    "--autotune_threshold=3 --num_warmup_batches=1": {"autotune_threshold": "how many steps"},
    "--distortions --resize_method=area": {
        "distortions": "images are synthetic",
        "resize_method": "images are synthetic",
    },
    "--distortions --resize_method=area --data_dir=imagenet": {},
    "--ml_perf --data_dir=cifar10": {"ml_perf": "of ImageNet alone"},
    "--data_dir=imagenet --nodistort_color_in_yiq": {"distort_color_in_yiq": "--distortions alone"},
    "--data_dir=imagenet --nodatasets_use_prefetch --datasets_prefetch_buffer_size=3": {
        "datasets_prefetch_buffer_size": "makes no batch ahead"
    },
    "--variable_update=independent --local_parameter_device=cpu": {
        "local_parameter_device": "parameter_server on one host"
    },
    "--variable_update=replicated --nouse_nccl --local_parameter_device=cpu": {},
    "--nouse_nccl": {"use_nccl": "--variable_update=replicated without"},
    "--agg_small_grads_max_group=3": {"agg_small_grads_max_group": "--agg_small_grads_max_bytes"},
    f"{ON_HOSTS} --gpu_indices=1": {"gpu_indices": "CUDA_VISIBLE_DEVICES"},
    "--task_index=1": {"task_index": "--job_name alone"},
    "--save_model_steps=3": {"save_model_steps": "no --train_dir"},
    SUMMARIES: {},
    SUMMARIES.replace("--summary_verbosity=1", ""): {"save_summaries_steps": "summaries need"},
    SUMMARIES.replace("=1", "=3") + " --forward_only": {"summary_verbosity=3": "no gradients"},
    "--benchmark_test_id=a": {"benchmark_test_id": "no --benchmark_log_dir"},
    "--model=lenet --num_batches=3 --batch_size=2 --weight_decay=0": {},
}


@pytest.mark.parametrize("given", IDLE)
def test_what_has_no_effect_is_named(given: str) -> None:
    found = BenchmarkRun(flags.parse(given.split())).remarks
    assert len(found) == len(IDLE[given]), found
    for name, why in IDLE[given].items():
        assert any(line.startswith(f"--{name} ") and why in line for line in found), found


@pytest.mark.parametrize("command", GUIDE)
def test_the_commands_of_the_guide_have_their_effect(command: str) -> None:
    parsed = flags.parse(command.split())
    check(parsed)
    assert remarks(parsed, "imagenet", "resnet" in command) == []


def test_every_flag_is_read_by_the_program_or_named() -> None:
    """A flag that no code reads is one without effect, which `parse` names."""
    folder = Path(flags.__file__).parent
    code = "".join(path.read_text() for path in folder.rglob("*.py") if path.name != "flags.py")
    unread = {
        name
        for name, flag in flags.FLAGS.items()
        if not flag.instead and not re.search(rf'flags\.{name}\b|"{name}"', code)
    }
    assert unread == set()
