"""How far `fit` is in its input, and continuing from there.

What `fit` reads is Keras's epoch iterator over a data adapter. An `InputPosition` belongs to one
epoch iterator: it makes the iterations of the adapter, knows their position, and lets the epoch
iterator begin in the middle of an epoch.

A dataset's iterator has a position. Whatever else `fit` takes (arrays, `PyDataset`, generators) is
read again from where the iteration began, with the random state that there was, and given away up
to the position.
"""

from __future__ import annotations

import contextlib
import queue
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from drumline.data._dataset.sharing import (
    epochs_state,
    next_epoch,
    set_epochs_state,
    set_next_epoch,
)
from drumline.keras import internals
from drumline.keras.data_adapter import DatasetAdapter
from drumline.keras.resuming.user_state import (
    PyDatasetState,
    process_state,
    set_process_state,
)

_MARK = "_drumline_position"


def position_in(epochs: Any) -> InputPosition | None:
    """What knows the position in an epoch iterator of Keras's; None if nothing has asked for it."""
    found: InputPosition | None = vars(epochs).get(_MARK)
    return found


class ReplayedBatches:
    """Batches without a position, which are counted.

    Args:
        batches: an iterator.
        begin: called before the first batch is read.
        taken: how many batches were read of the same input before.
    """

    def __init__(self, batches: Iterator[Any], begin: Callable[[], None], taken: int = 0) -> None:
        self._batches = batches
        self._begin = begin
        self._begun = False
        self._taken = taken

    def __iter__(self) -> ReplayedBatches:
        return self

    def __next__(self) -> Any:
        if not self._begun:
            self._begun = True
            self._begin()
        batch = next(self._batches)
        self._taken += 1
        return batch

    def state(self) -> dict[str, int] | None:
        """How many batches were given; None before the first."""
        return {"taken": self._taken} if self._taken else None

    def restore(self, state: dict[str, int] | None) -> None:
        """Give that many away.

        Raises:
            ValueError: if there are fewer.
        """
        for number in range(state["taken"] if state else 0):
            if next(self, _END) is _END:
                raise ValueError(
                    f"The input ends after {number} batches, but more than these were used when "
                    "the backup was saved: give `fit` the same input as then, or another directory."
                )


_END = object()


def drop_ready(enqueuer: Any) -> None:
    """Drop what an enqueuer of Keras's that has stopped holds for its next start."""
    with contextlib.suppress(queue.Empty):
        while True:
            enqueuer.ready_queue.get(block=False)


class Resumed:
    """Stands for the batches of the last step before a resumed one, which is done."""

    def __iter__(self) -> Resumed:
        return self

    def __next__(self) -> Resumed:
        return self


RESUMED = Resumed()


