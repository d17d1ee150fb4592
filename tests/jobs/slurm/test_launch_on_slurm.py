"""`drumline launch` as a step of a Slurm job: a process on each node, whatever their kinds."""

from __future__ import annotations

import json
from pathlib import Path

from drumline.jobs.launch.environment import Ports
from tests.jobs.launch.launching import LAUNCH
from tests.jobs.slurm.cluster import SlurmCluster

SCRIPT = """\
import json, os, pathlib, sys, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]["type"]
told = {"node": os.environ["SLURMD_NODENAME"], "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}
folder = pathlib.Path(sys.argv[1])
(folder / f"{task}.json").write_text(json.dumps(told | {"cluster": config["cluster"]}))
while not all((folder / f"{each}.json").exists() for each in ("worker", "ps")):
    time.sleep(0.1)
time.sleep(60 if task == "ps" else 0)  # it is stopped when the worker is done
"""


def test_a_worker_and_a_parameter_server_on_two_nodes(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    reserved = Ports("127.0.0.1", 1)
    (rendezvous,) = reserved.addresses
    launch = " ".join(
        [
            *LAUNCH,
            *("--process-per-node", "--workers", "1", "--ps", "1"),
            *("--node-rank", "$SLURM_PROCID", "--rendezvous", rendezvous),
            *("--log-dir", f"{tmp_path}/logs-$SLURM_PROCID", "--"),
            *(LAUNCH[0], "-S", str(script), str(tmp_path)),
        ]
    )
    try:
        done = cluster.command(
            *("srun", "--nodes=2", "--ntasks-per-node=1", "--gres=gpu:1", "--kill-on-bad-exit=0"),
            *("--time=5", "bash", "-c", f"DRUMLINE_RENDEZVOUS_TOKEN=$SLURM_JOB_ID exec {launch}"),
            timeout=300,
        )
    finally:
        reserved.close()
    assert "worker:0 done" in done.stdout, done.stdout + cluster.log()
    found = {task: json.loads((tmp_path / f"{task}.json").read_text()) for task in ("worker", "ps")}
    assert {each["node"] for each in found.values()} == {"n1", "n2"}
    assert found["worker"]["cluster"] == found["ps"]["cluster"]
    assert {kind: len(all_) for kind, all_ in found["ps"]["cluster"].items()} == {
        "worker": 1,
        "ps": 1,
    }
