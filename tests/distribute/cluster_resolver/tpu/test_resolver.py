"""A TPU's machines, from variables, a metadata server and an API of our own."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from drumline.distribute.cluster_resolver import TPUClusterResolver, TPUNotFoundError
from drumline.distribute.cluster_resolver.tpu import Topology, google_cloud
from drumline.distribute.process_group.group import group_of
from tests.distribute.cluster_resolver.metadata_service import Service

ATTRIBUTES = "/computeMetadata/v1/instance/attributes"
VARIABLES = (
    "TPU_PROCESS_ADDRESSES",
    "TPU_WORKER_HOSTNAMES",
    "TPU_WORKER_ID",
    "CLOUD_TPU_TASK_ID",
    "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS",
    "TPU_NAME",
    "TPU_CONFIG",
    "MEGASCALE_NUM_SLICES",
    "GCE_METADATA_HOST",
    "GCE_METADATA_IP",
)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")


@pytest.fixture
def metadata(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A metadata server, which is asked."""
    monkeypatch.delenv("TPU_SKIP_MDS_QUERY")
    monkeypatch.setenv("GCE_METADATA_HOST", service.address.removeprefix("http://"))
    return service


def cluster(resolver: TPUClusterResolver) -> dict[str, Any]:
    return resolver.cluster_spec().as_dict()


def test_gke_sets_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "job-0.svc, job-1.svc")
    monkeypatch.setenv("TPU_WORKER_ID", "1")
    resolver = TPUClusterResolver()
    assert cluster(resolver) == {"worker": ["job-0.svc:8482", "job-1.svc:8482"]}
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert resolver.master() == resolver.get_master() == "grpc://job-0.svc:8482"
    assert resolver.master(task_id=1, rpc_layer="x") == "x://job-1.svc:8482"
    assert resolver.get_job_name() == "worker" and resolver.environment == ""
    assert resolver.get_coordination_service_leader() == "/job:worker/task:0"
    assert copy.deepcopy(resolver) is resolver
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "job-0.svc,job-2.svc")
    assert cluster(resolver)["worker"][1] == "job-2.svc:8482", "asked for at each call"


def test_addresses_of_processes_win_and_their_ports_are_those_of_libtpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TPU_PROCESS_ADDRESSES", "localhost:8476,localhost:8477,[fd00::1]:8476")
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "other")
    monkeypatch.setenv("CLOUD_TPU_TASK_ID", "2")
    resolver = TPUClusterResolver("")
    assert cluster(resolver)["worker"] == ["localhost:8482", "localhost:8483", "[fd00::1]:8482"]
    assert resolver.task_id == 2
    assert group_of(resolver.as_workers()).process_index == 2


def test_addresses_of_ipv6_stand_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "fd00::1,[fd00::2]")
    monkeypatch.setenv("TPU_WORKER_ID", "0")
    assert cluster(TPUClusterResolver())["worker"] == ["[fd00::1]:8482", "[fd00::2]:8482"]


def test_job_and_coordinator_have_the_names_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "grpc://10.0.0.1:8470,grpc://10.0.0.2")
    resolver = TPUClusterResolver(
        job_name="tpu_worker", coordinator_name="coordinator", coordinator_address="10.0.0.9:1"
    )
    addresses = ["10.0.0.1:8470", "10.0.0.2:8482"]
    assert cluster(resolver) == {"tpu_worker": addresses, "coordinator": ["10.0.0.9:1"]}
    assert resolver.task_id is None
    with pytest.raises(RuntimeError, match=r"none of those of the TPU.*ENDPOINTS.*--worker=all"):
        resolver.as_workers()
    resolver.task_id = 1
    group = group_of(resolver.as_workers())
    assert (group.addresses, group.task) == (tuple(addresses), "worker:1")


