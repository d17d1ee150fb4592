"""The iterator that users hold, and the format of its state."""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from drumline._core import Items
from drumline._forks import never_freed, tell_in_child
from drumline._memory import epoch_ended
from drumline.data.elements.block import Block, splitter
from drumline.data.elements.errors import IteratorStateError, raised_for_good
from drumline.data.engine.epochs import Epochs
from drumline.data.runtime.stage import BatchSizeController, Stage, State

_VERSION = 4
_KEYS = {"version", "plan", "seeds", "epoch", "form", "at", "used", "digest"}

IteratorState = dict[str, Any]


def checked_state(
    plan: list[str], seeds: list[int], epoch: int, form: Any, at: Any, used: int
) -> IteratorState:
    """Return a state with a digest of all of it, which detects any change.

    Args:
        plan: what identifies its operations.
        seeds: those drawn for operations that were given none.
        epoch: its number.
        form: what the stages depend on beside the plan.
        at: the position of the last stage before its last block.
        used: how many elements of that block were delivered.
    """
    state = {
        "version": _VERSION,
        "plan": plan,
        "seeds": seeds,
        "epoch": epoch,
        "form": form,
        "at": at,
        "used": used,
    }
    return {**state, "digest": _digest(state)}


def check_state(state: Any, plan: list[str]) -> None:
    """Reject what is not a complete state of a plan.

    Raises:
        IteratorStateError: it is not one of this version, was changed, or is of another plan.
    """
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        raise IteratorStateError(
            f"not a dataset iterator's state of version {_VERSION}: {state!r:.80}. Give the "
            "dict that iterator.state() returned under this version of drumline"
        )
    if missing := _KEYS - set(state):
        raise IteratorStateError(f"the iterator's state is damaged: it lacks {sorted(missing)}")
    if state["digest"] != _digest({k: v for k, v in state.items() if k != "digest"}):
        raise IteratorStateError(
            "the iterator's state is damaged: it is not as it was when it was taken; restore "
            "another checkpoint, or begin the epoch again"
        )
    if state["plan"] != plan:
        raise IteratorStateError(
            f"the state was taken from another dataset: {_difference(state['plan'], plan)}. Build "
            "the same operations with the same arguments and seeds before restoring"
        )


def _difference(theirs: Sequence[str], ours: Sequence[str]) -> str:
    """Return the first operation, from the source on, that is another one."""
    pairs = itertools.zip_longest(theirs, ours, fillvalue="nothing")
    number, (there, here) = next(
        (number, pair) for number, pair in enumerate(pairs, 1) if pair[0] != pair[1]
    )
    there, here = there.split()[0], here.split()[0]
    if there == here:
        return f"its operation {number}, {there}, has other arguments, elements or seeds"
    return f"its operation {number} is {there}, where this one's is {here}"


