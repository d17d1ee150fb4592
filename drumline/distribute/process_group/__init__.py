"""Several processes that compute together: how they start, watch one another, and end.

`start` joins the processes of a cluster; `watchdog` surrounds a step. What happens when one of
them fails is written down in ``docs/inside/architecture.md``.
"""

from drumline.distribute.process_group.group import ProcessGroup, Resolver
from drumline.distribute.process_group.peers import PeerLostError
from drumline.distribute.process_group.start import share_memory, start, watch_pending, watchdog

__all__ = [
    "PeerLostError",
    "ProcessGroup",
    "Resolver",
    "share_memory",
    "start",
    "watch_pending",
    "watchdog",
]
