"""Flags that do not go together are refused before anything is built."""

from __future__ import annotations

import pytest

from drumline.cnn.consistency import check
from drumline.cnn.flags import parse

TWO = "--worker_hosts=a:1,b:1"
REFUSED = {
    "--gpu_indices=0,1": "names 2 devices, and --num_gpus is 1",
    "--num_gpus=2 --gpu_indices=0,0": "names a device twice",
    "--gpu_indices=first": "write numbers",
    "--num_batches=3 --num_epochs=1": "--num_batches and --num_epochs exclude",
    "--save_model_secs=3 --save_model_steps=1": "exclude each other",
    "--eval --forward_only": "exclude each other",
    "--eval": "say where it is, by --train_dir",
    "--stop_at_top_1_accuracy=0.5": "say when, by --eval_during_training_every_n_steps",
    "--eval_during_training_every_n_steps=1 --eval_during_training_every_n_epochs=1": "both say",
    "--eval_during_training_every_n_steps=1 --staged_vars": "exclude each other",
    "--forward_only --freeze_when_forward_only --train_dir=x": "leave out --train_dir",
    TWO: "--job_name which of them this process is",
    "--job_name=worker": "needs --worker_hosts",
    f"--job_name=ps {TWO}": "needs --ps_hosts",
    f"--job_name=worker {TWO} --ps_hosts=c:1 --task_index=2": "so it is 0 to 1",
    "--job_name=worker --worker_hosts=a:1,b --ps_hosts=c:1": "'b' is no HOST:PORT",
    "--job_name=worker --worker_hosts=a:1,b:99999 --ps_hosts=c:1": "is no HOST:PORT",
    "--job_name=worker --worker_hosts=a:1,b:1 --ps_hosts=a:1": "Two tasks have the address a:1",
    f"--job_name=worker {TWO} --ps_hosts=c:1 --gpu_indices=1": "choose by CUDA_VISIBLE_DEVICES",
    f"--job_name=worker {TWO}": "over hosts needs --ps_hosts",
    f"--job_name=controller {TWO}": "is of --variable_update=distributed_all_reduce",
    "--variable_update=horovod": "give collective_all_reduce",
    "--variable_update=collective_all_reduce": "is of several hosts",
    "--variable_update=distributed_replicated": "masters on parameter servers",
    f"--variable_update=replicated --job_name=worker {TWO}": "is of one host",
    f"--variable_update=collective_all_reduce --job_name=worker {TWO} --ps_hosts=c:1": (
        "has no parameter servers"
    ),
    f"--variable_update=distributed_all_reduce --job_name=worker {TWO}": "needs --all_reduce_spec",
    "--all_reduce_spec=nccl": "reduces nothing",
    f"--all_reduce_spec=nccl --variable_update=distributed_replicated --job_name=ps {TWO} "
    "--ps_hosts=c:1": "reduces nothing",
    f"--eval --train_dir=x --job_name=ps {TWO} --ps_hosts=c:1": "in one process",
    "--agg_small_grads_max_bytes=9": "sends every gradient by itself",
    "--gradient_clip=0": "leaves no gradient",
    "--trace_file=a --num_warmup_batches=1": "the last step but one of the warm-up: give",
    "--eval_during_training_at_specified_steps=3,x": "'x' is none of the steps",
    "--eval_during_training_at_specified_steps=0": "'0' is none of the steps",
    "--eval_during_training_at_specified_epochs=0.5,nan": "'nan' is none of the epochs",
    "--variable_update=replicated --hierarchical_copy": "--num_gpus of 2",
    "--variable_update=independent --gradient_repacking=2": "sends every gradient by itself",
    "--variable_update=replicated --staged_vars": "give --variable_consistency=relaxed",
    f"--staged_vars --job_name=worker {TWO} --ps_hosts=c:1": "is of one host: .*collective_all_red",
    "--variable_consistency=relaxed": "give --staged_vars",
    "--cross_replica_sync=false": "over several hosts",
    "--use_fp16 --use_bf16": "exclude each other",
    "--fp16_enable_auto_loss_scale": "is of --use_fp16",
    "--fp16_vars": "is of --use_fp16",
    "--num_epochs_per_decay=2": "needs --init_learning_rate",
    "--minimum_learning_rate=0.1": "bounds a rate that decays",
}


@pytest.mark.parametrize("flags", REFUSED)
def test_what_does_not_go_together(flags: str) -> None:
    with pytest.raises(ValueError, match=REFUSED[flags]):
        check(parse(flags.split()))


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--num_gpus=2 --variable_update=replicated --all_reduce_spec=xring#2",
        "--num_gpus=2 --variable_update=replicated --hierarchical_copy",
        "--num_gpus=2 --staged_vars",
        f"--variable_update=collective_all_reduce --job_name=worker {TWO}",
        f"--job_name=worker {TWO} --ps_hosts=c:1 --cross_replica_sync=false",
        "--init_learning_rate=0.1 --num_epochs_per_decay=2 --learning_rate_decay_factor=0.5 "
        "--minimum_learning_rate=0.01",
        "--eval --train_dir=x",
        "--eval_during_training_at_specified_epochs=0.5,2",
        "--trace_file=a --num_warmup_batches=2",
    ],
)
def test_what_goes_together(flags: str) -> None:
    check(parse(flags.split()))