@pytest.mark.parametrize("tpu", ["grpc://10.0.0.1:1,grpc://10.0.0.2:2", [b"grpc://10.0.0.1:1"]])
def test_addresses_are_taken_as_they_are(tpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_WORKER_ID", "0")
    resolver = TPUClusterResolver(tpu)
    assert cluster(resolver)["worker"][0] == "10.0.0.1:1" and resolver.task_id == 0


def test_a_local_tpu_has_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_NAME", "local")
    for resolver in (TPUClusterResolver("local"), TPUClusterResolver()):
        assert cluster(resolver) == {} and resolver.master() == "" and resolver.task_id == 0
        assert group_of(resolver.as_workers()).num_processes == 1


@pytest.mark.parametrize(
    "listed", ["unknown:unknown:10.0.0.1,unknown:unknown:10.0.0.2", "10.0.0.1,10.0.0.2"]
)
def test_a_tpu_vm_asks_its_metadata_server(
    metadata: Service, listed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # which nobody serves
    metadata.answers[f"{ATTRIBUTES}/worker-network-endpoints"] = (200, listed + "\n")
    metadata.answers[f"{ATTRIBUTES}/agent-worker-number"] = (200, "1")
    metadata.answers[f"{ATTRIBUTES}/tpu-env"] = (200, "NODE_ID: 'mine'\nZONE: 'z'\n")
    for name in (None, "mine"):
        resolver = TPUClusterResolver(name)
        assert cluster(resolver) == {"worker": ["10.0.0.1:8482", "10.0.0.2:8482"]}
        assert resolver.task_id == 1
    assert {headers["metadata-flavor"] for _, _, headers in metadata.asked} == {"Google"}


@pytest.mark.parametrize(
    ("endpoints", "number", "problem"),
    [
        ("a:b", "0", r"worker-network-endpoints has 'a:b'"),
        ("10.0.0.1", "1", r"agent-worker-number should be .* from 0 to 0, got '1'"),
        ("10.0.0.1", "-1", r"agent-worker-number should be .* got '-1'"),
    ],
)
def test_what_a_metadata_server_says_is_checked(
    metadata: Service, endpoints: str, number: str, problem: str
) -> None:
    metadata.answers[f"{ATTRIBUTES}/worker-network-endpoints"] = (200, endpoints)
    metadata.answers[f"{ATTRIBUTES}/agent-worker-number"] = (200, number)
    with pytest.raises(ValueError, match=problem):
        TPUClusterResolver()


def test_several_slices_are_refused(metadata: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata.answers[f"{ATTRIBUTES}/worker-network-endpoints"] = (200, "10.0.0.1")
    metadata.answers[f"{ATTRIBUTES}/agent-worker-number"] = (200, "0")
    metadata.answers[f"{ATTRIBUTES}/tpu-env"] = (200, "MEGASCALE_NUM_SLICES: '2'")
    with pytest.raises(ValueError, match=r"MEGASCALE_NUM_SLICES=2.*single slice"):
        TPUClusterResolver()
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "localhost")
    assert TPUClusterResolver().task_id == 0
    monkeypatch.setenv("MEGASCALE_NUM_SLICES", "4")
    with pytest.raises(ValueError, match="MEGASCALE_NUM_SLICES=4"):
        TPUClusterResolver()


READY = {
    "state": "READY",
    "networkEndpoints": [
        {"ipAddress": "10.0.0.1", "port": 8470},
        {"ipAddress": "10.0.0.2", "port": 8470},
    ],
}
NODE = "/projects/p/locations/z/nodes/named"


def test_google_is_asked_for_a_tpu_by_its_name(
    metadata: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(google_cloud, "_API", metadata.address)
    instance = "/computeMetadata/v1/instance"
    token = json.dumps({"access_token": "secret", "expires_in": 3599, "token_type": "Bearer"})
    metadata.answers[f"{instance}/service-accounts/default/token"] = (200, token)
    metadata.answers["/computeMetadata/v1/project/project-id"] = (200, "p")
    metadata.answers[f"{instance}/zone"] = (200, "projects/123/zones/z")
    metadata.answers[f"{instance}/network-interfaces/0/ip"] = (200, "10.0.0.2")
    metadata.answers[NODE] = (200, json.dumps(READY))
    monkeypatch.setenv("TPU_NAME", "named")
    for resolver in (TPUClusterResolver("named"), TPUClusterResolver()):
        assert cluster(resolver) == {"worker": ["10.0.0.1:8482", "10.0.0.2:8482"]}
        assert resolver.task_id == 1, "by this machine's address"
    asked = [headers for _, path, headers in metadata.asked if path == NODE]
    assert {headers["authorization"] for headers in asked} == {"Bearer secret"}
    metadata.answers[NODE] = (200, json.dumps({**READY, "state": "PREEMPTED"}))
    with pytest.raises(RuntimeError, match=r"'named' is not ready.*'PREEMPTED'"):
        resolver.cluster_spec()
    metadata.answers[NODE] = (403, json.dumps({"error": {"message": "no permission"}}))
    with pytest.raises(ValueError, match=r"'named' of project 'p' in zone 'z'.*403: no permission"):
        resolver.cluster_spec()
    metadata.answers[NODE] = (200, "[]")
    with pytest.raises(ValueError, match=r"\[\], which describes no TPU"):
        resolver.cluster_spec()


def test_a_machine_of_another_tpu_asks_google(
    metadata: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(google_cloud, "_API", metadata.address)
    metadata.answers[f"{ATTRIBUTES}/tpu-env"] = (200, "NODE_ID: 'mine'")
    metadata.answers[f"{ATTRIBUTES}/worker-network-endpoints"] = (200, "10.9.9.9")
    metadata.answers[f"{ATTRIBUTES}/agent-worker-number"] = (200, "0")
    metadata.answers[NODE] = (200, json.dumps(READY))
    resolver = TPUClusterResolver("named", "z", "p", credentials="token")
    assert cluster(resolver)["worker"] == ["10.0.0.1:8482", "10.0.0.2:8482"]


class Client:
    """As ``googleapiclient``'s, which gives one TPU."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self.asked: list[str] = []

    def projects(self) -> Client:
        return self

    locations = nodes = projects

    def get(self, name: str) -> Client:
        self.asked.append(name)
        return self

    def execute(self) -> Any:
        if isinstance(self._node, Exception):
            raise self._node
        return self._node


def test_a_client_of_the_users_and_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client({"state": "READY", "ipAddress": "10.1.2.3", "port": "8470"})
    config = {"tpu_node_name": "named", "zone": "z", "project": "p"}
    monkeypatch.setenv("TPU_CONFIG", json.dumps(config))
    resolver = TPUClusterResolver(service=client)
    assert cluster(resolver) == {"worker": ["10.1.2.3:8482"]}
    assert client.asked == [NODE.removeprefix("/")]
    assert resolver.task_id is None, "nothing says which machine this is"
    resolver = TPUClusterResolver("gone", "z", "p", service=Client(KeyError("no such node")))
    with pytest.raises(ValueError, match=r"'gone' of project 'p' in zone 'z'.*no such node"):
        resolver.cluster_spec()
    monkeypatch.setenv("TPU_CONFIG", "{}")
    with pytest.raises(ValueError, match=r"TPU_CONFIG should be as .* got '{}'"):
        TPUClusterResolver()


def test_a_name_needs_project_and_zone_and_a_token() -> None:
    with pytest.raises(ValueError, match=r"'x': .*project/project-id.* was not asked.*zone="):
        TPUClusterResolver("x").cluster_spec()
    with pytest.raises(ValueError, match=r"token.* was not asked.*credentials="):
        TPUClusterResolver("x", "z", "p").cluster_spec()
    with pytest.raises(ValueError, match=r"credentials object hold no access token"):
        TPUClusterResolver("x", "z", "p", credentials=object()).cluster_spec()


@pytest.mark.parametrize(
    ("variables", "arguments", "problem"),
    [
        ({"TPU_WORKER_HOSTNAMES": "a,b"}, {}, r"lists 2 workers, and neither TPU_WORKER_ID"),
        ({"TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": "2"}, {}, "from 0 to 1, got '2'"),
        ({"TPU_WORKER_HOSTNAMES": "a,,b", "TPU_WORKER_ID": "0"}, {}, "is empty: 'a, , b'"),
        ({}, {"tpu": []}, "is empty"),
        ({}, {"tpu": "local", "coordinator_name": "c"}, "needs a coordinator_address"),
    ],
)
def test_what_is_wrong_is_named(
    variables: dict[str, str],
    arguments: dict[str, Any],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=problem):
        TPUClusterResolver(**arguments)


def test_what_is_not_taken_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="one TPU"):
        TPUClusterResolver(["a", "b"])
    with pytest.raises(NotImplementedError, match="service="):
        TPUClusterResolver("a", discovery_url="https://x")
    with pytest.raises(TypeError, match="must be a string"):
        TPUClusterResolver(3)  # type: ignore[arg-type]


def test_without_a_tpu_the_error_says_where_it_was_looked_for(
    metadata: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"provide a TPU Name.*TPU_NAME.*endpoints .*404.*local"):
        TPUClusterResolver()
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    with pytest.raises(ValueError, match=r"127.0.0.1:1/computeMetadata.* does not answer"):
        TPUClusterResolver()
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    with pytest.raises(ValueError, match=r"was not asked, as TPU_SKIP_MDS_QUERY=1"):
        TPUClusterResolver()


def test_what_comes_of_jax() -> None:
    resolver = TPUClusterResolver("local")
    assert resolver.num_accelerators() == {"TPU": 0}
    with pytest.raises(TPUNotFoundError, match=r"JAX has devices of the platforms cpu \(\d"):
        resolver.get_tpu_system_metadata()
    assert resolver.tpu_hardware_feature is None
    topology = Topology(mesh_shape=[1, 1, 1, 1], device_coordinates=[[[0, 0, 0, 0]]])
    resolver.set_tpu_topology(topology.serialized())
    feature = resolver.tpu_hardware_feature
    assert feature is not None and feature.embedding_feature.value == "UNSUPPORTED"
    assert feature.num_embedding_devices_per_chip == 0


def test_an_answer_of_the_metadata_server_that_is_cut(metadata: Service) -> None:
    """Process 1 of a slice is not process 12."""
    metadata.answers[f"{ATTRIBUTES}/agent-worker-number"] = (200, "12")
    server = google_cloud.MetadataServer()
    assert server.attribute("agent-worker-number") == "12"
    metadata.cut = 1
    with pytest.raises(google_cloud.UnansweredError, match="1 more expected"):
        server.attribute("agent-worker-number")
