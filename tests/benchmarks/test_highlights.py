"""What README and the documentation say of the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.cli import RESULTS
from benchmarks.harness.process import ROOT
from benchmarks.report import highlights, store
from benchmarks.workloads import WORKLOADS


@pytest.fixture(scope="module")
def results() -> list[dict[str, Any]]:
    return store.load_all(RESULTS, WORKLOADS)


def test_readme_and_the_page_have_the_figures_of_the_results(results: list[dict[str, Any]]) -> None:
    advice = "run python -m benchmarks --render"
    readme = (ROOT / "README.md").read_text()
    assert readme == highlights.with_figures(readme, results), advice
    assert (ROOT / highlights.PAGE).read_text() == highlights.page(results), advice
    for chart in (highlights.CHART, highlights.SMALL_CHART):
        assert highlights.digest(results) in (ROOT / chart).read_text(), advice


def entry(name: str, ratio: float) -> dict[str, Any]:
    spread = {"low": ratio / 2, "median": ratio, "high": ratio * 2}
    return {"name": name, "speeds": {"later": {}}, "ratios": {"later": spread}}


def result(name: str, *contenders: dict[str, Any]) -> dict[str, Any]:
    summary = {"workload": name, "title": f"does {name}", "contenders": list(contenders)}
    return {"machine": {"processor": "a processor"}, "summary": summary}


def some_results() -> list[dict[str, Any]]:
    return [
        result("one", entry("drumline", 1), entry("tf.data", 8), entry("tf.data expert", 2)),
        result(
            "two", entry("tf.data", 2), entry("tf.data expert", 0.5), entry("tf.data ragged", 3)
        ),
        result("three", entry("tf.data", 6), entry("torch", 0.1)),
        result("four", entry("numpy", 0.5)),
        result("convnet_fit", entry("Keras on TensorFlow", 1.5), entry("Keras on JAX", 5)),
        result("resnet_fit", entry("Keras on TensorFlow", 1.25)),
        result("ps_embedding", entry("TensorFlow", 2.5)),
        result("ps_dense", entry("TensorFlow", 3.5)),
        result("all_reduce_1MB", entry("torch", 14)),
    ]


def test_the_fastest_of_several_programs_counts_as_such() -> None:
    one, two, three, *_ = highlights.compare(some_results())
    assert (one.usual[1], one.expert, one.expert_name) == (8, (1, 2, 4), "tf.data expert")
    assert (two.usual[1], two.expert, two.expert_name) == (2, (0.25, 0.5, 1), "tf.data expert")
    assert (three.usual[1], three.expert) == (6, None)


def test_claims_are_computed_and_name_what_is_slower() -> None:
    pipelines, training, processes = highlights.sentences(some_results())
    assert "6.00x the speed of tf.data (median of 3 pipelines" in pipelines
    assert "the least 2.00x" in pipelines and "1 of 2 are faster than drumline" in pipelines
    assert "1.50x" in training and "5.00x" in training and "1.25x" in training
    assert "2.50x" in processes and "3.50x" in processes and "14x" in processes


def test_work_that_layers_do_again_counts_once() -> None:
    again = [result(name, entry("tf.data", 90)) for name in highlights.LAYERS]
    assert highlights.sentences([*some_results(), *again]) == highlights.sentences(some_results())
    assert set(highlights.LAYERS) <= set(WORKLOADS)
    assert len(highlights.compare(again)) == len(again), "the table has them"


def test_figures_are_put_between_the_marks(tmp_path: Path) -> None:
    readme = f"# A\n\n{highlights.START}\nold\n{highlights.END}\n\n## B\n"
    (tmp_path / "README.md").write_text(readme)
    (tmp_path / "docs").mkdir()
    highlights.write(tmp_path, some_results())
    written = (tmp_path / "README.md").read_text()
    assert written.startswith("# A\n") and written.endswith(f"{highlights.END}\n\n## B\n")
    assert "old" not in written and max(map(len, written.splitlines())) <= 100
    chart = (tmp_path / highlights.CHART).read_text()
    assert highlights.digest(some_results()) in chart and "three" in chart and "four" not in chart


def test_a_readme_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="README"):
        highlights.with_figures("# A\n", some_results())


def test_a_first_step_is_compared_by_its_time_and_is_no_pipeline() -> None:
    first = entry("Keras on TensorFlow", 90)
    first["ratios"]["first_batch"] = {"low": 0.5, "median": 0.75, "high": 1.0}
    steps = [result("first_step", first), result("central_storage", entry("TensorFlow", 90))]
    assert highlights.sentences([*some_results(), *steps]) == highlights.sentences(some_results())
    assert highlights.compare(steps)[0].usual == (0.5, 0.75, 1.0)
    assert highlights.METRICS.keys() < set(highlights.TRAINING) <= set(WORKLOADS)
