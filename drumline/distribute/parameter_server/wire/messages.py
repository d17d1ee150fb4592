"""Every request and reply of coordinator, workers and parameter servers.

These dataclasses are the whole protocol: there are no other operations, headers or arrays. How they
are encoded and decoded, and what is refused, is in `schema.py`. What a decoded message says is well
formed, and may still be wrong (a shard that does not exist, ids outside of a table): that is
checked by who carries it out.

The coordinator (*chief*) sends all but `PushPull` and `ReadIdentity`, which workers send to
parameter servers; a worker or a parameter server answers. Messages are values, without threads and
locks. Arrays of a decoded message are the receiver's own, except within one process, where they
are the sender's, read-only.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from drumline.distribute.parameter_server.wire.codec import Lane
from drumline.distribute.parameter_server.wire.schema import Arrays, Count, TaskRequest, message

Signature = tuple[tuple[tuple[Count, ...], str], ...]
"""Shape and dtype of each array that a program takes as an argument."""


@message
class Done:
    """The reply that says only that it is done."""


# Where variables are stored, and what is known of optimizers.


@dataclasses.dataclass(frozen=True, slots=True)
class ShardLayout:
    """The rows of a variable that one parameter server stores.

    Attributes:
        server: the number of the server's task.
        index: the number of the shard in its variable.
        start: its first row of axis 0.
        stop: the row after its last. A scalar has the one shard ``(0, 1)``.
    """

    server: Count
    index: Count
    start: Count
    stop: Count


@dataclasses.dataclass(frozen=True, slots=True)
class VariableLayout:
    """On which parameter servers a variable's rows are stored.

    Attributes:
        key: its name in the cluster; no two variables of a strategy share one.
        path: what its user calls it.
        shape: of the whole variable.
        dtype: as Keras names it.
        shards: in the order of their rows, without gaps.
    """

    key: str
    path: str
    shape: tuple[Count, ...]
    dtype: str
    shards: tuple[ShardLayout, ...]

    def shard_shape(self, shard: ShardLayout) -> tuple[int, ...]:
        """The shape of a shard's value."""
        return (shard.stop - shard.start, *self.shape[1:]) if self.shape else ()

    def shard_name(self, shard: ShardLayout) -> str:
        """The shard's name on its server."""
        return f"{self.key}/{shard.index}"


@message
class SlotSpec:
    """An array that an optimizer stores beside a variable.

    Attributes:
        name: as the optimizer calls it.
        shape: of the slot; ``"rows"`` if it has the shape of the shard.
        dtype: of its elements, as Keras names it.
        initial: the value of all of its elements at first.
    """

    name: str
    shape: str | tuple[Count, ...]
    dtype: str
    initial: float = 0.0


@message
class NativeUpdate:
    """An optimizer's update that servers make in Rust.

    Attributes:
        name: of `drumline._core.UpdateRule`, as ``"adam"``.
        constants: its hyperparameters but for the learning rate.
    """

    name: str
    constants: tuple[float, ...]


# Chief to parameter server.


@message
class ShardCreated:
    """The reply to `CreateShard`.

    Attributes:
        version: the number of its value; larger after each change.
        created: False if the server had it.
    """

    version: int
    created: bool


@message
class CreateShard(TaskRequest[ShardCreated]):
    """Create a shard with its initial value, or leave as it is the one that exists.

    Attributes:
        name: of the shard.
        shape: of its value.
        dtype: as Keras names it.
        table: whether single rows of it are read and updated.
        start: the number of its first row in the variable. Without it a checkpoint can be restored
            on as many servers only.
        is_program: whether `content` is a program of `compiler.export_initializer`.
        content: the initial value, or the program's bytes, uint8 [length].
    """

    operation = "create"
    name: str
    shape: tuple[Count, ...]
    dtype: str
    table: bool
    start: Count | None = None
    is_program: bool = False
    content: np.ndarray


@message
class DefineUpdate(TaskRequest[Done]):
    """Know an optimizer's update from now on.

    Attributes:
        update: its name.
        sparse: whether it is for rows of tables.
        slots: the arrays that it stores beside a variable.
        values: the first hyperparameters, as in `SetHyperparameters`.
        native: the same update in Rust, if there is one.
        program: of `compiler.export_update`, uint8 [length].
    """

    operation = "define_update"
    update: str
    sparse: bool
    slots: tuple[SlotSpec, ...]
    values: dict[str, float] | None = None
    native: NativeUpdate | None = None
    program: np.ndarray


@message
class AttachUpdate(TaskRequest[Done]):
    """Have an update applied to a shard's gradients.

    Attributes:
        name: of the shard.
        update: the update's name.
        iteration: how many updates there were before, for a shard that has had none.
        reset: whether the shard forgets the updates and slots that it had.
    """

    operation = "attach"
    name: str
    update: str
    iteration: int = 0
    reset: bool = False


