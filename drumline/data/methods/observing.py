"""Methods that tell how a dataset runs."""

from __future__ import annotations

import numpy as np

from drumline.data.epochs import Epochs
from drumline.data.fingerprint.plans import fingerprint_of
from drumline.data.iterator import DatasetIterator
from drumline.data.methods.arguments import count_of
from drumline.data.methods.planned import Planned
from drumline.data.observe.observation import Observation
from drumline.data.observe.profile import Profile
from drumline.data.observe.profiling import run_profile

_SECONDS = 10.0


class Observing(Planned):
    """Measurements, and what tells datasets apart."""

    def fingerprint(self) -> np.uint64:
        """A number that is the same in every process for the same dataset.

        Other operations, arguments, arrays, functions (compiled ones by their programs, others by
        their code and all that it reads) or seeds give another one. A seed that was not given
        counts as any seed; files count by their names; names (``name=``), options, prefetching and
        the number of parallel calls do not count. Other releases of Python, jax and drumline may
        give other numbers.

        Raises:
            TypeError: a function reads, or a source is, something of which it cannot be told
                whether it is the same in another run.
        """
        return np.uint64(fingerprint_of(self._plan))

    def profile(self, elements: int | None = None, seconds: float | None = None) -> Profile:
        """Runs the dataset from the start of its first epoch and measures every stage.

        It ends with that epoch, however early: profile ``dataset.repeat()`` to go on for longer.

        Args:
            elements: after how many elements to stop.
            seconds: after how many seconds to stop, at the next element; 10 if neither is given.

        Returns:
            A `Profile`: ``print`` shows a table and names the bottleneck, ``save_png`` draws it,
            ``save_trace`` writes what Chrome's trace viewer and Perfetto read.

        Raises:
            ValueError: ``elements`` or ``seconds`` are not positive.
            Exception: what the dataset raises.
        """
        if elements is not None:
            elements = count_of(elements, "profile", "elements", least=1)
        elif seconds is None:
            seconds = _SECONDS
        if seconds is not None and not seconds > 0:
            raise ValueError(f"profile: seconds must be positive, got {seconds!r}")
        observation = Observation(traced=True)
        epochs = Epochs(self._plan, self._options, observation)
        started = observation.clock()
        iterator: DatasetIterator[object] = DatasetIterator(epochs, 0)
        return run_profile(
            iterator, started, observation, elements, seconds, epochs.runtime.decisions
        )
