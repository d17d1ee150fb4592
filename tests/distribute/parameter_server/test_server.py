"""The tasks' servers: what they are told, and how they end."""

import threading

import pytest

import drumline as dl
from drumline.distribute.parameter_server import ChiefLostError
from drumline.distribute.parameter_server.wire import Connection, cluster_token
from tests.distribute.parameter_server.clusters import TOKEN, cluster_spec
from tests.lost_processes import lost_in


@pytest.fixture
def server():
    spec = cluster_spec(1, 1)
    with_limit = dl.distribute.Server(spec, "ps", 0, without_chief_seconds=0.2)
    yield with_limit
    with_limit.close()


def chief_of(server):
    connection = Connection(server.address, token=cluster_token())
    connection.call("serve_chief", {})
    return connection


def test_join_ends_when_the_chief_has_finished(server):
    joined = threading.Thread(target=server.join)
    joined.start()
    chief_of(server).call("finish", {})
    joined.join(30)
    assert not joined.is_alive()


def test_join_names_a_chief_that_stays_away(server):
    chief_of(server).close()
    with pytest.raises(ChiefLostError, match="chief:0 is lost: it has closed") as caught:
        server.join()
    follows = str(lost_in(str(caught.value), "chief:0")["follows"])
    assert follows == "ps:0 has waited 0.2 s for it, and ends"


def test_join_ends_where_no_chief_has_ever_come():
    waiting = dl.distribute.Server(cluster_spec(1, 1), "ps", 0, first_chief_seconds=0.2)
    with pytest.raises(ChiefLostError, match="chief:0 is lost: it has never come"):
        waiting.join()
    waiting.close()


def test_a_chief_that_has_come_is_waited_for_no_more():
    serving = dl.distribute.Server(cluster_spec(1, 1), "ps", 0, first_chief_seconds=0.2)
    joined = threading.Thread(target=serving.join)
    connection = chief_of(serving)
    joined.start()
    joined.join(0.6)
    assert joined.is_alive()
    connection.call("finish", {})
    joined.join(30)
    assert not joined.is_alive()


def test_a_chief_may_come_back(server):
    chief_of(server).close()
    back = chief_of(server)
    threading.Timer(0.5, back.call, args=("finish", {})).start()
    server.join()
    back.close()


def test_what_is_no_task_is_refused():
    spec = cluster_spec(1, 1)
    with pytest.raises(ValueError, match="No task with index 3"):
        dl.distribute.Server(spec, "ps", 3)
    with pytest.raises(ValueError, match="grpc\\+loas"):
        dl.distribute.Server(spec, "ps", 0, protocol="grpc+loas")
    assert dl.distribute.Server(spec, "ps", 0, start=False).target.startswith("grpc://127.0.0.1:")


def test_a_strategy_is_for_the_chief_of_a_whole_cluster(monkeypatch):
    monkeypatch.setenv("DRUMLINE_CLUSTER_TOKEN", TOKEN)
    spec = cluster_spec(1, 1)
    resolver = dl.distribute.cluster_resolver.SimpleClusterResolver
    for job in ("ps", "worker", "evaluator"):
        named = dl.distribute.ParameterServerStrategy(resolver(spec, task_type=job, task_id=0))
        uses = [
            named.scope,
            lambda named=named: dl.distribute.coordinator.ClusterCoordinator(named),
            lambda named=named: named.servers,
        ]
        for use in uses:
            with pytest.raises(ValueError, match=f"This task is {job}:0"):
                use()
        assert f"This task is {job}:0" in named.describe() and "1 workers" in repr(named)
        named.close()
    with pytest.raises(ValueError, match="every 'ps' task"):
        dl.distribute.ParameterServerStrategy(resolver(dl.train.ClusterSpec({"worker": ["a:1"]})))
    with pytest.raises(ValueError, match="max_staleness=-1"):
        dl.distribute.ParameterServerStrategy(resolver(spec), max_staleness=-1)
    with pytest.raises(dl.distribute.ParameterServerLostError, match="ps:0"):
        dl.distribute.ParameterServerStrategy(resolver(spec), timeout_seconds=0.5)