@message
class SetHyperparameters(TaskRequest[Done]):
    """Set what an update uses from now on.

    Attributes:
        update: its name.
        values: ``learning_rate``, and no other.
    """

    operation = "set_hyperparameters"
    update: str
    values: dict[str, float]


@message
class SetIteration(TaskRequest[Done]):
    """Say how many updates shards have had.

    Attributes:
        names: of the shards.
        iteration: the number of updates.
    """

    operation = "set_iteration"
    names: tuple[str, ...]
    iteration: int


@message
class BeginServerSession(TaskRequest[Done]):
    """A chief begins: waiting exchanges of a former one fail.

    Attributes:
        session: what its closures' names begin with, before a colon. Those of others push nothing
            any more; None lets all push.
    """

    operation = "begin"
    session: str | None = None


@message
class RoundAbandoned:
    """The reply to `AbandonRound`.

    Attributes:
        waiting: how many exchanges waited; they fail.
    """

    waiting: Count


@message
class AbandonRound(TaskRequest[RoundAbandoned]):
    """End a synchronous round whose closures will not all come.

    Attributes:
        round: its number.
        final: whether closures that come later are refused.
    """

    operation = "abandon"
    round: int
    final: bool = False


@message
class ShardValue:
    """The reply to `ReadShard`.

    Attributes:
        version: of the value.
        value: the rows.
    """

    version: int
    value: np.ndarray


@message
class ReadShard(TaskRequest[ShardValue]):
    """Read rows of a shard.

    Attributes:
        name: of the shard.
        start: the first row; None for the first there is.
        stop: the row after the last; None for the end.
    """

    operation = "read"
    name: str
    start: int | None = None
    stop: int | None = None


@message
class ShardVersion:
    """The reply to `WriteShard`.

    Attributes:
        version: of the new value.
    """

    version: int


@message
class WriteShard(TaskRequest[ShardVersion]):
    """Set rows of a shard, or one of its slots.

    Attributes:
        name: of the shard.
        start: the first row; None for the first there is.
        stop: the row after the last; None for the end.
        slot: the slot's name; None writes the value.
        value: of the shard's dtype and of the shape of the rows or the slot.
    """

    operation = "write"
    name: str
    start: int | None = None
    stop: int | None = None
    slot: str | None = None
    value: np.ndarray


@message
class SlotValues:
    """The reply to `ReadSlots`.

    Attributes:
        slots: the slots' names.
        iteration: how many updates there were.
        update: the update that was attached last; None if there is none.
        values: of the slots.
    """

    slots: tuple[str, ...]
    iteration: int
    update: str | None = None
    values: Arrays = ()


@message
class ReadSlots(TaskRequest[SlotValues]):
    """Read what an optimizer stores beside a shard.

    Attributes:
        name: of the shard.
    """

    operation = "slots"
    name: str


@message
class ShardsSaved:
    """The reply to `SaveShards`.

    Attributes:
        file: its path.
        nbytes: its size.
        step: as asked.
    """

    file: str
    nbytes: Count
    step: str | int | None = None


@message
class SaveShards(TaskRequest[ShardsSaved]):
    """Write the server's file of a checkpoint, while training continues.

    Attributes:
        directory: of the checkpoint.
        servers: how many there are.
        step: what messages call the checkpoint.
        keys: of the variables that are saved; None for all.
    """

    operation = "save"
    directory: str
    servers: Count
    step: str | int | None = None
    keys: tuple[str, ...] | None = None


@message
class RestoreRequest:
    """What to restore of a variable.

    Attributes:
        key: the variable's in the checkpoint's files.
        value: whether its value is restored.
        state: whether its slots and its number of updates are.
    """

    key: str
    value: bool
    state: bool


@message
class ShardsRestored:
    """The reply to `RestoreShards`.

    Attributes:
        step: what the checkpoint is called.
        servers: how many wrote it.
    """

    step: str | int | None = None
    servers: Count


@message
class RestoreShards(TaskRequest[ShardsRestored]):
    """Restore from files that `SaveShards` wrote: all of the server, or some variables.

    With as many servers as there were, all includes shards that were not created yet, and which
    pushes were applied. With another number the shards that exist get their rows from all files.

    Attributes:
        directory: of the checkpoint.
        servers: how many there are now.
        variables: what is restored, by the variables' keys here; None for all.
        check: whether to check only that `variables` can be restored.
    """

    operation = "restore"
    directory: str
    servers: Count
    variables: dict[str, RestoreRequest] | None = None
    check: bool = False


@message
class FinishClosures(TaskRequest[Done]):
    """Forget what closures pushed: they push nothing any more.

    Attributes:
        closures: their names.
    """

    operation = "finished"
    closures: tuple[str, ...]


