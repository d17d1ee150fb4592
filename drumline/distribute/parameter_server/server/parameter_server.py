"""A parameter server: the shards it stores, and what it does when it is asked.

`ParameterServer.handlers` has a method for each request of `wire.messages`; the transport calls
them in one thread for each connection. Each shard has a lock of its own. A request is checked
whole before it changes anything, and several locks are taken in the order of the shards' names
(`shard.locked`). Only `save` and `restore` exclude each other.

`ServerShards` has the shards by name. A shard that exists with the same shape is kept as it is when
it is created again, so a chief that starts again finds its variables. Versions are larger in a
server that was started later, so that no worker takes an old value for a new one.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future

import numpy as np

from drumline._memory import resident_bytes
from drumline.distribute.parameter_server.errors import (
    RequestError,
    ShardMismatchError,
    UnknownShardError,
)
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.checkpoints import (
    find_shards,
    key_of,
    restore_chosen,
    restore_own,
    restore_resharded,
    save,
)
from drumline.distribute.parameter_server.server.dense_shard import DenseShard
from drumline.distribute.parameter_server.server.embedding_shard import EmbeddingShard
from drumline.distribute.parameter_server.server.memory import run_initializer
from drumline.distribute.parameter_server.server.optimizer_updates import (
    OptimizerUpdate,
    OptimizerUpdates,
    Slot,
    dtype_of,
    native_update,
)
from drumline.distribute.parameter_server.server.push import PushLog
from drumline.distribute.parameter_server.server.push_pull import (
    PushPullHandler,
    Stats,
    SyncBarrier,
)
from drumline.distribute.parameter_server.server.shard import ServerShard
from drumline.distribute.parameter_server.wire.codec import Handler, Message
from drumline.distribute.parameter_server.wire.messages import (
    AbandonRound,
    AttachUpdate,
    BeginServerSession,
    CreateShard,
    DefineUpdate,
    Done,
    FinishClosures,
    ForgetShards,
    PushPull,
    PushPullReply,
    ReadIdentity,
    ReadShard,
    ReadSlots,
    ReadStatistics,
    RestoreShards,
    RoundAbandoned,
    SaveShards,
    ServerIdentity,
    ServerStatistics,
    SetHyperparameters,
    SetIteration,
    ShardCreated,
    ShardsRestored,
    ShardsSaved,
    ShardValue,
    ShardVersion,
    SlotValues,
    WriteShard,
)
from drumline.distribute.parameter_server.wire.schema import handlers_of

_CHANGES_A_SECOND = 1 << 22


class ServerShards:
    """Parts by name. Versions start at another number in each server, later ones at larger."""

    def __init__(self) -> None:
        self._shards: dict[str, ServerShard] = {}
        self._creation = threading.Lock()
        self._versions = itertools.count(int(time.time()) * _CHANGES_A_SECOND)

    def __iter__(self) -> Iterator[ServerShard]:
        return iter(list(self._shards.values()))

    def __len__(self) -> int:
        return len(self._shards)

    def __contains__(self, name: str) -> bool:
        return name in self._shards

    def get(self, name: str) -> ServerShard:
        """The shard of a name.

        Raises:
            UnknownShardError: if there is none.
        """
        shard = self._shards.get(name)
        if shard is None:
            raise UnknownShardError(
                f"This server keeps no shard {name!r}; it keeps {len(self._shards)} others"
                f"{_some_of(self._shards)}. Create it first; if the server was started again, "
                "create all variables again or restore a checkpoint."
            )
        return shard

    def forget(self, names: Iterable[str]) -> None:
        """Keep these shards no more; nothing of those that are not here."""
        with self._creation:
            for name in names:
                self._shards.pop(name, None)

    def create(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype,
        table: bool,
        start: int | None,
        initial: Callable[[], np.ndarray],
    ) -> tuple[ServerShard, bool]:
        """The shard of a name, made if there is none yet.

        Args:
            name: as the cluster calls it.
            shape: of the rows that it keeps.
            dtype: of their elements.
            table: whether rows of it are read and updated.
            start: the number of its first row in the whole variable; None if not known.
            initial: makes its first value, writable.

        Returns:
            The shard, and whether it is new.

        Raises:
            ShardMismatchError: if there is another shard of the name, or `initial` makes something
                else than a value for it.
        """
        with self._creation:
            old = self._shards.get(name)
            if old is not None:
                _check_same(old, shape, dtype, table)
                return old, False
            value = initial()
            if value.shape != shape or value.dtype != dtype:
                raise ShardMismatchError(
                    f"The shard {name!r} of shape {shape} and dtype {dtype} was given an initial "
                    f"value of shape {value.shape} and dtype {value.dtype}."
                )
            shard = self._shards[name] = self._make(name, value, table, start)
            return shard, True

    def _make(self, name: str, value: np.ndarray, table: bool, start: int | None) -> ServerShard:
        if not table:
            return DenseShard(name, value, start, self._versions)
        if not value.ndim:
            raise ShardMismatchError(f"The shard {name!r} is a scalar and cannot be a table.")
        own = value if value.flags.writeable and value.flags.c_contiguous else memory.copied(value)
        return EmbeddingShard(name, own, start, self._versions)


def _check_same(shard: ServerShard, shape: tuple[int, ...], dtype: np.dtype, table: bool) -> None:
    if (shard.shape, shard.dtype, shard.is_table) != (shape, dtype, table):
        raise ShardMismatchError(
            f"The shard {shard.name!r} exists with shape {shard.shape}, dtype {shard.dtype} and "
            f"table={shard.is_table}; it was to be created with {shape}, {dtype} and "
            f"table={table}. Give another variable another name."
        )


def _some_of(names: dict[str, ServerShard]) -> str:
    return f", such as {', '.join(map(repr, list(names)[:5]))}" if names else ""


class ParameterServer:
    """What one parameter server keeps and does.

    Requests may come from several threads at once: each part has a lock of its own, and no request
    holds two. A refused request has changed nothing.

    Args:
        server_index: the number of the server's task.
    """

    def __init__(self, server_index: int) -> None:
        self.server_index = server_index
        self._shards = ServerShards()
        self._updates = OptimizerUpdates()
        self._push_log = PushLog()
        self._stats = Stats()
        self._barrier = SyncBarrier(self._push_log)
        self._saving = threading.Lock()
        self._session: str | None = None
        self._identity = secrets.token_hex(8)

    def handlers(self) -> Mapping[str, Handler]:
        """What can be asked, by operation; the fields and replies are in `wire.messages`."""
        return handlers_of(
            {
                CreateShard: self.create,
                DefineUpdate: self.define_update,
                AttachUpdate: self.attach,
                SetHyperparameters: self.set_hyperparameters,
                SetIteration: self.set_iteration,
                PushPull: self.push_pull,
                AbandonRound: self.abandon,
                BeginServerSession: self.begin,
                ReadIdentity: self.identity,
                ReadShard: self.read,
                WriteShard: self.write,
                ReadSlots: self.slots,
                SaveShards: self.save,
                RestoreShards: self.restore,
                ReadStatistics: self.stats,
                FinishClosures: self.finished,
                ForgetShards: self.forget,
            }
        )

    def create(self, request: CreateShard) -> ShardCreated:
        """Store a shard from now on, or leave as it is the one that exists."""
        content = request.content
        start = request.start
        if start is None and request.name.endswith("/0"):
            start = 0  # the first of its variable
        shard, created = self._shards.create(
            request.name,
            request.shape,
            dtype_of(request.dtype),
            request.table,
            start,
            lambda: (
                run_initializer(content.tobytes()) if request.is_program else memory.copied(content)
            ),
        )
        return ShardCreated(version=shard.version, created=created)

    def define_update(self, request: DefineUpdate) -> Done:
        """Know an optimizer's update from now on."""
        slots = [Slot.from_spec(spec) for spec in request.slots]
        update = OptimizerUpdate(
            request.update,
            request.sparse,
            slots,
            request.program.tobytes(),
            None if request.native is None else native_update(request.native),
        )
        self._updates.add(update).set_values(request.values or {})
        return Done()

    def attach(self, request: AttachUpdate) -> Done:
        """Have an update applied to a shard's gradients."""
        shard = self._shards.get(request.name)
        update = self._updates.get(request.update)
        with shard.lock:
            if request.reset:
                shard.detach()
            is_first = shard.update_name is None
            shard.attach(update)
            if is_first:
                shard.iteration = request.iteration
        return Done()

    def set_iteration(self, request: SetIteration) -> Done:
        """Set how many updates shards have had."""
        for shard in [self._shards.get(name) for name in request.names]:
            with shard.lock:
                shard.iteration = request.iteration
        return Done()

    def set_hyperparameters(self, request: SetHyperparameters) -> Done:
        """Set what an update uses from now on."""
        self._updates.get(request.update).set_values(request.values)
        return Done()

    def push_pull(self, request: PushPull) -> PushPullReply | Future[Message]:
        """Change shards, then read rows and values; in a synchronous round once all have pushed."""
        self._require_session(request.closure)
        handler = PushPullHandler(request, self._shards, self._push_log, self._stats)
        if request.sync is not None:
            return self._barrier.join(handler, request.sync)
        return handler.reply(handler.apply())

    def identity(self, request: ReadIdentity) -> ServerIdentity:
        """Say which of the servers at this address it is."""
        return ServerIdentity(identity=self._identity)

    def _require_session(self, closure: str | None) -> None:
        session = self._session
        if session is not None and closure is not None:
            if not closure.startswith(f"{session}:"):
                raise RequestError(
                    f"The closure {closure!r} is of a chief that another one has followed, which "
                    "may have restored the variables meanwhile. Nothing was changed."
                )

    def begin(self, request: BeginServerSession) -> Done:
        """Serve another chief: synchronous rounds of the former one are abandoned."""
        self._barrier.reset()
        self._session = request.session
        return Done()

    def abandon(self, request: AbandonRound) -> RoundAbandoned:
        """End a synchronous round whose closures will not all come."""
        return RoundAbandoned(waiting=self._barrier.abandon(request.round, request.final))

    def read(self, request: ReadShard) -> ShardValue:
        """Return rows of a shard."""
        shard = self._shards.get(request.name)
        start, stop = _range(request, shard.rows)
        shard.check_range(start, stop)
        with shard.lock:
            return ShardValue(version=shard.version, value=shard.read(start, stop))

    def write(self, request: WriteShard) -> ShardVersion:
        """Set rows of a shard, or a slot of it."""
        shard = self._shards.get(request.name)
        value = request.value
        if request.slot is not None:
            with shard.lock:
                shard.check_slot(request.slot, value)
                shard.write_slot(request.slot, value)
                return ShardVersion(version=shard.version)
        start, stop = _range(request, shard.rows)
        shard.check_value("The new value", value, shard.check_range(start, stop))
        with shard.lock:
            shard.write(start, stop, value)
            return ShardVersion(version=shard.version)

    def slots(self, request: ReadSlots) -> SlotValues:
        """Return what an optimizer stores beside a shard."""
        shard = self._shards.get(request.name)
        with shard.lock:
            slots = shard.slots()
            return SlotValues(
                slots=tuple(slots),
                iteration=shard.iteration,
                update=shard.update_name,
                values=tuple(slots.values()),
            )

    def save(self, request: SaveShards) -> ShardsSaved:
        """Write shards to this server's file in a directory, while training continues."""
        keys = None if request.keys is None else set(request.keys)
        shards = [shard for shard in self._shards if keys is None or key_of(shard) in keys]
        with self._saving:
            file, size = save(
                shards,
                self._push_log,
                request.directory,
                self.server_index,
                request.servers,
                request.step,
            )
        return ShardsSaved(file=file, nbytes=size, step=request.step)

    def restore(self, request: RestoreShards) -> ShardsRestored:
        """Restore everything from a checkpoint, or the shards of some variables."""
        servers = request.servers
        with self._saving:
            saved = find_shards(request.directory, servers)
            if request.variables is not None:
                restore_chosen(self._shards, saved, request.variables, request.check)
                return ShardsRestored(step=saved.step, servers=saved.servers)
            if saved.servers == servers:
                restore_own(self._shards, self._push_log, saved, self.server_index)
            else:
                restore_resharded(self._shards, self._push_log, saved)
            self._barrier.reset()
        return ShardsRestored(step=saved.step, servers=saved.servers)

    def finished(self, request: FinishClosures) -> Done:
        """Forget what closures pushed: they push nothing any more."""
        self._push_log.finish(request.closures)
        return Done()

    def forget(self, request: ForgetShards) -> Done:
        """Drop shards and updates that the chief's program cannot use any more."""
        self._shards.forget(request.names)
        self._updates.forget(request.updates)
        return Done()

    def stats(self, request: ReadStatistics) -> ServerStatistics:
        """Say what was done, and how much memory it takes."""
        return ServerStatistics(
            **self._stats.counts(),
            seconds=self._stats.seconds(),
            shards=len(self._shards),
            shard_bytes=sum(shard.nbytes for shard in self._shards),
            resident_bytes=resident_bytes(),
            open_closures=len(self._push_log),
        )


def _range(request: ReadShard | WriteShard, rows: int) -> tuple[int, int]:
    start, stop = request.start, request.stop
    return (0 if start is None else start, rows if stop is None else stop)
