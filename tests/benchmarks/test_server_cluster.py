import json
import os
import sys

import numpy as np
import pytest

from benchmarks.harness import server_cluster
from benchmarks.harness.ranks import RANK
from benchmarks.harness.workload import Scale
from benchmarks.workloads import ps_problem, ps_wide_table

SCALE = Scale(elements=1, batch_size=1, later_epochs=1)


def test_a_cluster_has_a_chief_workers_and_servers():
    environments = server_cluster.server_cluster(workers=2, servers=1)
    configs = [json.loads(environment["TF_CONFIG"]) for environment in environments]
    tasks = [(config["task"]["type"], config["task"]["index"]) for config in configs]
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)]
    assert all(config["cluster"] == configs[0]["cluster"] for config in configs)
    assert len({environment["DRUMLINE_CLUSTER_TOKEN"] for environment in environments}) == 1


def test_the_chief_measures_and_the_others_serve(make, monkeypatch):
    served = []
    contender = server_cluster.in_server_cluster(
        2, 1, lambda: served.append(None), lambda scale: make(elements=scale.elements)
    )
    started = []

    def outcome(command, environments, first_ends_all):
        started.append((command[-2:], len(environments), first_ends_all))
        return make(elements=9).to_json()

    monkeypatch.setattr(server_cluster, "outcome", outcome)
    monkeypatch.setattr(sys, "argv", ["child", "ps_embedding", "drumline"])
    assert contender(SCALE).elements == 9
    assert started == [(["ps_embedding", "drumline"], 4, True)]
    monkeypatch.setitem(os.environ, RANK, "0")
    assert contender(SCALE).elements == 1 and not served
    monkeypatch.setitem(os.environ, RANK, "3")
    with pytest.raises(SystemExit) as ended:
        contender(SCALE)
    assert ended.value.code == 0 and len(served) == 1


def test_workers_that_hold_the_table_are_found_out(make):
    def grown(first, last):
        evidence = {"workers_mb_after_first_epoch": first, "workers_mb_at_the_end": last}
        return ps_wide_table.check(SCALE, {"drumline": make(evidence=evidence)})

    assert grown([400, 410], [420, 400]) == {}
    assert "grew" in grown([400, 410], [420, 600])["drumline"]
    assert "and the table has" in grown([400, 3000], [420, 3000])["drumline"]


def test_problems_have_the_numbers_of_their_titles():
    assert sum(value.size for value in ps_problem.initial_layers(ps_problem.DENSE)) == 25_178_113
    tables = ps_problem.initial_tables(ps_problem.EMBEDDING)
    assert [table.shape for table in tables] == [(100_000, 64)]
    small = ps_problem.Problem(2, 5, 3, 4, (24, 1), 7, "sgd", 0.1)
    x, y = ps_problem.batches(small, worker=1)
    assert x.shape == (ps_problem.BATCHES, 7, 8) and y.shape == (ps_problem.BATCHES, 7, 1)
    assert x.max() == 4 and x.min() == 0 and abs(float(y.mean()) - 3) < 0.1
    other, _ = ps_problem.batches(small, worker=0)
    assert np.any(other != x)
    same, targets = ps_problem.learnable_batches(small, worker=1)
    np.testing.assert_array_equal(same, x)
    of_ids: dict[tuple[int, ...], set[float]] = {}
    for ids, target in zip(x.reshape(-1, 8), targets.reshape(-1), strict=True):
        of_ids.setdefault(tuple(sorted(ids)), set()).add(round(float(target), 4))
    assert max(map(len, of_ids.values())) == 1 < len(of_ids) < x.size // 8
