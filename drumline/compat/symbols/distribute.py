"""``tf.distribute``."""

from drumline.compat.symbols.table import area, same_names

AREA = (
    *area(
        "drumline.compat.distribute.strategies",
        OneDeviceOfTensors="distribute.OneDeviceStrategy",
        MirroredOfTensors="distribute.MirroredStrategy",
        MultiWorkerOfTensors=(
            "distribute.MultiWorkerMirroredStrategy "
            "distribute.experimental.MultiWorkerMirroredStrategy"
        ),
        ParameterServersOfTensors=(
            "distribute.ParameterServerStrategy distribute.experimental.ParameterServerStrategy"
        ),
        DistributedView="distribute.DistributedDataset",
        DistributedIteratorView="distribute.DistributedIterator",
        get_strategy="distribute.get_strategy",
        get_replica_context="distribute.get_replica_context",
    ),
    *same_names(
        "drumline.distribute",
        "distribute.",
        "Strategy ReduceOp CrossDeviceOps HierarchicalCopyAllReduce ReductionToOneDevice "
        "InputContext in_cross_replica_context has_strategy NcclAllReduce",
    ),
)
