"""Commands of the program as users type them: the guide's, their processes, and what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, str(ROOT / "examples/tf_cnn_benchmarks.py"))
TOKEN = {"DRUMLINE_CLUSTER_TOKEN": "0" * 64}
SHORT = ["--model=trivial", "--batch_size=4", "--num_batches=4", "--num_warmup_batches=1"]
STEP = re.compile(
    r"^(\d+)\timages/sec: ([\d.]+) \+/- ([\d.]+) \(jitter = ([\d.]+)\)\t([\d.]+)", re.M
)
TOTAL = re.compile(r"^total images/sec: [\d.]+$", re.M)

HOSTS = " --ps_hosts=10.0.0.1:50000,10.0.0.2:50000 --worker_hosts=10.0.0.1:50001,10.0.0.2:50001 "
ADDRESSES = ("10.0.0.1", "10.0.0.2")
"""Of the two hosts."""

RESNET = (
    "--local_parameter_device=gpu --num_gpus=8 --batch_size=64 --model=resnet50 "
    "--variable_update=distributed_replicated "
)
ALONE = [
    "--local_parameter_device=cpu --num_gpus=8 --batch_size=32 --model=vgg16 "
    "--data_dir=/home/ubuntu/imagenet/train --variable_update=parameter_server --nodistortions",
    "--local_parameter_device=gpu --num_gpus=8 --batch_size=64 --model=vgg16 "
    "--variable_update=replicated --use_nccl=True",
    "--local_parameter_device=gpu --num_gpus=8 --batch_size=64 --model=vgg16 "
    "--variable_update=parameter_server",
    "--local_parameter_device=gpu --num_gpus=8 --batch_size=64 --model=resnet50 "
    "--variable_update=replicated --use_nccl=False",
]
"""Of one host."""

TOGETHER = [
    f"{RESNET}--job_name={job}{HOSTS}--task_index={index}"
    for index in (0, 1)
    for job in ("worker", "ps")
]
"""Of two hosts: the worker and the parameter server of each."""

LAST = (
    "--local_parameter_device=gpu --num_gpus=8 --batch_size=64 --model=inception3 "
    f"--variable_update=parameter_server --job_name=worker{HOSTS}--task_index=0"
)
"""The one whose other three the guide leaves out."""

GUIDE = [*ALONE, *TOGETHER, LAST]
"""Of TensorFlow's guide on high-performance models, without ``python tf_cnn_benchmarks.py``."""


def environment_with(more: Mapping[str, str]) -> dict[str, str]:
    """This process's, in which the program is found."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def started(flags: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment_with(environment),
    )


def run(*flags: str) -> str:
    process = started([*SHORT, *flags])
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out[-3000:]
    return out


def losses(out: str) -> dict[int, float]:
    return {int(found[1]): float(found[5]) for found in STEP.finditer(out)}
