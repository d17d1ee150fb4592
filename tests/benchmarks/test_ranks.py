import json
import os
import sys
import time

import pytest

from benchmarks.harness import ranks
from benchmarks.harness.workload import Scale
from tests.benchmarks.test_process import gone

SCALE = Scale(elements=1, batch_size=1, later_epochs=1)


def python(code):
    return [sys.executable, "-c", code]


def test_the_outcome_is_what_rank_0_wrote():
    code = "import os; print(os.environ['NAME'], os.environ['BENCHMARKS_RANK'])"
    assert ranks.outcome(python(code), [{"NAME": "a"}, {"NAME": "b"}]) == "a 0\n"


def test_when_one_fails_all_are_ended(tmp_path):
    pids = str(tmp_path)
    code = (
        "import os, sys, time\n"
        "rank = os.environ['BENCHMARKS_RANK']\n"
        f"started = os.path.join({pids!r}, '0')\n"
        "if rank == '1':\n"
        "    while not os.path.exists(started): time.sleep(0.01)\n"
        "    sys.exit(3)\n"
        "open(started + '.new', 'w').write(str(os.getpid()))\n"
        "os.rename(started + '.new', started)\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(RuntimeError, match=r"rank 1 of 2 ended with exit code 3"):
        ranks.outcome(python(code), [{}, {}])
    assert gone(int((tmp_path / "0").read_text()))


def test_workers_are_told_apart_in_one_cluster():
    configs = [json.loads(environment["TF_CONFIG"]) for environment in ranks.tf_config(3)]
    assert [config["task"]["index"] for config in configs] == [0, 1, 2]
    assert all(config["cluster"] == configs[0]["cluster"] for config in configs)
    assert len(set(configs[0]["cluster"]["worker"])) == 3


def test_torch_ranks_meet_at_one_port():
    first, second = ranks.torch_ranks(2)
    assert (first["RANK"], second["RANK"], first["WORLD_SIZE"]) == ("0", "1", "2")
    assert first["MASTER_PORT"] == second["MASTER_PORT"]


def test_a_rank_does_the_work_and_the_first_process_only_starts_them(make, monkeypatch):
    clusters = []

    def cluster():
        clusters.append(None)
        return [{}, {}]

    contender = ranks.in_ranks(cluster, lambda scale: make(elements=scale.elements))
    started = []
    monkeypatch.setattr(
        ranks, "outcome", lambda *given: started.append(given) or make(elements=9).to_json()
    )
    monkeypatch.setattr(sys, "argv", ["child", "all_reduce_1kB", "drumline"])
    assert contender(SCALE).elements == 9
    assert started[0][0][-2:] == ["all_reduce_1kB", "drumline"] and len(clusters) == 1
    monkeypatch.setitem(os.environ, ranks.RANK, "1")
    assert contender(SCALE).elements == 1
    assert len(started) == len(clusters) == 1


def test_when_rank_0_is_done_servers_are_ended(tmp_path):
    code = (
        "import os, sys, time\n"
        "rank = os.environ['BENCHMARKS_RANK']\n"
        f"started = os.path.join({str(tmp_path)!r}, '1')\n"
        "if rank == '0':\n"
        "    while not os.path.exists(started): time.sleep(0.01)\n"
        "    print('done')\n"
        "    sys.exit(0)\n"
        "open(started + '.new', 'w').write(str(os.getpid()))\n"
        "os.rename(started + '.new', started)\n"
        "time.sleep(600)\n"
    )
    assert ranks.outcome(python(code), [{}, {}], first_ends_all=True) == "done\n"
    assert gone(int((tmp_path / "1").read_text()))


def test_a_first_rank_that_takes_long_to_end_is_ended_when_it_has_written() -> None:
    code = (
        "import os, time\n"
        "if os.environ['BENCHMARKS_RANK'] == '0':\n"
        "    print('done', flush=True)\n"
        "time.sleep(40)"
    )
    before = time.monotonic()
    assert ranks.outcome(python(code), [{}, {}], first_ends_all=True) == "done\n"
    assert time.monotonic() - before < 30
