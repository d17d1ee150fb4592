"""Two hosts with an address each and a cable between them, which is then cut."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator

import pytest

from tests.distribute.process_group.clusters import Cluster, Ended, running
from tests.network_namespaces import two_hosts

pytestmark = pytest.mark.thorough  # tests/distribute/multi_worker has two hosts, too

HEARTBEAT, SOON = 8, 15.0


@pytest.fixture(scope="module")
def outcome(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[list[Ended], list[Ended], float]]:
    """How the members of two clusters ended, and when the cable was cut between the second's."""
    with two_hosts() as hosts:
        options = {"hosts": hosts.addresses, "zygotes": (0, 1)}
        cut = {"index": 9, "fault": "none", "heartbeat_timeout_seconds": HEARTBEAT}
        clusters = [
            Cluster("train", "train", **options),
            Cluster("cut", "together", cut, **options),
        ]
        start = [functools.partial(hosts.run, host) for host in (0, 1)]
        with running(tmp_path_factory.mktemp("hosts"), clusters, start) as run:
            run.wait_for("train 0", "train 1")
            for name in ("cut 0", "cut 1"):
                run.wait_until(name, '"joined"')
            moment = time.time()
            hosts.link_down(1)
            run.wait_for("cut 0", "cut 1")
            yield run.ended("train"), run.ended("cut"), moment


def test_hosts_compute_together(outcome: tuple[list[Ended], list[Ended], float]) -> None:
    for index, end in enumerate(outcome[0]):
        assert end.status == 0, end.log
        assert end.facts["total"] == [3.0] * 4
        assert set(end.facts["listening"]) == {f"10.77.0.{index + 1}"}


def test_a_cut_cable_ends_both_in_time(outcome: tuple[list[Ended], list[Ended], float]) -> None:
    _, (chief, worker), moment = outcome
    for end, peer in ((chief, "worker:1 at 10.77.0.2:"), (worker, "worker:0 at 10.77.0.1:")):
        assert end.status != 0
        assert end.record is not None, end.log
        assert end.record.kind == "peer lost"
        assert end.record.message.startswith(peer)
        assert "its link is down" in end.record.message
        assert end.time - moment < HEARTBEAT + SOON
