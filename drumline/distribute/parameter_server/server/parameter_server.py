"""A parameter server: parts of variables, and what others may do with them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from drumline._memory import resident_bytes
from drumline.distribute.parameter_server.errors import RequestError
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.checkpoint_files import find_shards
from drumline.distribute.parameter_server.server.checkpoints import (
    RestoreRequest,
    key_of,
    restore_chosen,
    restore_cut_anew,
    restore_own,
    save,
)
from drumline.distribute.parameter_server.server.memory import run_initializer
from drumline.distribute.parameter_server.server.optimizer_updates import (
    OptimizerUpdate,
    OptimizerUpdates,
    Slot,
)
from drumline.distribute.parameter_server.server.push import PushLog
from drumline.distribute.parameter_server.server.push_pull import (
    PushPullHandler,
    Stats,
    SyncBarrier,
)
from drumline.distribute.parameter_server.server.requests import (
    dtype_of,
    field,
    formula_of,
    only_array,
    shape_of,
)
from drumline.distribute.parameter_server.server.shards import ServerShards
from drumline.distribute.parameter_server.wire.codec import Handler, Message


class ParameterServer:
    """What one parameter server keeps and does.

    Requests may come from several threads at once: each part has a lock of its own, and no request
    holds two. A refused request has changed nothing.

    Args:
        server_index: the number of the server's task.
    """

    def __init__(self, server_index: int) -> None:
        self.server_index = server_index
        self._parts = ServerShards()
        self._rules = OptimizerUpdates()
        self._applied = PushLog()
        self._stats = Stats()
        self._rounds = SyncBarrier(self._applied)
        self._saving = threading.Lock()
        self._session: str | None = None
        self._identity = secrets.token_hex(8)

    def handlers(self) -> Mapping[str, Handler]:
        """What it does, by the name of the operation."""
        return {
            "create": self.create,
            "rule": self.rule,
            "attach": self.attach,
            "hyper": self.hyper,
            "iteration": self.iteration,
            "exchange": self.exchange,
            "abandon": self.abandon,
            "begin": self.begin,
            "identity": self.identity,
            "read": self.read,
            "write": self.write,
            "slots": self.slots,
            "save": self.save,
            "restore": self.restore,
            "stats": self.stats,
            "finished": self.finished,
            "forget": self.forget,
        }

    def create(self, request: Message) -> Message:
        """Keep a part from now on, or go on keeping it if it is here.

        Fields: ``name``, ``shape`` and ``dtype`` of the part, ``table`` (whether rows of it are
        read and updated), ``start`` (the number of its first row in the whole variable; without
        it a checkpoint can only be restored on as many servers), ``program`` (None, or anything
        else if the array is a program of `programs.export_initializer`, as bytes). Array: the
        initial value, or its program.

        Reply: ``version``, ``created``.
        """
        header = request.header
        array = only_array(request, "an initial value, or the bytes of a program that makes it")
        shape, dtype = shape_of(header), dtype_of(field(header, "dtype", str))
        is_program = header.get("program") is not None
        name = field(header, "name", str)
        start = header.get("start", 0 if name.endswith("/0") else None)
        part, created = self._parts.create(
            name,
            shape,
            dtype,
            field(header, "table", bool),
            start,
            lambda: run_initializer(array.tobytes()) if is_program else memory.copied(array),
        )
        return Message({"version": part.version, "created": created})

    def rule(self, request: Message) -> Message:
        """Know a rule from now on.

        Fields: ``rule`` (its name), ``sparse``, ``slots`` (each with ``name``, ``shape``, which is
        ``"rows"`` if it is the variable's, ``dtype`` and ``initial``), ``values`` (optional, as in
        `hyper`), ``formula`` (optional: the same update as `programs.formula_of` has it). Array: a
        program of `programs.export_update`, as bytes.
        """
        header = request.header
        program = only_array(request, "the bytes of the rule's program").tobytes()
        slots = [Slot.from_json(entry) for entry in field(header, "slots", list)]
        name, sparse = field(header, "rule", str), field(header, "sparse", bool)
        rule = OptimizerUpdate(name, sparse, slots, program, formula_of(header))
        self._rules.add(rule).set_values(header.get("values") or {})
        return Message({})

    def attach(self, request: Message) -> Message:
        """Have a rule update a part.

        Fields: ``name`` of the part, ``rule``, ``iteration`` (optional: how many updates there were
        before, for a part that no rule has updated yet), ``anew`` (optional: whether the part is to
        be as if no rule had updated it).
        """
        part = self._parts.get(field(request.header, "name", str))
        rule = self._rules.get(field(request.header, "rule", str))
        with part.lock:
            if request.header.get("anew", False):
                part.detach()
            is_first = part.rule_name is None
            part.attach(rule)
            if is_first:
                part.iteration = int(request.header.get("iteration", 0))
        return Message({})

    def iteration(self, request: Message) -> Message:
        """Say how many updates parts had. Fields: ``names`` of the parts, ``iteration``."""
        number = field(request.header, "iteration", int)
        for part in [self._parts.get(str(name)) for name in field(request.header, "names", list)]:
            with part.lock:
                part.iteration = number
        return Message({})

    def hyper(self, request: Message) -> Message:
        """Set what a rule's next updates use. Fields: ``rule``, ``values`` (``learning_rate``)."""
        rule = self._rules.get(field(request.header, "rule", str))
        rule.set_values(field(request.header, "values", dict))
        return Message({})

    def exchange(self, request: Message) -> Message | Future[Message]:
        """Change parts, then read rows and values.

        Fields, all optional: ``closure`` (the name of the run whose pushes these are: each is
        applied once, however often it comes), ``push`` (``name``, ``kind``, ``rule``), ``gather``
        (``name``), ``pull`` (``name``, ``version``), ``sync`` (``round``, ``of``, ``mean``: the
        reply waits until as many closures have pushed in the round, whose gradients are summed, or
        averaged, for one update). Arrays: for each push its gradient or value,
        for the kind ``"rows"`` the ids before it; then for each gather the ids. Ids are counted
        from the part's first row. Where an entry of ``push`` or ``gather`` has the field ``ids``,
        their number, they are the next ones of the last array instead.

        Reply: ``applied`` (for each push whether it was now), ``versions`` and ``changed`` (for
        each pull). Arrays: each gather's rows; the value of each pull that has changed.
        """
        self._require_session(request.header.get("closure"))
        exchange = PushPullHandler(request, self._parts, self._applied, self._stats)
        sync = request.header.get("sync")
        if sync is not None:
            return self._rounds.join(exchange, sync)
        return exchange.reply(exchange.apply())

    def identity(self, request: Message) -> Message:
        """Reply: ``identity``, another one for each server that was started."""
        return Message({"identity": self._identity})

    def _require_session(self, closure: Any) -> None:
        session = self._session
        if session is not None and closure is not None:
            if not str(closure).startswith(f"{session}:"):
                raise RequestError(
                    f"The closure {closure!r} is of a chief that another one has followed, which "
                    "may have restored the variables meanwhile. Nothing was changed."
                )

    def begin(self, request: Message) -> Message:
        """A chief begins: synchronous rounds of a former one are abandoned.

        Field: ``session`` (optional): what its closures' names begin with, before a colon. Those of
        others push nothing any more.
        """
        self._rounds.reset()
        session = request.header.get("session")
        self._session = None if session is None else str(session)
        return Message({})

    def abandon(self, request: Message) -> Message:
        """End a synchronous round whose closures will not all come.

        Fields: ``round``, ``over`` (optional: whether those that come later are refused). Reply:
        ``waiting``, how many exchanges fail with `RoundAbandonedError`.
        """
        number = field(request.header, "round", int)
        is_over = bool(request.header.get("over", False))
        return Message({"waiting": self._rounds.abandon(number, is_over)})

    def read(self, request: Message) -> Message:
        """Rows of a part. Fields: ``name``, ``start``, ``stop`` (all by default)."""
        part = self._parts.get(field(request.header, "name", str))
        start, stop = _range(request.header, part.rows)
        part.check_range(start, stop)
        with part.lock:
            return Message({"version": part.version}, [part.read(start, stop)])

    def write(self, request: Message) -> Message:
        """Set rows of a part, or a slot of it.

        Fields: ``name``, and either ``start`` and ``stop`` (all rows by default) or ``slot`` (its
        name). Array: the value.
        """
        part = self._parts.get(field(request.header, "name", str))
        value = only_array(request, "the value to write")
        slot = request.header.get("slot")
        if slot is not None:
            with part.lock:
                part.check_slot(str(slot), value)
                part.write_slot(str(slot), value)
                return Message({"version": part.version})
        start, stop = _range(request.header, part.rows)
        part.check_value("The new value", value, part.check_range(start, stop))
        with part.lock:
            part.write(start, stop, value)
            return Message({"version": part.version})

    def slots(self, request: Message) -> Message:
        """What the optimizer keeps beside a part. Field: ``name``. Reply: ``slots`` (names)."""
        part = self._parts.get(field(request.header, "name", str))
        with part.lock:
            slots = part.slots()
            header = {"slots": list(slots), "iteration": part.iteration, "rule": part.rule_name}
        return Message(header, list(slots.values()))

    def save(self, request: Message) -> Message:
        """Write parts to this server's file in a directory, while training goes on.

        Fields: ``directory``, ``servers`` (how many there are), ``step`` (what messages call it),
        ``keys`` (of which variables; of all by default).

        Reply: ``file``, ``bytes``, ``step``.
        """
        header = request.header
        directory = field(header, "directory", str)
        servers, step = field(header, "servers", int), header.get("step")
        keys = header.get("keys")
        parts = [part for part in self._parts if keys is None or key_of(part) in set(keys)]
        with self._saving:
            file, size = save(parts, self._applied, directory, self.server_index, servers, step)
        return Message({"file": file, "bytes": size, "step": step})

    def restore(self, request: Message) -> Message:
        """Take everything from a checkpoint that `save` wrote.

        With as many servers as there were, parts that were not created yet are made, and those that
        were get their values; which pushes were applied is as it was. With another number of
        servers the variables are created first, and get their rows from all files.

        Or take the parts of some variables, from the files of any number of servers; what was
        applied to them is not forgotten.

        Fields: ``directory``, ``servers`` (how many there are), ``variables`` (optional: by key
        what is taken, see `Wanted`), ``check`` (then nothing is restored, only checked). Reply:
        ``step``, ``servers`` (how many there were).
        """
        servers = field(request.header, "servers", int)
        wanted = request.header.get("variables")
        with self._saving:
            if wanted is not None:
                shards = find_shards(field(request.header, "directory", str), servers)
                chosen = {key: RestoreRequest(**each) for key, each in wanted.items()}
                restore_chosen(self._parts, shards, chosen, bool(request.header.get("check")))
                return Message({"step": shards.step, "servers": shards.servers})
            shards = find_shards(field(request.header, "directory", str), servers)
            if shards.servers == servers:
                restore_own(self._parts, self._applied, shards, self.server_index)
            else:
                restore_cut_anew(self._parts, self._applied, shards)
            self._rounds.reset()
        return Message({"step": shards.step, "servers": shards.servers})

    def finished(self, request: Message) -> Message:
        """Forget what closures pushed: they push nothing any more. Field: ``closures``."""
        self._applied.finish(str(name) for name in field(request.header, "closures", list))
        return Message({})

    def forget(self, request: Message) -> Message:
        """Keep parts, or know rules, no more: the chief has nothing any more that uses them.

        Fields: ``names`` of parts, ``rules``.
        """
        self._parts.forget(map(str, field(request.header, "names", list)))
        self._rules.forget(map(str, field(request.header, "rules", list)))
        return Message({})

    def stats(self, request: Message) -> Message:
        """What was done, and how much memory it takes."""
        report: dict[str, Any] = {
            **self._stats.to_json(),
            "parts": len(self._parts),
            "part_bytes": sum(part.nbytes for part in self._parts),
            "resident_bytes": resident_bytes(),
            "open_closures": len(self._applied),
        }
        return Message(report)


def _range(header: dict[str, Any], rows: int) -> tuple[int, int]:
    start, stop = header.get("start"), header.get("stop")
    return (0 if start is None else int(start), rows if stop is None else int(stop))
