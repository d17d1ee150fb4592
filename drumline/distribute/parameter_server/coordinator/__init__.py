"""The chief's side: functions scheduled on workers. As ``tf.distribute.coordinator``."""

from drumline.distribute.parameter_server.coordinator.cluster_coordinator import ClusterCoordinator
from drumline.distribute.parameter_server.coordinator.scheduling import RemoteValue
from drumline.distribute.parameter_server.coordinator.values import PerWorkerValues

__all__ = ["ClusterCoordinator", "PerWorkerValues", "RemoteValue"]
