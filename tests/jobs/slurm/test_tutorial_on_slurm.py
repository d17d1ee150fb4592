"""The tutorial of jobs, followed to its end: the same file on a Slurm cluster."""

from __future__ import annotations

import os
from pathlib import Path

from tests.jobs.slurm.cluster import SlurmCluster
from tests.jobs.test_jobs_tutorial import PLACE, blocks, check_model, reader


def test_the_same_file_runs_on_slurm(cluster: SlurmCluster, tmp_path: Path) -> None:
    with reader(tmp_path) as ada:
        ada.env["SLURM_CONF"] = cluster.environment["SLURM_CONF"]
        page = blocks()
        # All but the run on this machine, and what is looked at after it.
        ran = next(i for i, (_, _, body) in enumerate(page) if "drumline run" in body)
        ada.follow(page[:ran])
        local = (ada.folder / "job.yaml").read_text()
        said = ada.follow(blocks("On a cluster"), {"/shared/ada": str(tmp_path / "shared")})
        assert (ada.folder / "job.yaml").read_text() == f"{local}engine: lab\n"
        assert PLACE not in local
        assert "chief:0 | accuracy" in said and "Job 1 has succeeded" in said, said
        check_model(ada.home / "models" / "bars.keras", ada.home / "data" / "bars" / "bars.npz")
        assert not os.path.exists("/mnt/bars") and not os.path.exists("/root/code")
