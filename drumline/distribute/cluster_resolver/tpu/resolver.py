"""`TPUClusterResolver`: the machines of a TPU, of which each runs the script."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from drumline.distribute.cluster_resolver.cluster_resolver import (
    ClusterResolver,
    SimpleClusterResolver,
    master_url,
)
from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec
from drumline.distribute.cluster_resolver.tpu import workers
from drumline.distribute.cluster_resolver.tpu.google_cloud import MetadataServer, UnansweredError
from drumline.distribute.cluster_resolver.tpu.system import (
    HardwareFeature,
    TPUSystemMetadata,
    local_tpu_devices,
    system_metadata,
)
from drumline.distribute.cluster_resolver.tpu.topology import Topology
from drumline.distribute.cluster_resolver.tpu.workers import TPUWorkers

_LOCAL = "local"
_SERVES = "grpc://"


class NoTPUNamedError(ValueError):
    """Neither the arguments nor the machine's surroundings name a TPU."""


class TPUClusterResolver(ClusterResolver):
    """The machines of a Cloud TPU, and which of them this one is.

    As ``tf.distribute.cluster_resolver.TPUClusterResolver``, for scripts that run on every machine
    of the TPU: JAX has no remote devices. ``gcloud compute tpus tpu-vm ssh NAME --worker=all
    --command="python train.py"`` starts one so, and so does a Job on GKE.

    Where the machines are said is looked for in this order: for ``tpu="local"``, the devices of
    this machine alone; for ``"grpc://host:port,..."`` these addresses; for a name, the TPU VM's
    metadata server if this is one of that TPU's machines, else Google's TPU API; without a name
    ``TPU_PROCESS_ADDRESSES`` or ``TPU_WORKER_HOSTNAMES``, which GKE sets, with ``TPU_WORKER_ID``;
    ``KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS``; the metadata server; and ``TPU_NAME`` or ``TPU_CONFIG``.

    Addresses without a port get 8482, at which JAX's coordination service of process 0 listens.

    Args:
        tpu: a name, addresses, ``"local"``, or nothing; a list with one of these is taken, too.
        zone: that of a TPU with a name; by default this machine's.
        project: likewise.
        job_name: the name of the machines' job in `cluster_spec`.
        coordinator_name: another job in `cluster_spec`, of which nothing is started.
        coordinator_address: the address of its one task.
        credentials: for the API: an access token, or an object with one as ``token``; by default
            the token of the machine's service account.
        service: for the API: what ``googleapiclient.discovery.build("tpu", ...)`` returns, to be
            asked in place of the API itself.
        discovery_url: not taken: pass a `service` that was made of it.

    Raises:
        NotImplementedError: for several TPUs, or a `discovery_url`.
        ValueError: if there is no TPU; the message says where it was looked for.

    Example:
        >>> resolver = dl.distribute.cluster_resolver.TPUClusterResolver("grpc://10.0.0.2:8482")
        >>> resolver.cluster_spec(), resolver.master()
        (ClusterSpec({'worker': ['10.0.0.2:8482']}), 'grpc://10.0.0.2:8482')
    """

    def __init__(
        self,
        tpu: str | bytes | Sequence[str] | None = None,
        zone: str | None = None,
        project: str | None = None,
        job_name: str = "worker",
        coordinator_name: str | None = None,
        coordinator_address: str | None = None,
        credentials: Any = "default",
        service: Any = None,
        discovery_url: str | None = None,
    ) -> None:
        if discovery_url is not None:
            raise NotImplementedError(
                "TPUClusterResolver(discovery_url=...): drumline asks Google's TPU API without a "
                "discovery document. Build a client of it, and pass it as service=."
            )
        if coordinator_name and not coordinator_address:
            raise ValueError(
                f"TPUClusterResolver(coordinator_name={coordinator_name!r}) needs a "
                "coordinator_address: drumline starts no server for a coordinator. Leave both "
                "out to train on the TPU's own machines."
            )
        self._task_type = job_name
        self._rpc_layer = "grpc"
        self._coordinator = (coordinator_name, coordinator_address) if coordinator_name else None
        self._zone, self._project = zone or None, project or None
        self._credentials, self._service = credentials, service
        self._topology: Topology | None = None
        self._tpu, self._ask = self._source(_one_name(tpu))

    @staticmethod
    def connect(
        tpu: str | bytes | Sequence[str] | None = None,
        zone: str | None = None,
        project: str | None = None,
    ) -> TPUClusterResolver:
        """Make a resolver, join the TPU's machines, and start JAX on its devices.

        As ``tf.distribute.cluster_resolver.TPUClusterResolver.connect``: the same as
        `drumline.config.experimental_connect_to_cluster` and
        `drumline.tpu.experimental.initialize_tpu_system` of a new resolver.

        Args:
            tpu: as of the constructor, like the arguments that follow.
            zone: the TPU's.
            project: the TPU's.

        Raises:
            TPUNotFoundError: if JAX finds no TPU on this machine.
            ValueError: if no TPU is named.
        """
        resolver = TPUClusterResolver(tpu, zone, project)
        _initialize(resolver)
        return resolver

    def cluster_spec(self) -> ClusterSpec:
        """The TPU's machines, asked for at each call; of a local TPU an empty cluster.

        Raises:
            RuntimeError: if the TPU is not ready.
            ValueError: if it is not found.
        """
        found = self._ask()
        if found is None:
            return ClusterSpec({})
        jobs: dict[str, list[str]] = {str(self._task_type): list(found.addresses)}
        if self._coordinator is not None:
            name, address = self._coordinator
            jobs[str(name)] = [str(address)]
        return ClusterSpec(jobs)

    @property
    def task_id(self) -> int | None:
        """This machine's number among the TPU's; None if it is none of them."""
        if self._task_id is not None:
            return self._task_id
        found = self._ask()
        return 0 if found is None else found.number

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The address of a task, by default of the TPU's first machine; empty for a local TPU.

        Raises:
            ValueError: if there is no such task.
        """
        if self._ask() is None:
            return ""
        job = str(self.task_type) if task_type is None else task_type
        address = self.cluster_spec().task_address(job, 0 if task_id is None else task_id)
        return master_url(address, rpc_layer or self._rpc_layer)

    def get_master(self) -> str:
        """Return `master` of the first machine."""
        return self.master()

    def get_job_name(self) -> str | None:
        """Return the name of the machines' job."""
        return self.task_type

    def get_coordination_service_leader(self) -> str:
        """Return the task at which JAX's coordination service listens: the first machine's."""
        return f"/job:{self.get_job_name()}/task:0"

    def get_tpu_system_metadata(self) -> TPUSystemMetadata:
        """Return how many cores and machines the TPU has, and its devices.

        It starts JAX, so it comes after `drumline.config.experimental_connect_to_cluster`.

        Raises:
            TPUNotFoundError: if JAX finds no TPU on this machine.
        """
        return system_metadata(str(self.task_type))

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: object = None,
    ) -> dict[str, int]:
        """The TPU devices of each machine, as ``{"TPU": 4}``; 0 without a TPU. It starts JAX.

        Args:
            task_type: unused: all machines of a TPU have the same number.
            task_id: likewise.
            config_proto: unused.
        """
        return {"TPU": len(local_tpu_devices())}

    @property
    def tpu_hardware_feature(self) -> HardwareFeature | None:
        """What the TPU's hardware has; None before it was initialized."""
        return None if self._topology is None else HardwareFeature()

    def set_tpu_topology(self, serialized_tpu_topology: bytes) -> None:
        """Keep the TPU's topology, as `Topology.serialized` gives it."""
        self._topology = Topology(serialized=serialized_tpu_topology)

    def as_workers(self) -> ClusterResolver:
        """Return the machines as the workers of a strategy, of which this is one.

        Raises:
            RuntimeError: if this machine is none of the TPU's.
        """
        found, number = self._ask(), self.task_id
        if found is None:
            return SimpleClusterResolver(ClusterSpec({}))
        if number is None:
            raise RuntimeError(
                f"This machine is none of those of the TPU {self._tpu!r}: {found.said_by} names "
                f"{', '.join(found.addresses)}. JAX has no remote devices: run the script on each "
                "of the TPU's machines, by `gcloud compute tpus tpu-vm ssh NAME --worker=all "
                "--command=...`."
            )
        return SimpleClusterResolver(
            ClusterSpec({"worker": list(found.addresses)}), task_type="worker", task_id=number
        )

    def __enter__(self) -> None:
        """Do nothing, as TensorFlow's."""

    def __exit__(self, *exception: object) -> None:
        """Do nothing, as TensorFlow's."""

    def __deepcopy__(self, memo: Any) -> TPUClusterResolver:
        return self

    def _source(self, name: str) -> tuple[str, Callable[[], TPUWorkers | None]]:
        """What the TPU is called, and the function that asks for its machines."""
        if name == _LOCAL:
            return _LOCAL, lambda: None
        if name.startswith(_SERVES):
            return name, lambda: _of_addresses(name)
        if name:
            return name, lambda: self._named(name)
        if workers.of_environment() is not None:
            return "", workers.of_environment
        server = MetadataServer()
        try:
            workers.of_metadata(server)
        except UnansweredError as error:
            unanswered = str(error)
        else:
            return "", lambda: workers.of_metadata(server)
        configured = workers.configured_name()
        if configured is None:
            raise NoTPUNamedError(_nothing_found(unanswered))
        self._zone = self._zone or configured.get("zone")
        self._project = self._project or configured.get("project")
        return self._source(configured["name"])

    def _named(self, name: str) -> TPUWorkers:
        if name == os.environ.get("TPU_NAME"):
            found = workers.of_environment()
            if found is not None:
                return found
        server = MetadataServer()
        try:
            here = server.tpu_environment().get("NODE_ID")
            if here == name:
                return workers.of_metadata(server)
        except UnansweredError:
            pass  # it is no TPU VM, or does not say so: the API knows all TPUs
        return workers.of_api(
            name, self._zone, self._project, credentials=self._credentials, service=self._service
        )


