"""The resolvers that are told, and unions, beside what TensorFlow 2.21 says."""

from __future__ import annotations

from typing import Any

import pytest

from drumline.distribute.cluster_resolver import (
    ClusterResolver,
    ClusterSpec,
    SimpleClusterResolver,
    UnionResolver,
)

CLUSTER = {"chief": ["h0:1"], "worker": ["h1:1", "h2:2"], "ps": ["p:3"]}


def answers(resolver: ClusterResolver) -> tuple[Any, ...]:
    return (
        resolver.master(),
        resolver.task_type,
        resolver.task_id,
        resolver.environment,
        resolver.rpc_layer,
        resolver.num_accelerators(),
    )


def test_simple_with_nothing_but_a_cluster() -> None:
    resolver = SimpleClusterResolver(ClusterSpec(CLUSTER))
    assert answers(resolver) == ("", None, None, "", None, {})
    assert resolver.cluster_spec().as_dict() == CLUSTER


def test_simple_with_everything() -> None:
    resolver = SimpleClusterResolver(
        ClusterSpec(CLUSTER),
        master="m:1",
        task_type="worker",
        task_id=1,
        environment="e",
        num_accelerators={"GPU": 2},
        rpc_layer="grpc",
    )
    assert answers(resolver) == ("grpc://m:1", "worker", 1, "e", "grpc", {"GPU": 2})
    assert resolver.master("worker", 1) == "grpc://h2:2"
    assert resolver.master("worker", 1, "x") == "x://h2:2"
    resolver.task_type, resolver.task_id, resolver.rpc_layer = "chief", 0, None
    assert answers(resolver)[:3] == ("m:1", "chief", 0)


def test_simple_refuses_what_tensorflow_refuses() -> None:
    with pytest.raises(TypeError, match="must be a dl.train.ClusterSpec, got dict"):
        SimpleClusterResolver(CLUSTER)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="master must be a string"):
        SimpleClusterResolver(ClusterSpec(CLUSTER), master=1)  # type: ignore[arg-type]
    resolver = SimpleClusterResolver(ClusterSpec(CLUSTER))
    with pytest.raises(ValueError, match="No task with index 7 in job 'worker'"):
        resolver.master("worker", 7)
    with pytest.raises(ValueError, match="No such job in cluster: 'x'"):
        resolver.master("x", 0)


def simple(cluster: Any, **options: Any) -> SimpleClusterResolver:
    return SimpleClusterResolver(ClusterSpec(cluster), **options)


FIRST = {
    "master": "ma:1",
    "task_type": "worker",
    "task_id": 0,
    "rpc_layer": "grpc",
    "environment": "e1",
    "num_accelerators": {"GPU": 1},
}


def test_a_union_joins_clusters_and_is_the_first_one_in_all_else() -> None:
    union = UnionResolver(
        simple({"worker": ["a:1", "b:2"], "ps": ["p:1"]}, **FIRST),
        simple({"worker": ["c:1"], "chief": ["d:1"]}, master="mb", task_type="worker", task_id=1),
    )
    joined = {"worker": ["a:1", "b:2", "c:1"], "ps": ["p:1"], "chief": ["d:1"]}
    assert union.cluster_spec().as_dict() == joined
    assert answers(union) == ("grpc://ma:1", "worker", 0, "e1", "grpc", {"GPU": 1})
    assert union.master("worker", 2) == "c:1"


def test_a_union_with_a_task_of_its_own() -> None:
    first = simple({"worker": ["a:1", "b:1"], "ps": ["p:1"]}, **{**FIRST, "task_id": 1})
    union = UnionResolver(first, task_type="ps", task_id=0, rpc_layer="rr")
    assert (union.task_type, union.task_id, union.rpc_layer) == ("ps", 0, "rr")
    assert union.master() == "grpc://ma:1"
    assert union.master("worker", 1) == "rr://b:1"
    union.task_type, union.task_id, union.rpc_layer = "worker", 1, "x"
    assert (union.task_type, union.task_id, union.rpc_layer) == ("worker", 1, "x")


def test_a_union_of_jobs_with_holes() -> None:
    holes = simple({"worker": {1: "x:1", 3: "y:1"}})
    filled = UnionResolver(holes, simple({"worker": ["z:0"]})).cluster_spec()
    assert filled.as_dict() == {"worker": {0: "z:0", 1: "x:1", 3: "y:1"}}
    with pytest.raises(KeyError, match=r"same tasks of job 'worker': \[1\]"):
        UnionResolver(holes, simple({"worker": ["z:0", "w:1"]})).cluster_spec()


def test_a_union_refuses_what_tensorflow_refuses() -> None:
    with pytest.raises(ValueError, match="at least one ClusterResolver"):
        UnionResolver()
    with pytest.raises(TypeError, match="takes ClusterResolvers, got int"):
        UnionResolver(1)  # type: ignore[arg-type]


def test_a_resolver_of_ones_own() -> None:
    class Fixed(ClusterResolver):
        def cluster_spec(self) -> ClusterSpec:
            return ClusterSpec(CLUSTER)

    resolver = Fixed()
    assert answers(resolver) == ("", None, None, "", None, {})
    resolver.task_type, resolver.task_id = "ps", 0
    assert resolver.master() == "p:3"
    with pytest.raises(ValueError, match="accelerators of worker:0 are known to that task only"):
        resolver.num_accelerators("worker", 0)
