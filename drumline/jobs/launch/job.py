"""A job from its first start to its last end.

`run_job` starts the job, again and again if it may be restarted. An `Attempt` is one start of the
processes on this host, watched until they have ended; `explain` puts its verdict into words.
"""

from __future__ import annotations

import collections
import contextlib
import math
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.failure_record import RESTART_STATUS
from drumline.jobs.launch.coordination import LauncherGroup, Report, SingleHost, Verdict
from drumline.jobs.launch.environment import RESTART_VARIABLE, Ports, environments, mark_for
from drumline.jobs.launch.errors import Interrupted, LaunchError
from drumline.jobs.launch.failure_cause import Role, Suspect, read_records, suspects
from drumline.jobs.launch.hang import (
    SilenceWatch,
    catches,
    ending_signal,
    in_words,
    seen_of,
    write_stacks,
)
from drumline.jobs.launch.logs import LogDir, shown
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.options import LaunchOptions, checked, other_python
from drumline.jobs.launch.process import (
    Child,
    Guardian,
    adopt_orphans,
    kill_descendants,
    reap_adopted,
)
from drumline.jobs.launch.tasks import LaunchedTask, has_address, offered
from drumline.jobs.launch.view import REFRESH_SECONDS, View

_LONGEST_LINE = 300


def explain(verdict: Verdict) -> Iterator[str]:
    """Lines for the user: who failed first and why, the end of its log, and who followed."""
    if not verdict.suspects:
        return
    first, *others = verdict.suspects
    said = first.lost.report("The others are stopped", f"See its log, {first.log}")
    yield f"Failed first: {said}"
    if first.lines:
        yield "The end of its log:"
        yield from (f"    {_cropped(line)}" for line in first.lines)
    if others:
        yield "After it: " + "; ".join(_briefly(other) for other in others)


def explain_alone(suspect: Suspect) -> Iterator[str]:
    """Lines for the user: how one process failed, without which the job continues."""
    yield f"Failed: {suspect.lost.report('The others continue', f'See its log, {suspect.log}')}"