_initializer: Callable[[TPUClusterResolver], Topology] | None = None


def register_initializer(initialize: Callable[[TPUClusterResolver], Topology]) -> None:
    """Let `TPUClusterResolver.connect` use `initialize`, which joins processes and starts JAX."""
    global _initializer
    _initializer = initialize


def _initialize(resolver: TPUClusterResolver) -> None:
    assert _initializer is not None, "drumline.distribute registers it"
    _initializer(resolver)


def _one_name(tpu: str | bytes | Sequence[str] | None) -> str:
    if isinstance(tpu, (list, tuple)):
        if not tpu:
            raise ValueError("TPUClusterResolver needs a TPU: the list tpu=[] is empty.")
        if len(tpu) > 1:
            raise NotImplementedError(
                f"TPUClusterResolver takes one TPU, got {list(tpu)!r}. Train on each in a job of "
                "its own."
            )
        tpu = tpu[0]
    if isinstance(tpu, bytes):
        tpu = tpu.decode()
    if tpu is not None and not isinstance(tpu, str):
        raise TypeError(f"TPUClusterResolver: tpu must be a string, got {tpu!r}")
    return (tpu or "").strip()


def _of_addresses(listed: str) -> TPUWorkers:
    addresses = workers.with_ports(listed.split(","))
    number = workers.number_of_environment(len(addresses))
    return TPUWorkers(addresses, number, "tpu=")


def _nothing_found(unanswered: str) -> str:
    return (
        "Please provide a TPU Name to connect to. Looked for it in TPU_PROCESS_ADDRESSES, "
        "TPU_WORKER_HOSTNAMES, KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS, TPU_NAME and TPU_CONFIG, of which "
        f"none is set; {unanswered}. If the TPU is this machine's alone, pass tpu='local'; without "
        "a TPU, MirroredStrategy() trains on the devices that JAX has."
    )
