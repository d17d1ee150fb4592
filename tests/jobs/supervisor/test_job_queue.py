"""The queue's decisions: what must hold for any jobs, and what some cases must come to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drumline.jobs.file.model import RESOURCES
from drumline.jobs.supervisor.queue import Decisions, Held, Queued, decide

CAPACITY = {"cpus": 4.0, "memory": 8.0 * 2**30, "gpus": 2.0}


def needs(cpus: float = 0, gpus: float = 0, memory: float = 0) -> dict[str, float]:
    return {"cpus": cpus, "memory": memory * 2**30, "gpus": gpus}


some_needs = st.builds(
    needs,
    cpus=st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0]),
    gpus=st.sampled_from([0.0, 1.0, 2.0]),
    memory=st.sampled_from([0.0, 1.0, 6.0]),
)
some_jobs = st.lists(st.tuples(st.integers(1, 9), some_needs), max_size=12)


def fits(jobs: list[dict[str, float]]) -> bool:
    return all(sum(job[r] for job in jobs) <= CAPACITY[r] + 1e-6 for r in RESOURCES)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Queued], list[Held]]:
    held: list[Held] = []
    for number, (priority, wanted) in enumerate(draw(some_jobs)):
        if fits([*(job.needs for job in held), wanted]):
            held.append(Held(number, priority, wanted, draw(st.booleans())))
    waiting = [Queued(100 + i, *job) for i, job in enumerate(draw(some_jobs))]
    return draw(st.permutations(waiting)), held


def order(job: Queued | Held) -> tuple[int, int]:
    return -job.priority, job.id


@given(situations())
def test_never_over_capacity_and_each_job_is_decided(
    situation: tuple[list[Queued], list[Held]],
) -> None:
    waiting, held = situation
    made = decide(waiting, held, CAPACITY)
    by_id = {job.id: job for job in waiting}
    started = [by_id[number].needs for number in made.start]
    assert fits([*(job.needs for job in held), *started])
    assert sorted([*made.start, *made.reasons, *made.impossible]) == sorted(by_id)
    assert set(made.impossible) == {n for n, job in by_id.items() if not fits([job.needs])}
    assert all("waits for" in reason for reason in made.reasons.values())


@given(situations())
def test_who_starts_delays_no_earlier_one(situation: tuple[list[Queued], list[Held]]) -> None:
    """When running jobs end, an earlier job that fits without later ones fits beside them, too."""
    waiting, held = situation
    made = decide(waiting, held, CAPACITY)
    started = [job for job in waiting if job.id in made.start]
    for job in waiting:
        if job.id in made.reasons:
            before = [other.needs for other in started if order(other) < order(job)]
            after = [other.needs for other in started if order(other) > order(job)]
            for ended in range(len(held) + 1):
                left = [other.needs for other in held[ended:]] + before
                assert fits([*left, job.needs, *after]) or not fits([*left, job.needs])


@given(situations())
def test_only_lower_ones_give_way_and_only_if_it_helps(
    situation: tuple[list[Queued], list[Held]],
) -> None:
    waiting, held = situation
    made = decide(waiting, held, CAPACITY)
    by_id = {job.id: job for job in (*waiting, *held)}
    for victim, job in made.preempt.items():
        assert by_id[victim].priority < by_id[job].priority and not by_id[victim].stopping
    if made.preempt:
        (number,) = set(made.preempt.values())
        first = min((by_id[n] for n in made.reasons), key=order)
        assert number == first.id
        staying = [job.needs for job in held if job.id not in made.preempt and not job.stopping] + [
            by_id[n].needs for n in made.start if order(by_id[n]) < order(first)
        ]
        assert fits([*staying, first.needs])
        for spared in made.preempt:
            assert not fits([*staying, first.needs, by_id[spared].needs])


@given(some_jobs)
def test_all_jobs_run_in_the_end(jobs: list[tuple[int, dict[str, float]]]) -> None:
    waiting = {i: Queued(i, *job) for i, job in enumerate(jobs)}
    held: dict[int, Held] = {}
    done = []
    while waiting:
        made = decide(waiting.values(), list(held.values()), CAPACITY)
        for number in made.impossible:
            del waiting[number]
        for number in made.start:
            job = waiting.pop(number)
            held[number] = Held(number, job.priority, job.needs)
        assert held or not waiting
        if held:
            ends = min(held)
            done.append(ends)
            del held[ends]
    assert len({*done, *held}) == sum(fits([wanted]) for _, wanted in jobs)


def run(waiting: list[Queued], held: list[Held]) -> Decisions:
    return decide(waiting, held, CAPACITY)


def test_reasons_have_numbers() -> None:
    held = [Held(1, 5, needs(cpus=3, memory=5))]
    made = run(
        [Queued(2, 5, needs(cpus=3)), Queued(3, 5, needs(cpus=1)), Queued(4, 5, needs(gpus=1))],
        held,
    )
    assert made.start == [4]
    assert made.reasons == {
        2: "waits for 3 cpus; 1 of 4 free",
        3: "waits for 1 cpu, which job 2 (priority 5) needs first",
    }
    made = run([Queued(2, 5, needs(memory=4)), Queued(3, 5, needs(cpus=9))], held)
    assert made.reasons == {2: "waits for 4 GiB of memory; 3 of 8 GiB free"}
    assert made.impossible == {3: "needs 9 cpus, and this machine has 4 cpus"}


def test_the_lowest_and_youngest_gives_way() -> None:
    held = [Held(1, 2, needs(cpus=2)), Held(2, 1, needs(cpus=1)), Held(3, 1, needs(cpus=1))]
    assert run([Queued(4, 5, needs(cpus=1))], held).preempt == {3: 4}
    assert run([Queued(4, 5, needs(cpus=2))], held).preempt == {2: 4, 3: 4}
    assert run([Queued(4, 2, needs(cpus=4))], held).preempt == {}
    stopping = [Held(1, 2, needs(cpus=4), stopping=True)]
    assert run([Queued(4, 5, needs(cpus=4))], stopping).preempt == {}


def test_a_thousand_jobs_are_decided_at_once() -> None:
    waiting = [Queued(i, 1 + i % 9, needs(cpus=0.5 + i % 4)) for i in range(1000)]
    made = run(waiting, [])
    assert len(made.start) + len(made.reasons) == 1000 and made.start
