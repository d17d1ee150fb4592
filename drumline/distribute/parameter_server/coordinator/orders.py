"""What all workers have to make, also those that come later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from drumline.distribute.parameter_server.coordinator.reached_worker import Order, ReachedWorker
from drumline.distribute.parameter_server.wire import Connection

MakeOrder = Callable[[Connection], Order]


class Orders:
    """Datasets and iterators, in the order in which they were made."""

    def __init__(self) -> None:
        self._orders: dict[Any, MakeOrder] = {}
        self._lock = threading.Lock()

    def add(self, key: Any, order: MakeOrder) -> None:
        """Have workers make something that come from now on."""
        with self._lock:
            self._orders[key] = order

    def remove(self, *keys: Any) -> None:
        """These need not be made any more."""
        with self._lock:
            for key in keys:
                self._orders.pop(key, None)

    def bring_up(self, worker: ReachedWorker, ready: Callable[[], None]) -> None:
        """Have a worker make all that it lacks.

        Args:
            worker: to be told.
            ready: called once it lacks nothing, before anything else is added.
        """
        while True:
            with self._lock:
                lacking = [make for key, make in self._orders.items() if key not in worker.known]
                gone = worker.known - self._orders.keys()
                if not lacking:
                    ready()
                    break
            for make in lacking:
                worker.tell(make(worker.connection))
        worker.forget(gone)
