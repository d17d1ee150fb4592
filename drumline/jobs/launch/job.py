"""A job from its first start to its last end."""

from __future__ import annotations

import collections
import contextlib
import secrets
from collections.abc import Mapping

from drumline.jobs.launch.attempt import Attempt
from drumline.jobs.launch.coordination import Coordination, SingleHost, Verdict
from drumline.jobs.launch.descendants import adopt_orphans, kill_descendants
from drumline.jobs.launch.environment import (
    RESTART_VARIABLE,
    environments,
    mark_for,
)
from drumline.jobs.launch.errors import Interrupted, LaunchError
from drumline.jobs.launch.guardian import Guardian
from drumline.jobs.launch.logs import LogDir, shown
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.options import Options, checked, other_python
from drumline.jobs.launch.ports import Ports
from drumline.jobs.launch.process import Child
from drumline.jobs.launch.tasks import Task, has_address, offered
from drumline.jobs.launch.verdict import explain
from drumline.jobs.launch.view import View

_SIGNALLED = 128
"""Added to a signal's number it is the exit code, as shells have it."""


def run_job(options: Options, view: View) -> int:
    """Run the job, with restarts, and return the exit code.

    0: the chief and all workers ended with 0, or the chief of a job with parameter servers. 1: some
    process failed. 128 + n: the launcher was ended by signal n.

    Raises:
        LaunchError: if it cannot be started as asked.
    """
    checked(options)
    if other := other_python(options.command):
        view.note(other)
    mark = secrets.token_hex(8)
    guardian = Guardian(mark)
    try:
        mark_for(mark)
        adopt_orphans()
        with contextlib.ExitStack() as stack:
            logs = LogDir(options.log_dir, options.node_rank)
            stack.callback(logs.close)
            loop = stack.enter_context(Loop())
            stack.callback(kill_descendants, [guardian.pid])
            others, host = _meet(options, loop, view, stack)
            try:
                return _Job(options, view, loop, logs, others, host, guardian).run()
            except LaunchError as error:
                others.report_trouble(str(error))
                raise
    except Interrupted as interrupted:
        return _SIGNALLED + interrupted.signum
    finally:
        guardian.dismiss()


def _meet(
    options: Options, loop: Loop, view: View, stack: contextlib.ExitStack
) -> tuple[Coordination, str]:
    """The other hosts, and the address of this one."""
    if options.rendezvous is None:
        return SingleHost(), options.host or "127.0.0.1"
    from drumline.jobs.launch.rendezvous.join import meet

    others, host = meet(options, loop, view.note)
    stack.callback(others.close)
    return others, host


class _Job:
    def __init__(
        self,
        options: Options,
        view: View,
        loop: Loop,
        logs: LogDir,
        others: Coordination,
        host: str,
        guardian: Guardian,
    ) -> None:
        self._options = options
        self._view = view
        self._loop = loop
        self._logs = logs
        self._others = others
        self._host = host
        self._guardian = guardian
        self._starts: collections.Counter[Task] = collections.Counter()

    def run(self) -> int:
        """Start the job until it ends well, or may not be started again."""
        attempt = 0
        while True:
            if self._loop.signals:
                raise Interrupted(self._loop.signals[0])
            interrupted, verdict = self._start(attempt)
            if interrupted:
                return _SIGNALLED + interrupted
            if verdict.trained:
                return 0
            for number, line in enumerate(explain(verdict)):
                self._view.say(line, "" if number else "bold red")
            if verdict.final or attempt == self._options.max_restarts:
                for line in filter(None, (verdict.final, self._used_up(attempt))):
                    self._view.say(line)
                return 1
            attempt += 1
            self._view.say(f"Restart {attempt} of {self._options.max_restarts}.")

    def _start(self, attempt: int) -> tuple[int, Verdict]:
        tasks = self._options.layout.tasks_of(self._options.node_rank)
        failures = self._logs.failures(attempt)
        ports = Ports(self._host, sum(map(has_address, tasks)))
        try:
            cluster = self._others.agree(offered(tasks, ports.addresses))
            envs = environments(self._options, tasks, cluster, failures)
            children = [self._started(task, envs[task]) for task in tasks]
            self._view.begin(children, self._title(attempt))
            watched = Attempt(
                *(children, self._options, self._loop, self._view, self._others, failures),
                again=lambda task: self._started(task, envs[task]),
            )
            report = watched.run()
            kill_descendants([self._guardian.pid])
        finally:
            self._view.end()
            ports.close()
        return report.interrupted, self._others.conclude(report)

    def _started(self, task: Task, env: Mapping[str, str]) -> Child:
        number = self._starts[task]
        self._starts[task] += 1
        told = {**env, RESTART_VARIABLE: str(number)}
        return Child(task, self._options.command, told, self._logs.log(task, number))

    def _title(self, attempt: int) -> str:
        restart = f" (restart {attempt} of {self._options.max_restarts})" if attempt else ""
        return f"drumline launch{restart}, logs in {shown(self._logs.path)}"

    def _used_up(self, restarts: int) -> str:
        allowed = self._options.max_restarts
        return f"All {allowed} of --max-restarts are used up." if 0 < allowed == restarts else ""