def _digest(state: IteratorState) -> str:
    try:
        text = json.dumps(state, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise IteratorStateError(f"the iterator's state is damaged: {error}") from error
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


T = TypeVar("T")

_END = object()


class _ParentsStage(Stage):
    """Replaces the parent's stages in a forked child, until it has its own."""

    def close(self) -> None:
        """Do nothing: the stages are the parent's, and their locks may be held forever."""


class DatasetIterator(Items, Generic[T]):
    """Iterates over one epoch of a dataset; ``state`` and ``restore`` make it resumable.

    Leaves are numpy arrays (read-only, valid as long as they are referenced), numpy scalars, or
    ``bytes``.
    """

    _stage: Stage

    def __init__(
        self,
        epochs: Epochs,
        epoch: int,
    ):
        self._epochs = epochs
        self._spec = epochs.plan.spec
        self._split = splitter(self._spec.structure)
        self._lock = threading.RLock()
        # Where to continue after an interrupt, which left the stages in an undefined state.
        self._torn: State | None = None
        self._begin(epoch, None)
        tell_in_child(self)

    def forked(self) -> None:
        """Continue in a forked child with new stages, as the threads of these are the parent's."""
        self._torn = self._torn or self._position()
        self._at_hand, self._count = iter(()), 0
        never_freed(self._stage)
        self._stage = _ParentsStage()
        self._lock = threading.RLock()

    def _begin(self, epoch: int, form: Any) -> None:
        self._epoch = epoch
        self._stage, self._form = self._epochs.start(epoch, form)
        self._block_size = BatchSizeController(self._spec.row_nbytes())
        self._at_hand = iter(())
        self._count = 0
        self._error: Exception | None = None
        self._before: State = self._stage.state()
        self._ended = False

    @property
    def stage(self) -> Stage:
        """The running plan."""
        return self._stage

    def __reduce__(self) -> str:
        raise TypeError(
            "an iterator of a dataset cannot be pickled: pickle the dataset and iterator.state(), "
            "and restore the state in an iterator of the copy"
        )

    def __repr__(self) -> str:
        return f"<DatasetIterator epoch={self._epoch} element_spec={self.element_spec}>"

    if TYPE_CHECKING:

        def __iter__(self) -> DatasetIterator[T]: ...

        def __next__(self) -> T: ...

    def _further(self) -> T:
        # The slow path of `__next__`, called from Rust when the buffer is empty.
        with self._lock:
            try:
                # Another thread that shares the iterator may have fetched a block meanwhile.
                return next(self._at_hand)
            except StopIteration:
                pass
            if self._torn is not None:
                self._move(self._torn)
                self._torn = None
            try:
                return self._refilled()
            except Exception:
                raise
            except BaseException:
                self._torn = self._position()
                raise

    def _refilled(self) -> T:
        """Refill the buffer; a ``StopIteration`` that user code raises becomes another error."""
        try:
            found = self._refill()
        except StopIteration as stop:
            raise raised_for_good(stop) from stop
        if found is _END:
            raise StopIteration
        element: T = found
        return element

    def _refill(self) -> Any:
        if self._error is not None:
            error, self._error = self._error, None
            self._count += 1
            raise error
        while not self._ended:
            limit = (
                self._block_size.start(self._stage.preferred_block_size)
                if self._stage.allows_readahead
                else 1
            )
            self._before, self._count = self._stage.state(), 0
            block = self._stage.next(limit)
            self._block_size.stop()
            if block is None:
                self._ended = True
                self._before = self._stage.state()
                self._stage.close()
                epoch_ended()
                break
            for column in block.columns:
                column.flags.writeable = False
            items = self._split(block.columns)
            self._at_hand, self._count = iter(items), len(items)
            self._error = block.error
            if items:
                return next(self._at_hand)
            if self._error is not None:
                return self._refill()
        return _END

    @property
    def element_spec(self) -> Any:
        """A ``TensorSpec`` for each leaf, in the structure of the elements."""
        return self._spec.tree()

    def state(self) -> State:
        """Return the position, small and JSON-able, independent of the process.

        Pass it to ``restore`` of an iterator over an equal dataset, in this process or another.
        Seeds that the dataset's operations were not given are part of it.
        """
        return checked_state(self._epochs.operations, **(self._torn or self._position()))

    def _position(self) -> State:
        used = self._count - operator.length_hint(self._at_hand) if self._count else 0
        return {
            "seeds": self._epochs.seeds,
            "epoch": self._epoch,
            "form": self._form,
            "at": self._before,
            "used": used,
        }

    def restore(self, state: State) -> None:
        """Continue where ``state`` was taken, with the seeds that were drawn there.

        The dataset's later iterators have its own ones.

        Raises:
            IteratorStateError: the state is damaged, or of another plan or version of drumline.
            Exception: what reading the input again raised. The iterator stays where it was.
        """
        check_state(state, self._epochs.operations)
        before = self._torn or self._position()
        try:
            self._move(state)
        except Exception:
            self._move(before)
            raise
        except BaseException:
            self._torn = before
            raise
        self._torn = None

    def _move(self, state: State) -> None:
        self._stage.close()
        self._epochs = self._epochs.with_seeds(state["seeds"])
        self._begin(state["epoch"], state["form"])
        self._stage.restore(state["at"])
        self._stage.advance(state["used"])
        self._before = self._stage.state()

    def blocks(self, preferred_block_size: int) -> Iterator[Block]:
        """Yield the rest of the elements in blocks.

        Args:
            preferred_block_size: the number of elements that is cheapest to request at once; no
                more are read ahead of one that fails.

        Raises:
            Exception: what making an element raised, after the block before it.
        """
        while True:
            wanted = max(preferred_block_size, self._stage.preferred_block_size)
            limit = (
                self._block_size.start(wanted)
                if self._stage.allows_readahead
                else preferred_block_size
            )
            block = self._stage.next(limit)
            self._block_size.stop()
            if block is None:
                epoch_ended()
                return
            yield block
            if block.error is not None:
                raise block.error

    def close(self) -> None:
        """Stop the threads behind the iterator; it yields nothing more."""
        self._at_hand = iter(())
        self._ended = True
        self._torn = None
        self._stage.close()
