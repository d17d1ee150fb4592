"""``tf.distribute``."""

from drumline.compat.symbols.table import area, same_names

_RESOLVERS = (
    "ClusterResolver KubernetesClusterResolver KubernetesExecutableLocation SimpleClusterResolver "
    "SlurmClusterResolver TFConfigClusterResolver UnionResolver"
)
_RAISES = "making one raises, with what to use; isinstance works"
_UNAVAILABLE = "drumline.compat.distribute.unavailable"

AREA = (
    *area(
        "drumline.compat.distribute.strategies",
        OneDeviceOfTensors="distribute.OneDeviceStrategy",
        MirroredOfTensors="distribute.MirroredStrategy",
        MultiWorkerOfTensors="distribute.MultiWorkerMirroredStrategy",
        OlderMultiWorkerOfTensors="distribute.experimental.MultiWorkerMirroredStrategy",
        ParameterServersOfTensors=(
            "distribute.ParameterServerStrategy distribute.experimental.ParameterServerStrategy"
        ),
        TPUOfTensors="distribute.TPUStrategy",
        OlderTPUOfTensors="distribute.experimental.TPUStrategy",
        CentralStorageOfTensors="distribute.experimental.CentralStorageStrategy",
        ExtendedOfTensors="distribute.StrategyExtended",
        differences={
            "OneDeviceOfTensors": "a device that is not there becomes the CPU when it is made",
            "MirroredOfTensors": (
                "devices that are not there are left out, so that there are fewer replicas; "
                "TensorFlow runs several replicas on the CPU in their place"
            ),
            "CentralStorageOfTensors": (
                "within a training the replicas' devices hold copies, between steps too; devices "
                "that are not there are left out"
            ),
            "MultiWorkerOfTensors": (
                "without GPUs NCCL becomes AUTO, which is shared memory or Gloo, where TensorFlow "
                "takes its ring"
            ),
            "TPUOfTensors": (
                "the script runs on each of the TPU's machines; a replica has one core; replicas "
                "are numbered machine by machine"
            ),
            "ParameterServersOfTensors": (
                "64-bit numbers become 32-bit ones in scheduled functions, and integers that do "
                "not fit are refused; a variable that is cut into shards is one variable"
            ),
        },
    ),
    *area(
        "drumline.compat.distribute.values",
        DistributedView="distribute.DistributedDataset",
        DistributedIteratorView="distribute.DistributedIterator",
    ),
    *area(
        "drumline.compat.distribute.context",
        get_strategy="distribute.get_strategy",
        experimental_set_strategy="distribute.experimental_set_strategy",
        get_replica_context="distribute.get_replica_context",
        ReplicaContextView="distribute.ReplicaContext",
        differences={
            "ReplicaContextView": (
                "all_reduce and all_gather accept options and go by those of the strategy"
            )
        },
    ),
    *area(
        "drumline.compat.distribute.strategies",
        StepOptions="distribute.RunOptions",
        collective_hints="distribute.experimental.CollectiveHints",
        differences={
            "StepOptions": "experimental_enable_dynamic_batch_size changes nothing: each size of "
            "batches is compiled once"
        },
    ),
    *area(
        "drumline.compat.distribute.coordinator",
        CoordinatorOfTensors=(
            "distribute.coordinator.ClusterCoordinator "
            "distribute.experimental.coordinator.ClusterCoordinator"
        ),
        RemoteTensors=(
            "distribute.coordinator.RemoteValue distribute.experimental.coordinator.RemoteValue"
        ),
        PerWorkerValues=(
            "distribute.coordinator.PerWorkerValue "
            "distribute.experimental.coordinator.PerWorkerValues"
        ),
    ),
    *area(
        "drumline.compat.distribute.preemption",
        PreemptionCheckpointHandler="distribute.experimental.PreemptionCheckpointHandler",
        PreemptionWatcher="distribute.experimental.PreemptionWatcher",
        TerminationConfig="distribute.experimental.TerminationConfig",
        differences={
            "PreemptionCheckpointHandler": (
                "the signal is looked for between steps, by all processes together, and a grace "
                "period is counted in seconds alone"
            ),
        },
    ),
    *area(
        _UNAVAILABLE,
        GCEClusterResolver="distribute.cluster_resolver.GCEClusterResolver",
        differences={"GCEClusterResolver": _RAISES},
    ),
    *area(
        "drumline.compat.distribute.tpu",
        ResolverOfTPUs="distribute.cluster_resolver.TPUClusterResolver",
        initialize_tpu_system="tpu.experimental.initialize_tpu_system",
        shutdown_tpu_system="tpu.experimental.shutdown_tpu_system",
        differences={
            "ResolverOfTPUs": (
                "the script runs on each of the TPU's machines, and task_id is this one's number; "
                "addresses have port 8482, where none is given"
            ),
            "initialize_tpu_system": (
                "it joins the TPU's machines; arrays that are on the TPU stay there"
            ),
            "shutdown_tpu_system": (
                "compiled programs are forgotten; the TPU and what is on it stay this process's"
            ),
        },
    ),
    *same_names(
        "drumline.distribute.cluster_resolver.tpu",
        "tpu.experimental.",
        "DeviceAssignment DeviceOrderMode HardwareFeature Topology TPUSystemMetadata",
    ),
    *same_names(
        "drumline.distribute",
        "distribute.",
        "Strategy ReduceOp CrossDeviceOps HierarchicalCopyAllReduce ReductionToOneDevice "
        "InputContext InputOptions InputReplicationMode DistributedValues "
        "in_cross_replica_context has_strategy NcclAllReduce Server",
    ),
    *same_names(
        "drumline.distribute",
        "distribute.experimental.",
        "CollectiveCommunication CommunicationImplementation CommunicationOptions ValueContext",
    ),
    *same_names("drumline.distribute.cluster_resolver", "distribute.cluster_resolver.", _RESOLVERS),
    *same_names(
        "drumline.distribute.parameter_server.partitioners",
        "distribute.experimental.partitioners.",
        "FixedShardsPartitioner MaxSizePartitioner MinSizePartitioner Partitioner",
    ),
    *same_names(
        "drumline.compat.distribute.layouts",
        "experimental.dtensor.",
        "MATCH Mesh UNSHARDED",
    ),
    *area("drumline.compat.distribute.layouts", ShardingLayout="experimental.dtensor.Layout"),
    *same_names(
        "drumline.compat.distribute.dtensor",
        "experimental.dtensor.",
        "DTensorDataset DVariable barrier call_with_layout check_layout client_id copy_to_mesh "
        "create_distributed_mesh create_mesh default_mesh fetch_layout full_job_name "
        "get_default_mesh initialize_accelerator_system is_dtensor job_name jobs local_devices "
        "num_clients num_global_devices num_local_devices pack preferred_device_type relayout "
        "relayout_like run_on shutdown_accelerator_system unpack",
        differences={
            "DTensorDataset": "for one process",
            "barrier": "no timeout",
            "default_mesh": "tensors that are computed within it lie where their operands do",
            "run_on": "tensors that are computed within it lie where their operands do",
        },
    ),
)