class InputPosition:
    """The position of one of Keras's epoch iterators, of training or of validation.

    Args:
        epochs: the epoch iterator, which is not used yet.
        validates: whether it is gone through from its start in each epoch, after the training.

    Attributes:
        at_done_step: whether the step under way is one that is done; see `steps`.
        is_kept: whether iterations are to be made by `iteration`, so that they have a position.
    """

    def __init__(self, epochs: Any, validates: bool = False) -> None:
        self.at_done_step = False
        self.is_kept = False
        self._validates = validates
        self._epochs = epochs
        self._adapter = epochs.data_adapter
        self._kind = type(self._adapter).__name__
        self._of_user = (
            PyDatasetState(self._adapter.py_dataset)
            if isinstance(self._adapter, internals.PyDatasetAdapter)
            else None
        )
        # The iteration, what there was before its first batch, and before its first epoch.
        self._iteration: Any = None
        self._before_iteration: Any = None
        self._before_epoch: Any = None
        # Steps that Keras had counted before the epoch began.
        self._counted_before = 0
        self._resumption: dict[str, Any] | None = None
        self._done = 0
        self._restores = False
        vars(epochs)[_MARK] = self

    def of_epoch(self, epoch: int) -> None:
        """Let a dataset's next iteration be at least its epoch of this number.

        One that is iterated for several epochs, as ``steps_per_epoch`` has it, is left alone.
        """
        if not self._epochs.steps_per_epoch:
            for dataset in self._datasets:
                set_next_epoch(dataset, max(epoch, next_epoch(dataset)))

    def iteration(self, make: Callable[[], Any], place: Callable[[Any], Any]) -> Any:
        """Start an iteration; in an epoch that is resumed, where it was.

        Args:
            make: gives the batches of one iteration of the adapter.
            place: gives an iterator, with a position, over them on the devices.
        """
        batches = make()
        if not isinstance(self._adapter, DatasetAdapter):
            taken = (self._position() or {"taken": 0})["taken"] if self._is_generator else 0
            batches = ReplayedBatches(batches, self._iteration_begins, taken)
        self._iteration = place(batches)
        resumption, self._resumption = self._resumption, None
        if resumption is not None:
            self._restores = True
            self._iteration.restore(resumption["position"])
            self._restores = False
            self._put_back(resumption)
        return self._iteration

    def state(self, in_epoch: bool) -> dict[str, Any]:
        """What `resume` takes; small, but for an array of indices that a ``PyDataset`` may keep.

        Args:
            in_epoch: whether the epoch has not ended.
        """
        lasts = in_epoch or self._lasts() or self._is_generator
        position = self._position() if lasts else None
        state = {
            "kind": self._kind,
            "position": position,
            "counted_before": self._counted_before if in_epoch else self._epochs._steps_seen,
            "num_batches": self._epochs._num_batches,
            "sizes": self._sizes(),
            "at_once": self._epochs.steps_per_execution,
            "before_epoch": None if position is None else self._before_epoch,
            "before_iteration": None if position is None else self._before_iteration,
            "datasets": [epochs_state(dataset) for dataset in self._datasets],
            "process": process_state(),
        }
        if self._of_user is not None and position is None:
            state["user"] = self._of_user.state()
        return state

    @property
    def is_alike(self) -> bool:
        """Whether several processes go through the same batches, so that they share a position."""
        return not isinstance(self._adapter, DatasetAdapter) or not self._adapter.has_own_steps

    def resume(self, state: dict[str, Any], done: int) -> None:
        """Be as when `state` was taken; the next epoch begins where it was.

        Args:
            state: of an equal input.
            done: how many steps of the epoch were done.

        Raises:
            ValueError: if it is of another kind of input, or of one with other batches.
        """
        if state["kind"] != self._kind:
            raise ValueError(
                f"The backup was saved by a `fit` whose input had Keras's {state['kind']}, and "
                f"this one's has {self._kind}: give `fit` the same kind of input, or another "
                "directory."
            )
        self._require_same_sizes(state, done)
        self.is_kept = True
        if self._epochs._num_batches is None:
            self._epochs._num_batches = state["num_batches"]
        self._done = done
        if state["position"] is None and not done:
            self._put_back(state)
            if self._of_user is not None:
                self._of_user.restore(state["user"])
        else:
            self._resumption = state

    def steps(self, make: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """The steps of an epoch, as ``_enumerate_iterator`` of Keras's has them.

        Those of a resumed epoch begin with one that is done, whose batch is `RESUMED`.

        Args:
            make: makes Keras's own.
        """
        resumption, done, self._done = self._resumption, self._done, 0
        if resumption is None:
            self._counted_before = self._epochs._steps_seen
            if self._position() is None or not self._lasts():
                self._before_epoch = self._starting_state()
            self._drop_read_ahead()
            yield from make()
            return
        self._counted_before = resumption["counted_before"]
        self._before_epoch = resumption["before_epoch"]
        self._before_iteration = resumption["before_iteration"]
        if self._before_epoch is not None and self._of_user is not None:
            set_process_state(self._before_epoch["process"])
            self._of_user.restore(self._before_epoch["user"])
        self._drop_read_ahead()
        made = make()
        if self._epochs.steps_per_epoch:
            # An iteration that lasts for several epochs: Keras keeps it, and makes none.
            self._epochs._current_iterator = self._epochs._get_iterator()
            self._epochs._steps_seen = self._counted_before
        at_once = self._epochs.steps_per_execution
        for _ in range(-(-done // at_once)):
            # Keras counts, and reads nothing.
            next(made)
        if done:
            self.at_done_step = True
            yield done - at_once, done - 1, RESUMED
            self.at_done_step = False
        yield from made

    def warn(self) -> None:
        """Warn if the input cannot be resumed exactly, with what to do instead."""
        reason = self._why_not_exact()
        if reason is not None:
            warnings.warn(f"This `fit` cannot be resumed exactly: {reason}", stacklevel=2)

    def _sizes(self) -> dict[str, int | None]:
        """What must be the same in the `fit` that continues, by names that users know."""
        sizes = {
            "batches": self._adapter.num_batches,
            "validation_steps" if self._validates else "steps_per_epoch": (
                self._epochs.steps_per_epoch
            ),
        }
        if isinstance(self._adapter, internals.ArrayDataAdapter):
            sizes["rows in a batch"] = self._adapter.batch_size
            sizes["rows in the last batch"] = (
                self._adapter.partial_batch_size or self._adapter.batch_size
            )
        return {name: None if size is None else int(size) for name, size in sizes.items()}

    def _require_same_sizes(self, state: dict[str, Any], done: int) -> None:
        what = "validation data" if self._validates else "input"
        own = self._sizes()
        for name, size in state.get("sizes", own).items():  # older backups have none
            if own.get(name) != size:
                raise ValueError(
                    f"The backup was saved by a `fit` whose {what} had {name}: {size}, and this "
                    f"one's has {own.get(name)}: give `fit` the same {what} as then, or another "
                    "directory."
                )
        at_once = self._epochs.steps_per_execution
        if done % at_once and state.get("at_once", at_once) != at_once:
            raise ValueError(
                f"The backup was saved behind step {done} of an epoch, and with "
                f"steps_per_execution={at_once} no execution begins there: compile with "
                f"steps_per_execution={state['at_once']} as then, or give another directory."
            )

    @property
    def _datasets(self) -> list[Any]:
        return self._adapter.datasets if isinstance(self._adapter, DatasetAdapter) else []

    @property
    def _is_generator(self) -> bool:
        return isinstance(self._adapter, internals.GeneratorDataAdapter)

    def _position(self) -> Any:
        return None if self._iteration is None else self._iteration.state()

    def _lasts(self) -> bool:
        """Whether the next epoch continues with the iteration."""
        if self._validates:
            return False
        kept = self._epochs._current_iterator
        return bool(self._epochs.steps_per_epoch) and kept is not None and kept is self._iteration

    def _iteration_begins(self) -> None:
        if not self._restores:
            self._before_iteration = process_state()
        elif self._of_user is None:
            # A PyDataset's began with the epoch, whose state is set.
            set_process_state(self._before_iteration)

    def _starting_state(self) -> Any:
        if self._of_user is None or not self.is_kept:
            return None
        return {"process": process_state(), "user": self._of_user.state()}

    def _drop_read_ahead(self) -> None:
        """Let an epoch begin with its own batches.

        Keras gives an epoch first what the workers of a ``PyDataset`` had read ahead in the one
        before, or when the model was built: batches of another order, and not always as many.
        """
        starts = self.is_kept and not self._epochs.steps_per_epoch
        if starts and self._of_user is not None and self._adapter.num_batches is not None:
            if self._adapter.enqueuer is not None:
                drop_ready(self._adapter.enqueuer)

    def _put_back(self, state: dict[str, Any]) -> None:
        if not self._validates:
            set_process_state(state["process"])
        for dataset, each in zip(self._datasets, state["datasets"], strict=True):
            set_epochs_state(dataset, each)

    def _why_not_exact(self) -> str | None:
        adapter = self._adapter
        if isinstance(adapter, DatasetAdapter | internals.ArrayDataAdapter):
            return None
        if self._is_generator:
            return (
                "a generator has no position. A resumed `fit` reads it again from its start and "
                "gives away as many batches as were used, which are the same only if the generator "
                "gives the same at every start. Use dl.data.Dataset.from_generator or a "
                "keras.utils.PyDataset."
            )
        if self._of_user is not None:
            if self._adapter.enqueuer is not None and self._epochs.steps_per_epoch:
                return (
                    "workers of a PyDataset read ahead over the ends of epochs where "
                    "steps_per_epoch is given. Leave it out, or use workers=1."
                )
            return self._of_user.why_not_exact()
        return (
            f"{self._kind} has no position. A resumed `fit` reads the epoch again from its start "
            "and gives away the batches that were used, which are the same only if it gives the "
            "same at every start. Use a dl.data.Dataset."
        )