@message
class ForgetShards(TaskRequest[Done]):
    """Drop shards and updates that the chief's program cannot use any more.

    Attributes:
        names: of the shards.
        updates: names of the updates.
    """

    operation = "forget"
    names: tuple[str, ...]
    updates: tuple[str, ...]


@message
class ServerStatistics:
    """The reply to `ReadStatistics`: counts since the server started.

    Attributes:
        exchanges: how many were answered.
        pushes: how many were applied.
        repeated_pushes: how many were not, as they had been before.
        rows_gathered: rows of tables that were sent.
        rows_updated: rows of tables that were updated.
        bytes_in: of gradients.
        bytes_out: of rows and values.
        seconds: spent on ``push`` and ``read``, waiting for locks included.
        shards: how many there are.
        shard_bytes: of their values and slots.
        resident_bytes: memory of the process.
        open_closures: closures with pushes that are not finished.
    """

    exchanges: Count
    pushes: Count
    repeated_pushes: Count
    rows_gathered: Count
    rows_updated: Count
    bytes_in: Count
    bytes_out: Count
    seconds: dict[str, float]
    shards: Count
    shard_bytes: Count
    resident_bytes: Count
    open_closures: Count


@message
class ReadStatistics(TaskRequest[ServerStatistics]):
    """Read what the server has done, and how much memory it takes."""

    operation = "stats"


# Worker to parameter server.


@message
class Push:
    """A change of a shard. Its gradient or value is the next array of the message.

    Attributes:
        name: of the shard.
        kind: ``"dense"``: a gradient of the whole value; ``"rows"``: one of some rows of a table;
            ``"add"`` and ``"assign"``: for the value itself.
        update: which takes the gradient; None for the one that was attached last.
        ids: for ``"rows"``, how many rows of the message's ids are this push's; None if they are an
            array before the gradient.
    """

    name: str
    kind: str
    update: str | None = None
    ids: int | None = None


@message
class GatherRows:
    """Rows of a table that are wanted.

    Attributes:
        name: of the shard.
        ids: how many of the message's ids; None if they are an array of their own.
    """

    name: str
    ids: int | None = None


@message
class Pull:
    """A value that is wanted unless the worker has it.

    Attributes:
        name: of the shard.
        version: which the worker has; None if it has none.
    """

    name: str
    version: int | None = None


@message
class SyncRound:
    """The synchronous round of a push: the reply waits until all of its closures have pushed.

    Attributes:
        round: its number, which never falls.
        of: how many closures it is of.
        mean: whether the sum of the gradients is divided by that.
    """

    round: int
    of: int
    mean: bool = False


@message
class PushPullReply:
    """The reply to `PushPull`.

    Attributes:
        applied: for each push whether it was now, and not before.
        versions: for each pull the value's version.
        changed: for each pull whether the value is another one than the worker has.
        values: for each gather its rows, [ids, ...]; then the values that are changed.
    """

    applied: tuple[bool, ...]
    versions: tuple[int, ...]
    changed: tuple[bool, ...]
    values: Arrays = ()


@message
class PushPull(TaskRequest[PushPullReply]):
    """Change shards, then read rows and values: what a worker asks for at each step.

    Attributes:
        closure: the name of the closure whose pushes these are: each is applied once, however
            often it comes. None applies all.
        push: changes.
        gather: rows of tables.
        pull: values.
        sync: the synchronous round of the pushes.
        arrays: for each push its gradient or value, of the shard's dtype, before which come ids
            that are not in the last array; ids of gathers likewise; then the ids of all pushes and
            gathers that have `ids`, int32 or int64 [rows], counted from the shard's first row.
        lane: the worker's connection.
    """

    operation = "push_pull"
    closure: str | None = None
    push: tuple[Push, ...] = ()
    gather: tuple[GatherRows, ...] = ()
    pull: tuple[Pull, ...] = ()
    sync: SyncRound | None = None
    arrays: Arrays = ()
    lane: Lane | None = None


@message
class ServerIdentity:
    """The reply to `ReadIdentity`.

    Attributes:
        identity: another one for each server that was started.
    """

    identity: str


@message
class ReadIdentity(TaskRequest[ServerIdentity]):
    """Find out whether a server was started again."""

    operation = "identity"


# Chief to worker.


@message
class WorkerSessionBegun:
    """The reply to `BeginWorkerSession`.

    Attributes:
        worker: the number of the worker's task.
    """

    worker: Count


@message
class BeginWorkerSession(TaskRequest[WorkerSessionBegun]):
    """A chief begins; what runs for a former one ends first.

    Attributes:
        session: its name, which all further requests have.
    """

    operation = "begin"
    session: str