def _cropped(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def _briefly(suspect: Suspect) -> str:
    consequence = suspect.part is Role.CONSEQUENCE
    return f"{suspect.task} {suspect.what}" + (" (a consequence)" if consequence else "")


def result(code: int, verdict: Verdict) -> dict[str, Any]:
    """How a job ended, for whoever reads its directory of logs later.

    Returns:
        The exit `code`; `reason`, the first line of `explain` or the empty string; and `failed`,
        the tasks to blame, the first one first, each with what it did and said, and its log.
        `hung` says that it was ended since it was silent.
    """
    blamed = verdict.suspects if code else ()
    reason = next(explain(verdict), "") if blamed else ""
    if code == RESTART_STATUS:
        reason = "saved, to be started again"
    elif code > _SIGNALLED:
        reason = f"ended by {signal.Signals(code - _SIGNALLED).name}"
    failed = [
        {"task": each.task, "what": each.what, "why": each.why, "log": each.log} for each in blamed
    ]
    hung = any(each.part is Role.HUNG for each in blamed)
    return {"code": code, "reason": reason, "failed": failed, "hung": hung, "time": time.time()}


def unstarted(reason: str) -> dict[str, Any]:
    """As `result`, of a job that could not be started as asked."""
    return {"code": 2, "reason": reason, "failed": [], "time": time.time()}


_SETTLING_SECONDS = 2.0
"""How long the others may run on after a failure: an earlier one may take longer to end."""

_UNWATCHED_SECONDS = 5.0
"""A launcher that has not looked for so long was suspended itself, and does not count that time."""

_GATHER_SECONDS = 0.01

_ABORT_SECONDS = 5.0

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
        options: LaunchOptions,
        loop: Loop,
        view: View,
        others: LauncherGroup,
        failures: Path,
        again: Callable[[LaunchedTask], Child],
    ) -> None:
        self.interrupted = 0
        self._children = list(children)
        self._options = options
        self._loop = loop
        self._view = view
        self._others = others
        self._failures = failures
        self._again = again
        self._restarts: collections.Counter[LaunchedTask] = collections.Counter()
        self._interrupted_at = 0.0
        self._settled_at = math.inf
        self._evaluator_until = math.inf
        self._ending = False
        self._trained = False
        self._suspended_since: dict[Child, float] = {}
        self._looked_at = math.inf
        self._took = False
        self._silent = 0.0
        self._silence_looked_at = time.monotonic()
        limit = options.hang_after
        self._silence = None if limit is None else SilenceWatch(Path.cwd(), limit)

    def run(self) -> Report:
        """Watch until all have ended, and say who failed."""
        for child in self._children:
            self._watch(child)
        while any(child.running for child in self._children):
            self._took = False
            self._loop.step(REFRESH_SECONDS)
            if self._took:  # Of many short lines, all that come meanwhile are written at once.
                time.sleep(_GATHER_SECONDS)
            self._others.tick()
            self._collect()
            reap_adopted([child.pid for child in self._children])
            self._heed_signals()
            self._decide(time.monotonic())
            self._view.refresh()
        return self._report()

    def _watch(self, child: Child) -> None:
        descriptor = child.output.descriptor

        def take() -> None:
            self._took = True
            if not child.output.take():
                self._loop.forget(descriptor)

        self._loop.watch(child.pidfd, lambda: None)
        self._loop.watch(descriptor, take)

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
                shared = self._options.shared_signals
                passed = "has reached" if shared else "passed on to"
                self._view.note(f"{name}: {passed} all processes; a second Ctrl-C kills them")
                self._others.report_trouble(f"the launcher was ended by {name}")
                # Twice it would run their handlers twice. Signal 0 is none.
                self._stop(self._children, 0 if shared else signum)
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
            self._give_up_suspended(now)
            self._replace_workers()
            if self._hangs(now):
                self._end_hung(now)
            elif self._in_trouble():
                self._settled_at = now + self._settling_seconds
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

    def _give_up_suspended(self, now: float) -> None:
        """Kill what is suspended for long, where the others wait for it without a limit.

        Without a chief that leads, processes miss one another's heartbeats, and end by themselves.
        """
        if not self._options.layout.coordinated:
            return
        if now - self._looked_at > _UNWATCHED_SECONDS:
            self._suspended_since.clear()
        self._looked_at = now
        for child in self._children:
            if not child.running or child.asked_to_stop or not child.is_stopped(by="T"):
                self._suspended_since.pop(child, None)
                continue
            lasts = now - self._suspended_since.setdefault(child, now)
            if lasts >= self._options.suspended_seconds and child.suspended_for is None:
                child.give_up(lasts)

    def _hangs(self, now: float) -> bool:
        """Whether the job has written nothing for too long, on any host."""
        limit = self._options.hang_after
        if self._silence is None or limit is None:
            return False
        # What found it before may have said so by now, as its trouble.
        if self._others.all_silent or self._others.trouble:
            return self._others.all_silent
        unwatched = now - self._silence_looked_at > _UNWATCHED_SECONDS
        self._silence_looked_at = now
        self._silent = self._silence.seconds(self._children, now, unwatched)
        self._others.report_silent(self._silent >= limit)
        return self._others.all_silent

    def _end_hung(self, now: float) -> None:
        assert self._silence is not None
        running = [child for child in self._children if child.running]
        for child in running:
            child.hung = seen_of(self._silent, self._silence.cpus(child, now))
        self._view.say(
            f"The job hangs: nothing in its logs and metrics for {in_words(self._silent)}. The "
            "stacks of its processes are in their logs."
        )
        write_stacks(running)
        self._others.report_trouble("the job hangs")
        self._ending = True
        for child in running:
            child.stop(ending_signal(child), self._options.grace_seconds)

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
            f"others continue."
        )
        (self._failures / f"{child.task.file_stem}.json").unlink(missing_ok=True)
        child.kill_group()
        fresh = self._again(child.task)
        self._children[self._children.index(child)] = fresh
        self._watch(fresh)
        self._view.replace(child, fresh)

    @property
    def _settling_seconds(self) -> float:
        # One that has saved waits for no other that still does.
        preempted = any(child.preempted for child in self._children)
        return self._options.grace_seconds if preempted else _SETTLING_SECONDS

    def _in_trouble(self) -> bool:
        failed = next((child for child in self._children if child.failed), None)
        if failed is None and not self._others.trouble:
            return False
        for child in self._children:
            child.seen_stopped = child.is_stopped()
        if failed is not None and failed.preempted:
            self._others.report_trouble(f"{failed.task} has saved, to be started again")
        elif failed is not None:
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
            if child.hung and not child.stacks_written and catches(child.pid, signal.SIGABRT):
                child.abort(_ABORT_SECONDS)
                continue
            self._view.note(f"{child.task} did not end when asked to: killed")
            child.kill()

    def _report(self) -> Report:
        records, problem = read_records(self._failures)
        if problem:
            self._view.say(problem)
        done = self._others.all_trained
        preempted = any(child.preempted for child in self._children)
        blamed = [
            child
            for child in self._children
            if (child.failed and not child.preempted) or not (done or preempted)
        ]
        found = () if self.interrupted else tuple(suspects(blamed, records))
        trained = self._trained and not any(child.failed for child in self._children)
        return Report(trained, found, self.interrupted, preempted and not found)


_SHORTEST_SECONDS = 5.0
"""A start that asks to be repeated sooner counts as a failed one."""

_SIGNALLED = 128
"""Added to a signal's number it is the exit code, as shells have it."""


