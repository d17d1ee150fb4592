"""``distribute``."""

from __future__ import annotations

from typing import Self

from drumline.data.methods.arguments import count_of
from drumline.data.methods.planned import Planned
from drumline.data.plan.distributing import Distribute
from drumline.data.plan.node import Node
from drumline.data.service.cluster import Service
from drumline.data.service.policy import ShardingPolicy, policy_of
from drumline.data.service.ray_service import RayService
from drumline.data.service.sharing import resolved


class Distributing(Planned):
    """What has work done by other machines."""

    def distribute(
        self,
        processing_mode: str | ShardingPolicy = "dynamic",
        address: str | None = None,
        workers: int | None = None,
        cpus_per_worker: float = 1,
        name: str | None = None,
    ) -> Self:
        """The operations before this one run on the CPUs of a Ray cluster, those after it here.

        With ``"dynamic"`` (or ``"distributed_epoch"``) elements are handed out as workers are free,
        and come in the order in which they would come without ``distribute``, to the bit. Functions
        run on the workers, with what reads files; shuffles, batches and other operations that look
        at several elements stay here.

        With ``"static"`` worker i has shard i: its files if the dataset reads enough of them, else
        every so many-th element. With ``"off"`` (or ``"parallel_epochs"``) every worker makes all
        elements. Everything before ``distribute`` then runs on the workers, and an element of each
        comes by turns.

        No lost worker, nor a lost machine, loses or repeats an element: others go on where it was.

        Args:
            processing_mode: a name or a ``dl.data.experimental.service.ShardingPolicy``.
            address: of a node of the cluster, as ``drumline data-service start`` prints it. By
                default that of the environment variable ``RAY_ADDRESS``, or of a cluster on this
                machine, which is started if there is none.
            workers: how many. By default one for each free CPU; ``"static"`` and ``"off"`` need a
                number, as the elements depend on it.
            cpus_per_worker: how many of Ray's CPUs each takes.
            name: shown by ``explain()``.

        Raises:
            ImportError: Ray is not installed (``pip install ray``).
            ValueError: ``processing_mode`` is none, lacks ``workers``, or does not suit the plan.
            TypeError: a part of a function cannot be sent (when iterated); the message names it.
        """
        number = None if workers is None else count_of(workers, "distribute", "workers", least=1)
        service = RayService(address, number, cpus_per_worker)
        return self._with(distribution(self._plan, processing_mode, service, number), name)


def distribution(
    plan: Node, processing_mode: str | ShardingPolicy, service: Service, workers: int | None
) -> Distribute:
    """The plan on the workers of a service.

    Raises:
        ValueError: the mode is none, lacks ``workers``, or does not suit the plan.
    """
    policy = policy_of(processing_mode)
    if policy is ShardingPolicy.DYNAMIC:
        return Distribute((plan,), service, policy, 0)
    if workers is None:
        raise ValueError(
            f"distribute: {policy.name} needs workers=, since the elements depend on their number"
        )
    return Distribute((plan,), service, resolved(plan, policy, workers), workers)
