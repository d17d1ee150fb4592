"""The tutorial of jobs, followed to its end: the same file on hosts that lack its folders."""

from __future__ import annotations

import os
from pathlib import Path

from tests.jobs.engines.ssh.hosts import SshHosts
from tests.jobs.test_jobs_tutorial import PLACE, blocks, check_model, reader


def test_the_same_file_runs_over_ssh(hosts: SshHosts, tmp_path: Path) -> None:
    # All that is the reader's is where the hosts have something else.
    with reader(hosts.hidden) as ada:
        page = blocks()
        ran = next(i for i, (_, _, body) in enumerate(page) if "drumline run" in body)
        ada.follow(page[:ran])
        local = (ada.folder / "job.yaml").read_text()
        options = f"--set 'options={' '.join(hosts.options)}' --set folder={tmp_path} --set cpus=1"
        said = ada.follow(blocks("On other machines"), {"node1,node2": f"a,b {options}"})
        cluster = [body for body in blocks("On a cluster") if "engine add" not in body[2]]
        said += ada.follow(cluster)
        assert (ada.folder / "job.yaml").read_text() == f"{local}engine: lab\n"
        assert PLACE not in local
        assert "chief:0 | accuracy" in said and "Job 1 has succeeded" in said, said
        check_model(ada.home / "models" / "bars.keras", ada.home / "data" / "bars" / "bars.npz")
        assert list(tmp_path.glob("b/*/1/attempt-1/rank-*")), "it has run on both"
        assert not os.path.exists("/mnt/bars") and not os.path.exists("/root/code")
