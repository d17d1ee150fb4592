"""The dataset users hold: an immutable plan with the methods of ``tf.data.Dataset``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.data.cardinality import INFINITE
from drumline.data.epochs import Epochs
from drumline.data.explain import Explanation, explain
from drumline.data.iterator import DatasetIterator
from drumline.data.methods.batches import Batches
from drumline.data.methods.bucketing import Bucketing
from drumline.data.methods.choosing import Choosing
from drumline.data.methods.combining import Combining
from drumline.data.methods.creating import Creating
from drumline.data.methods.distributing import Distributing
from drumline.data.methods.files import FindingFiles
from drumline.data.methods.functions import Functions
from drumline.data.methods.importing import Importing
from drumline.data.methods.keeping import Keeping
from drumline.data.methods.numbering import Numbering
from drumline.data.methods.observing import Observing
from drumline.data.methods.ordering import Ordering
from drumline.data.methods.packing import Packing
from drumline.data.methods.placing import Placing
from drumline.data.methods.recurring import Recurring
from drumline.data.options import Options
from drumline.data.pickling import reduced
from drumline.data.plan import batching, packing, padding
from drumline.data.plan.node import Node


class Dataset(
    Creating,
    Importing,
    FindingFiles,
    Choosing,
    Distributing,
    Functions,
    Packing,
    Placing,
    Recurring,
    Numbering,
    Batches,
    Ordering,
    Combining,
    Bucketing,
    Keeping,
    Observing,
):
    """A sequence of elements described by a plan; iterating runs it.

    Follows ``tf.data.Dataset``: every method returns a new dataset. Elements are the nested
    structures the user built (tuples, lists, dicts in their order, namedtuples) with numpy leaves,
    read-only and valid as long as they are referenced; strings are ``bytes``. What a dataset
    yields depends on the plan, its seeds and the epoch, never on threads or timing.
    """

    def __init__(self, plan: Node, options: Options | None = None):
        super().__init__(plan, options)
        self._epochs: Epochs | None = None
        self._next_epoch = 0

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """``transformation_func(self)``, which must be a dataset."""
        result = transformation_func(self)
        if not isinstance(result, Dataset):
            raise TypeError(f"apply: the function returned {type(result).__name__}, not a Dataset")
        return result

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """The same elements, made under ``options``; those not set in it stay as they are.

        ``name`` is accepted as in ``tf.data``: no operation of the plan is there to be named.

        Raises:
            TypeError: ``options`` are none.
        """
        if not isinstance(options, Options):
            raise TypeError(f"with_options takes dl.data.Options, got {type(options).__name__}")
        return Dataset(self._plan, self._options.merged(options))

    def options(self) -> Options:
        """The options in force; a copy that cannot be changed (``with_options`` gives others)."""
        return self._options.frozen()

    @property
    def has_batches(self) -> bool:
        """Whether some operation of the plan batches."""
        kinds = (batching.Batch, padding.Rebatch, packing.Pack)
        return any(isinstance(node, kinds) for node in self._plan.walk())

    def cardinality(self) -> int:
        """The number of elements, ``INFINITE_CARDINALITY`` or ``UNKNOWN_CARDINALITY``."""
        return self._plan.cardinality

    def __len__(self) -> int:
        if self.cardinality() < 0:
            if self.cardinality() == INFINITE:
                raise TypeError("the dataset's length is infinite; take(n) makes it finite")
            raise TypeError(
                "the dataset's length is unknown; assert_cardinality(n) says what it is, and "
                "reduce can count"
            )
        return self.cardinality()

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> DatasetIterator[Any]:
        """Starts the next epoch."""
        started = self._ready()
        epoch, self._next_epoch = self._next_epoch, self._next_epoch + 1
        return DatasetIterator(started, epoch)

    def as_numpy_iterator(self) -> DatasetIterator[Any]:
        """The same as ``iter``: leaves are numpy arrays already."""
        return iter(self)

    def explain(self) -> Explanation:
        """The plan, what the optimizer makes of it, and how each part runs, as text."""
        started = self._ready()
        stage, _ = started.lowered(0, None)
        text = explain(started.plan, started.optimized, stage, started.runtime.decisions)
        stage.close()
        return text

    def _ready(self) -> Epochs:
        if self._epochs is None:
            self._epochs = Epochs(self._plan, self._options)
        return self._epochs

    def __deepcopy__(self, memo: dict[int, Any]) -> Dataset:
        return self.__copy__()

    def __copy__(self) -> Dataset:
        """Another dataset of the same plan, which is immutable, with its own count of epochs."""
        copied = Dataset(self._plan, self._given_options)
        copied._next_epoch = self._next_epoch
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the plan with its functions, lambdas too; what ``cache()`` holds is left out.

        Raises:
            TypeError: a part of it cannot be pickled; the message names the operation and the part.
        """
        return reduced(type(self), self._plan, self._given_options, self._next_epoch)

    def __repr__(self) -> str:
        return f"<Dataset {self._plan.name} element_spec={self.element_spec}>"