def run_job(options: LaunchOptions, view: View) -> int:
    """Run the job, with restarts, and return the exit code.

    0: the chief and all workers ended with 0, or the chief of a job with parameter servers. 1: some
    process failed. 128 + n: the launcher was ended by signal n; 75 if the processes have saved
    before, to be started again.

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
            logs.clear_result()
            others, host = _meet(options, loop, view, stack)
            job = _Job(options, view, loop, logs, others, host, guardian)
            try:
                code = job.run()
            except LaunchError as error:
                others.report_trouble(str(error))
                with contextlib.suppress(LaunchError):
                    logs.write_result(unstarted(str(error)))
                raise
            logs.write_result(result(code, job.verdict))
            return code
    except Interrupted as interrupted:
        return _SIGNALLED + interrupted.signum
    finally:
        guardian.dismiss()


def _meet(
    options: LaunchOptions, loop: Loop, view: View, stack: contextlib.ExitStack
) -> tuple[LauncherGroup, str]:
    """The other hosts, and the address of this one."""
    if options.rendezvous is None:
        return SingleHost(), options.host or "127.0.0.1"
    from drumline.jobs.launch.rendezvous.join import join_hosts

    others, host = join_hosts(options, loop, view.note)
    stack.callback(others.close)
    return others, host


class _Job:
    def __init__(
        self,
        options: LaunchOptions,
        view: View,
        loop: Loop,
        logs: LogDir,
        others: LauncherGroup,
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
        self._starts: collections.Counter[LaunchedTask] = collections.Counter()
        self._processes: dict[str, dict[str, Any]] = {}
        self.verdict = Verdict(trained=False)

    def run(self) -> int:
        """Start the job until it ends well, or may not be started again."""
        attempt = preemptions = 0
        while True:
            if self._loop.signals:
                raise Interrupted(self._loop.signals[0])
            began = time.monotonic()
            report, verdict = self._start(attempt + preemptions)
            self.verdict = verdict
            if report.interrupted:
                return RESTART_STATUS if report.preempted else _SIGNALLED + report.interrupted
            if verdict.trained:
                return 0
            if verdict.preempted and not verdict.final:
                lasted = time.monotonic() - began
                if lasted > _SHORTEST_SECONDS or attempt < self._options.max_restarts:
                    preemptions += 1
                    attempt += lasted <= _SHORTEST_SECONDS
                    self._view.say("All is saved, and a machine is taken away: started again.")
                    continue
                self._view.say(
                    f"It has ended to be started again after {lasted:.0f} s, in which it can "
                    "hardly have trained."
                )
            for number, line in enumerate(explain(verdict)):
                self._view.say(line, "" if number else "bold red")
            if verdict.final or attempt == self._options.max_restarts:
                for line in filter(None, (verdict.final, self._used_up(attempt))):
                    self._view.say(line)
                return 1
            attempt += 1
            self._view.say(f"Restart {attempt} of {self._options.max_restarts}.")

    def _start(self, attempt: int) -> tuple[Report, Verdict]:
        tasks = self._options.layout.tasks_of(self._options.node_rank)
        failures = self._logs.failures(attempt)
        ports = Ports(self._host, sum(map(has_address, tasks)))
        all_started: list[Child] = []
        try:
            cluster = self._others.agree(offered(tasks, ports.addresses))
            envs = environments(self._options, tasks, cluster, failures)
            addresses = dict(zip(filter(has_address, tasks), ports.addresses, strict=True))

            def started(task: LaunchedTask) -> Child:
                all_started.append(self._started(task, envs[task], addresses.get(task, "")))
                return all_started[-1]

            children = [started(task) for task in tasks]
            self._view.begin(children, self._title(attempt))
            watched = Attempt(
                *(children, self._options, self._loop, self._view, self._others, failures),
                again=started,
            )
            report = watched.run()
            kill_descendants([self._guardian.pid])
        finally:
            for child in all_started:
                self._loop.forget(child.output.descriptor)
                child.output.close()
            self._view.end()
            ports.close()
        return report, self._others.conclude(report)

    def _started(self, task: LaunchedTask, env: Mapping[str, str], address: str) -> Child:
        number = self._starts[task]
        self._starts[task] += 1
        told = {**env, RESTART_VARIABLE: str(number)}
        log = self._logs.log(task, number)
        command, limit = self._options.command, self._options.log_limit
        child = Child(task, command, told, log, address, limit)
        gpus = told.get("CUDA_VISIBLE_DEVICES", "")
        self._processes[str(task)] = {"pid": child.pid, "gpus": gpus}
        self._logs.write_processes(self._processes)
        return child

    def _title(self, attempt: int) -> str:
        allowed = self._options.max_restarts
        # A job that has asked to be started again may be so more often.
        of = f" of {allowed}" if attempt <= allowed else ""
        restart = f" (restart {attempt}{of})" if attempt else ""
        return f"drumline launch{restart}, logs in {shown(self._logs.path)}"

    def _used_up(self, restarts: int) -> str:
        allowed = self._options.max_restarts
        return f"All {allowed} of --max-restarts are used up." if 0 < allowed == restarts else ""