@message
class CreateDataset(TaskRequest[Done]):
    """Make a dataset by a function.

    Attributes:
        session: the chief's.
        dataset: its number.
        workers: how many there are.
        local: the function's number in this process; None if it is in `pickled`.
        pickled: none, or the bytes of the function, uint8 [length].
    """

    operation = "dataset"
    session: str = ""
    dataset: int
    workers: Count
    local: int | None = None
    pickled: Arrays = ()


@message
class CreateIterator(TaskRequest[Done]):
    """Start iterating over a dataset.

    Attributes:
        session: the chief's.
        iterator: its number.
        dataset: the dataset's number.
    """

    operation = "iterator"
    session: str = ""
    iterator: int
    dataset: int


@message
class LoadProgram(TaskRequest[Done]):
    """Load the program of a function for arguments of one signature.

    Attributes:
        session: the chief's.
        function: its number.
        signature: of its arguments.
        layouts: of the variables that it uses.
        updates: for each shard with a gradient the update that takes it.
        state: the keys of random generators.
        program: of `compiler.StepProgram`, uint8 [length].
        states: the generators' first states, integers [2].
    """

    operation = "program"
    session: str = ""
    function: int
    signature: Signature
    layouts: tuple[VariableLayout, ...]
    updates: dict[str, str]
    state: tuple[str, ...]
    program: np.ndarray
    states: Arrays = ()


@message
class ClosureCall:
    """One run of a function.

    Attributes:
        name: of the closure; the same when another worker runs it again.
        function: the function's number.
        iterators: for each per-worker iterator its number, and how many elements are drawn.
        arrays: how many arrays of the message are its arguments.
        round: in synchronous training, the number and the size of its round.
    """

    name: str
    function: int
    iterators: tuple[tuple[int, int], ...] = ()
    arrays: Count = 0
    round: tuple[int, int] | None = None


@message
class ClosureFailure:
    """Why a closure failed.

    Attributes:
        kind: ``"error"``; ``"end"``: its dataset has ended; ``"server lost"``.
        type: the exception's class.
        message: its text.
        traceback: its traceback, as text.
        address: of the server that is lost.
        reason: what was observed of it.
    """

    kind: str
    type: str
    message: str
    traceback: str
    address: str | None = None
    reason: str | None = None


@message
class ClosureResult:
    """How a closure ended.

    Attributes:
        arrays: how many arrays of the message are its results.
        needs: the signature for which the worker has no program; the closure waits there.
        failed: why it has no result.
    """

    arrays: Count = 0
    needs: Signature | None = None
    failed: ClosureFailure | None = None


@message
class ClosureResults:
    """The reply to `RunClosures` and `ResumeClosures`, when all of them have ended.

    Attributes:
        closures: in the order of the request.
        values: the arrays that they return, one closure's after another's.
    """

    closures: tuple[ClosureResult, ...]
    values: Arrays = ()


@message
class RunClosures(TaskRequest[ClosureResults]):
    """Run closures in their order.

    Attributes:
        session: the chief's.
        closures: what is run.
        arguments: their arrays, one closure's after another's.
    """

    operation = "run"
    session: str
    closures: tuple[ClosureCall, ...]
    arguments: Arrays = ()


@message
class ResumeClosures(TaskRequest[ClosureResults]):
    """Run closures that waited for a program.

    Attributes:
        session: the chief's.
        closures: their names.
        iterators: by name, as in `ClosureCall`: perhaps more elements are drawn.
    """

    operation = "resume"
    session: str
    closures: tuple[str, ...]
    iterators: dict[str, tuple[tuple[int, int], ...]]


@message
class ForgetResources(TaskRequest[Done]):
    """Drop what no closure uses any more.

    Attributes:
        session: the chief's.
        datasets: their numbers.
        iterators: their numbers.
        functions: their numbers.
    """

    operation = "forget"
    session: str
    datasets: tuple[int, ...]
    iterators: tuple[int, ...]
    functions: tuple[int, ...]


@message
class WorkerTimes:
    """What a worker has done since its session began.

    Attributes:
        steps: closures that have run.
        drawing: seconds in which it made batches of its datasets.
        computing: seconds in which programs ran, gradients on their way to the host included.
        pulling: seconds in which it waited for parameters and rows.
        pushing: seconds in which it sent gradients.
    """

    steps: int
    drawing: float
    computing: float
    pulling: float
    pushing: float


@message
class ReadWorkerTimes(TaskRequest[WorkerTimes]):
    """What has the worker done?

    Attributes:
        session: the chief's.
    """

    operation = "times"
    session: str


# Chief to any task.


@message
class ServeChief(TaskRequest[Done]):
    """The sender of this is the chief from now on.

    Attributes:
        lane: the chief's connection.
    """

    operation = "serve_chief"
    lane: Lane | None = None


@message
class FinishTask(TaskRequest[Done]):
    """The job has finished: return from `Server.join`."""

    operation = "finish"
