from benchmarks.harness.process import Failure, Run
from benchmarks.harness.schedule import run_rounds


def fine(measurements):
    return {}


def test_rounds_are_interleaved(make):
    order = []

    def launch(name):
        order.append(name)
        return Run(make(), 1.0)

    result = run_rounds(["a", "b", "c"], 3, launch, fine)
    assert "".join(order) == "abcabcabc"
    assert {name: len(runs) for name, runs in result.runs.items()} == {"a": 3, "b": 3, "c": 3}
    assert result.process_s["b"] == [1.0, 1.0, 1.0]
    assert result.failures == {}


def test_a_failed_contender_is_not_run_again_and_keeps_its_earlier_rounds(make):
    order = []
    broken = Failure("hang", "no result within 1 s")

    def launch(name):
        order.append(name)
        return Run(broken if order.count("b") == 2 and name == "b" else make(), 1.0)

    result = run_rounds(["a", "b"], 4, launch, fine)
    assert "".join(order) == "ababaa"
    assert result.failures == {"b": broken}
    assert [run is None for run in result.runs["b"]] == [False, True, True, True]
    assert all(run is not None for run in result.runs["a"])


def test_wrong_work_voids_all_rounds_of_a_contender(make):
    elements = iter([100, 100, 100, 1])

    def launch(name):
        return Run(make(elements=next(elements)), 1.0)

    def check(measurements):
        return {name: "too little" for name, m in measurements.items() if m.elements != 100}

    result = run_rounds(["honest", "cheat"], 2, launch, check)
    assert result.failures == {"cheat": Failure("wrong", "too little")}
    assert result.runs["cheat"] == [None, None]
    assert None not in result.runs["honest"]


def test_progress_hears_of_every_run(make):
    heard = []
    run_rounds(
        ["a", "b"],
        2,
        lambda name: Run(make(), 1.0),
        fine,
        lambda number, name, run: heard.append((number, name)),
    )
    assert heard == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
