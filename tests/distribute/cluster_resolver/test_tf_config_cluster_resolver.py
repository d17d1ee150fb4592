"""TF_CONFIG: read as TensorFlow 2.21 reads it, and refused with a reason when it is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.distribute.cluster_resolver import TFConfigClusterResolver, TFConfigError

CLUSTER: dict[str, Any] = {"chief": ["h0:1"], "worker": ["h1:1", "h2:2"], "ps": ["p:3"]}
WORKER_1 = {"type": "worker", "index": 1}


@pytest.fixture
def tf_config(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(value: Any) -> TFConfigClusterResolver:
        monkeypatch.setenv("TF_CONFIG", value if isinstance(value, str) else json.dumps(value))
        return TFConfigClusterResolver()

    return put


def test_a_task_of_a_cluster(tf_config: Any) -> None:
    resolver = tf_config({"cluster": CLUSTER, "task": WORKER_1, "environment": "google"})
    assert resolver.cluster_spec().as_dict() == CLUSTER
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert (resolver.rpc_layer, resolver.environment) == (None, None)
    assert resolver.master() == "h2:2"
    assert resolver.master(rpc_layer="grpc") == "grpc://h2:2"
    assert resolver.master("ps", 0) == "p:3"
    assert resolver.master("worker", 0, "grpc") == "grpc://h1:1"
    assert resolver.num_accelerators() == {}  # the tests run on CPUs
    with pytest.raises(ValueError, match="No task with index 7"):
        resolver.master("worker", 7)


def test_the_protocol_of_the_variable(tf_config: Any) -> None:
    resolver = tf_config({"cluster": CLUSTER, "task": WORKER_1, "rpc_layer": "grpc"})
    assert resolver.rpc_layer == "grpc"
    assert resolver.master() == "grpc://h2:2"
    assert resolver.master("ps", 0) == "grpc://p:3"


def test_arguments_win_over_the_variable(tf_config: Any) -> None:
    tf_config({"cluster": CLUSTER, "task": WORKER_1})
    resolver = TFConfigClusterResolver(task_type="ps", task_id=0, rpc_layer="http", environment="x")
    assert (resolver.task_type, resolver.task_id) == ("ps", 0)
    assert (resolver.rpc_layer, resolver.environment) == ("http", "x")
    assert resolver.master() == "http://p:3"
    resolver.task_type, resolver.rpc_layer = "chief", "grpc"
    assert resolver.master() == "grpc://h0:1"


@pytest.mark.parametrize("text", [None, "", "  ", "{}", '{"cluster": {}}'])
def test_a_process_of_its_own(
    text: str | None, tf_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = tf_config(text or "")
    if text is None:
        monkeypatch.delenv("TF_CONFIG")
    assert not resolver.cluster_spec()
    assert (resolver.task_type, resolver.task_id, resolver.master()) == (None, None, "")


def test_a_cluster_of_one_task_has_no_master(tf_config: Any) -> None:
    resolver = tf_config({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})
    assert resolver.master() == resolver.master("worker", 0, "grpc") == ""
    assert tf_config({"cluster": {"worker": ["a:1"]}}).task_type is None


def test_the_variable_is_read_each_time(tf_config: Any) -> None:
    resolver = tf_config({"cluster": CLUSTER, "task": WORKER_1})
    tf_config({"cluster": {**CLUSTER, "ps": ["q:4"]}, "task": {"type": "ps", "index": "0"}})
    assert (resolver.task_type, resolver.task_id, resolver.master()) == ("ps", 0, "q:4")


def test_forms_of_clusters(tf_config: Any) -> None:
    sparse = {"worker": {"1": "[::1]:2222"}, "master": ["m:1"]}
    resolver = tf_config({"cluster": sparse, "task": WORKER_1})
    assert resolver.cluster_spec().as_dict() == {"worker": {1: "[::1]:2222"}, "master": ["m:1"]}
    beside = tf_config({"cluster": CLUSTER, "task": {"type": "evaluator", "index": 0}})
    assert (beside.task_type, beside.task_id) == ("evaluator", 0)
    master = tf_config({"cluster": CLUSTER, "task": WORKER_1, "session_master": "s"}).master()
    assert master == "s"


def cluster(task: Any = WORKER_1, **changed: Any) -> dict[str, Any]:
    return {"cluster": {**CLUSTER, **changed}, "task": task}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{bad", "is not valid JSON: Expecting property name"),
        ("[" * 100_000, "is nested too deeply"),
        ("9" * 5000, "is not valid JSON"),
        ("[]", "has a wrong entry: "),
        ({"cluster": ["a:1"]}, "has a wrong entry at 'cluster'"),
        (cluster(worker="h1:1"), "has a wrong entry at 'cluster.worker'"),
        (cluster(worker=[1]), "has a wrong entry at 'cluster.worker.0'"),
        ({"cluster": CLUSTER}, "cluster of 4 tasks, but its 'task' lacks 'type' and 'index'"),
        (cluster({"type": "worker"}), "its 'task' lacks 'index'"),
        (cluster({"index": 1}), "its 'task' lacks 'type'"),
        (cluster({"type": "worker", "index": 2}), "worker:2, but its cluster has 2 task"),
        (cluster({"type": "worker", "index": -1}), "negative task index -1"),
        (cluster({"type": "worker", "index": True}), "at 'task.index'.*not a boolean"),
        (cluster({"type": "worker", "index": "one"}), "at 'task.index'"),
        (cluster({"type": "wroker", "index": 0}), "unknown task type 'wroker'; the types are"),
        (cluster({"type": "master", "index": 0}), "its cluster has no job 'master'"),
        (cluster({"type": "evaluator", "index": 1}, evaluator=["e:1"]), "1 task.s. of the job"),
        (cluster(wroker=["x:1"]), "names the unknown job 'wroker'; the jobs are"),
        (cluster(worker=["h1:1", "h1:1"]), "gives the address 'h1:1' to 2 tasks"),
        (cluster(ps=["h1:1"]), "gives the address 'h1:1' to 2 tasks"),
        (cluster(worker=["h1:1", "h2"]), "gives worker:1 the address 'h2', which lacks a port"),
        (cluster(worker=["h1:1", "h2:0"]), "which lacks a port"),
        (cluster(worker=["h1:1", "fd00::2:2222"]), "an IPv6 address without brackets"),
        (cluster(worker=["h1:1", ":5"]), "gives worker:1 the address ':5'"),
        (cluster(worker=["h1:1", "grpc://h2:2"]), "leave out what stands before and with '://'"),
        (cluster(worker={"-1": "a:1", "1": "b:1"}), "gives worker the negative index -1"),
        (cluster(chief=["h0:1", "h9:1"]), r"has 2 chiefs \(chief, chief"),
        (cluster(master=["h9:1"]), r"has 2 chiefs \(chief, master"),
    ],
)
def test_what_is_wrong_is_said_with_the_right_form(
    value: Any, message: str, tf_config: Any
) -> None:
    resolver = tf_config(value)
    for ask in (
        resolver.cluster_spec,
        resolver.master,
        lambda: resolver.task_type,
        lambda: resolver.task_id,
        lambda: resolver.rpc_layer,
    ):
        with pytest.raises(TFConfigError, match=rf"^TF_CONFIG .*{message}") as refusal:
            ask()
        assert '"task": {"type": "worker", "index": 0}}' in str(refusal.value)


def json_of(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    addresses = st.sampled_from(["a:1", "b:2", "c", "http://d:1", "[::1]:5", ":1", "a:b:1"])
    return st.recursive(
        leaves | addresses | keys,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


WORDS = st.sampled_from(
    ["cluster", "task", "type", "index", "worker", "chief", "master", "ps", "0", "1", "rpc_layer"]
)
JOBS = st.dictionaries(WORDS | st.text(), json_of(WORDS), max_size=3)
FORMS = st.fixed_dictionaries(
    {}, optional={"cluster": JOBS, "task": json_of(WORDS), "rpc_layer": json_of(WORDS)}
)


@given(
    st.one_of(
        json_of(WORDS).map(json.dumps),
        json_of(st.text()).map(json.dumps),
        FORMS.map(json.dumps),
        st.text().filter(lambda text: "\0" not in text and text.isprintable()),
    )
)
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_CONFIG", text)
        resolver = TFConfigClusterResolver()
        try:
            spec, kind, index = resolver.cluster_spec(), resolver.task_type, resolver.task_id
        except TFConfigError:
            return
    if len(spec.jobs) > 1:
        assert kind is not None and index is not None
    if kind in spec.jobs and index is not None:
        assert index in spec.task_indices(kind)
