"""One start of the job on this host, watched to its end."""

from __future__ import annotations

import collections
import math
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from drumline.jobs.launch.coordination import Coordination, Report
from drumline.jobs.launch.descendants import reap_adopted
from drumline.jobs.launch.failure_cause import read_records, suspects
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.options import Options
from drumline.jobs.launch.process import Child
from drumline.jobs.launch.tasks import Task
from drumline.jobs.launch.verdict import explain_alone
from drumline.jobs.launch.view import REFRESH_SECONDS, View

_SETTLING_SECONDS = 2.0
"""How long the others may go on after a failure: one that failed earlier may take longer to end."""

_REPEAT_SECONDS = 0.2
"""Two interrupts nearer than this are one key pressed: `timeout` and some shells send it twice."""


class Attempt:
    """Processes from their start until none is left.

    Args:
        children: the running processes of this host.
        options: the job.
        loop: where their ends and the signals are waited for.
        view: where they are shown.
        others: the other hosts.
        failures: the directory of failure records.
        again: starts a task again.

    Attributes:
        interrupted: the signal that ended it, or 0.
    """

    def __init__(
        self,
        children: Sequence[Child],
        options: Options,
        loop: Loop,
        view: View,
        others: Coordination,
        failures: Path,
        again: Callable[[Task], Child],
    ) -> None:
        self.interrupted = 0
        self._children = list(children)
        self._options = options
        self._loop = loop
        self._view = view
        self._others = others
        self._failures = failures
        self._again = again
        self._restarts: collections.Counter[Task] = collections.Counter()
        self._interrupted_at = 0.0
        self._settled_at = math.inf
        self._evaluator_until = math.inf
        self._ending = False
        self._trained = False

    def run(self) -> Report:
        """Watch until all have ended, and say who failed."""
        for child in self._children:
            self._loop.watch(child.pidfd, lambda: None)
        while any(child.running for child in self._children):
            self._loop.step(REFRESH_SECONDS)
            self._others.tick()
            self._collect()
            reap_adopted([child.pid for child in self._children])
            self._heed_signals()
            self._decide(time.monotonic())
            self._view.refresh()
        return self._report()

    def _collect(self) -> None:
        for child in self._children:
            if child.running:
                descriptor = child.pidfd
                if child.collect():
                    self._loop.forget(descriptor)

    def _heed_signals(self) -> None:
        while self._loop.signals:
            signum = self._loop.signals.pop(0)
            now = time.monotonic()
            if not self.interrupted:
                self.interrupted, self._interrupted_at = signum, now
                name = signal.Signals(signum).name
                self._view.note(f"{name}: passed on to all processes; a second Ctrl-C kills them")
                self._others.report_trouble(f"the launcher was ended by {name}")
                self._stop(self._children, signum)
                self._ending = True
            elif signum == signal.SIGINT and now - self._interrupted_at > _REPEAT_SECONDS:
                for child in self._children:
                    child.kill()

    def _decide(self, now: float) -> None:
        self._kill_the_late(now)
        if self._ending:
            return
        if now >= self._settled_at:
            self._ending = True
            self._stop(self._children, signal.SIGTERM)
        elif self._settled_at == math.inf:
            self._heed_the_end()
            self._replace_workers()
            if self._in_trouble():
                self._settled_at = now + _SETTLING_SECONDS
            else:
                self._finish(now)

    def _heed_the_end(self) -> None:
        if not self._trained:
            must = self._options.layout.must_finish
            self._trained = all(
                child.returncode == 0 for child in self._children if must(child.task)
            )
            if self._trained:
                self._others.report_trained()
        if self._others.all_trained and self._options.layout.coordinated:
            # Without its chief a worker or a parameter server may well fail.
            for child in self._children:
                if child.failed and child.task.type != "evaluator":
                    child.excuse()

    def _replace_workers(self) -> None:
        """Start failed workers again, alone, where a chief gives their work to others meanwhile."""
        if not self._options.layout.coordinated or self._others.trouble:
            return
        failed = [child for child in self._children if child.failed]
        if all(child.task.type == "worker" for child in failed):
            for child in failed:
                if self._restarts[child.task] < self._options.max_restarts:
                    self._replace(child)

    def _replace(self, child: Child) -> None:
        self._restarts[child.task] += 1
        records, _ = read_records(self._failures)
        for line in explain_alone(suspects([child], records)[0]):
            self._view.say(line)
        allowed = self._options.max_restarts
        self._view.say(
            f"{child.task} is started again, {self._restarts[child.task]} of {allowed}; the "
            f"others go on."
        )
        (self._failures / f"{child.task.file_stem}.json").unlink(missing_ok=True)
        child.kill_group()
        fresh = self._again(child.task)
        self._children[self._children.index(child)] = fresh
        self._loop.watch(fresh.pidfd, lambda: None)
        self._view.replace(child, fresh)

    def _in_trouble(self) -> bool:
        failed = next((child for child in self._children if child.failed), None)
        if failed is None and not self._others.trouble:
            return False
        for child in self._children:
            child.seen_stopped = child.is_stopped()
        if failed is not None:
            self._others.report_trouble(f"{failed.task} failed")
        else:
            self._view.say(f"Stopping: {self._others.trouble}")
        return True

    def _finish(self, now: float) -> None:
        """End what does not end by itself, once the training is done everywhere."""
        if not self._others.all_trained:
            return
        self._evaluator_until = min(self._evaluator_until, now + self._options.evaluator_seconds)
        evaluators = [child for child in self._children if child.task.type == "evaluator"]
        self._stop([child for child in self._children if child not in evaluators], signal.SIGTERM)
        if now >= self._evaluator_until:
            self._stop(evaluators, signal.SIGTERM)

    def _stop(self, children: Sequence[Child], signum: int) -> None:
        for child in children:
            child.stop(signum, self._options.grace_seconds)

    def _kill_the_late(self, now: float) -> None:
        late = [child for child in self._children if child.running and now >= child.kill_at]
        for child in late:
            self._view.note(f"{child.task} did not end when asked to: killed")
            child.kill()

    def _report(self) -> Report:
        records, problem = read_records(self._failures)
        if problem:
            self._view.say(problem)
        done = self._others.all_trained
        blamed = [child for child in self._children if child.failed or not done]
        found = () if self.interrupted else tuple(suspects(blamed, records))
        trained = self._trained and not any(child.failed for child in self._children)
        return Report(trained, found, self.interrupted)
