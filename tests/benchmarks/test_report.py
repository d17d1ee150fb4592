import json

import pytest
from matplotlib import image
from rich.console import Console

from benchmarks.harness.floors import Floor
from benchmarks.harness.process import Failure
from benchmarks.harness.schedule import Rounds
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.report import markdown, picture, store
from benchmarks.report.console import print_summary
from benchmarks.report.numbers import duration, rate, times
from benchmarks.report.summary import summarize

SCALE = Scale(elements=100, batch_size=10, later_epochs=1)


def contender(name):
    return Contender(name, f"how {name} does it", (), lambda scale: None)


WORKLOAD = Workload(
    name="made_up",
    title="a made-up workload",
    unit="elements",
    baseline="peer",
    full=SCALE,
    quick=SCALE,
    contenders=tuple(map(contender, ("drumline", "peer", "broken", "absent", "unasked"))),
    floors=(
        Floor("later", at_least=4.0, aim=6.0, against="peer"),
        Floor("first", at_least=3.0, against="peer"),
        Floor("later", aim=0.5, against="absent"),
        Floor("later", at_least=100.0),
    ),
    check=lambda scale, measurements: {},
)


@pytest.fixture
def summary(make):
    return summarize(WORKLOAD, SCALE, rounds(make), {"absent": "torch not installed"}, quick=False)


def rounds(make):
    ours = [make(first_epoch_s=1.0, later_epochs_s=(s,)) for s in (0.1, 0.2, 0.3)]
    peer = [make(first_epoch_s=2.0, later_epochs_s=(s,)) for s in (0.5, 1.0, 1.2)]
    return Rounds(
        runs={"drumline": ours, "peer": peer, "broken": [None] * 3},
        process_s={"drumline": [1.0] * 3, "peer": [2.0] * 3, "broken": []},
        failures={"broken": Failure("wrong", "delivered other content", "secret/path")},
    )


def test_the_summary_tells_what_became_of_each_contender(summary):
    statuses = {entry["name"]: entry["status"] for entry in summary["contenders"]}
    assert statuses == {"drumline": "ok", "peer": "ok", "broken": "wrong", "absent": "skipped"}
    assert summary["rounds"] == 3


def test_the_summary_compares_within_rounds(summary):
    peer = next(entry for entry in summary["contenders"] if entry["name"] == "peer")
    assert peer["ratios"]["later"] == pytest.approx({"low": 4.0, "median": 5.0, "high": 5.0})
    assert peer["ratios"]["first"]["median"] == pytest.approx(2.0)


def test_the_summary_judges_floors(summary):
    assert [floor["outcome"] for floor in summary["floors"]] == [
        "pass",
        "miss",
        "not measured",
        "pass",
    ]
    assert [floor["reached_aim"] for floor in summary["floors"]] == [False] * 4


def test_a_trial_judges_nothing(make):
    trial = summarize(WORKLOAD, SCALE, rounds(make), {}, quick=True)
    assert {floor["outcome"] for floor in trial["floors"]} == {"not judged"}


def test_the_summary_without_ours_has_no_ratios(make):
    alone = rounds(make)
    del alone.runs["drumline"]
    summary = summarize(WORKLOAD, SCALE, alone, {}, quick=False)
    assert summary["contenders"][0]["ratios"] == {}
    assert {floor["outcome"] for floor in summary["floors"]} == {"not measured"}


def test_the_terminal_shows_it(summary):
    console = Console(width=160, record=True, force_terminal=False)
    print_summary(console, summary)
    text = console.export_text()
    for part in ("a made-up workload", "5.00x", "wrong: delivered other content", "miss", "4.00x"):
        assert part in text


def test_markdown_shows_it(summary, tmp_path):
    store.save(tmp_path, summary)
    page = markdown.render(store.load_all(tmp_path, ["missing", "made_up"]))
    assert "| drumline | 10.0 ms | 100 | 500 (333 .. 1.00 k) |  |  | 0.5 s |" in page
    assert (
        "| peer | 10.0 ms | 50.0 | 100 (83.3 .. 200) | 2.00x | 5.00x (4.00x .. 5.00x) | 0.5 s |"
    ) in page
    assert "| absent | skipped: torch not installed |" in page
    assert "| later epochs / peer | 4.00x | 6.00x | 5.00x | pass |" in page
    assert "| first epoch / peer | 3.00x | - | 2.00x | miss |" in page
    assert "- **peer**: how peer does it." in page


def test_stored_results_name_no_paths(summary, tmp_path):
    stored = json.loads(store.save(tmp_path, summary).read_text())
    assert stored["summary"] == summary
    assert set(stored["machine"]) == {"cores", "processor", "memory_gib", "system"}
    assert "secret/path" not in json.dumps(stored)


def test_the_picture_is_drawn(summary, tmp_path):
    nothing = summary | {"contenders": []}
    picture.draw([summary, nothing, summary], tmp_path / "results.png")
    pixels = image.imread(tmp_path / "results.png")
    assert min(pixels.shape[:2]) > 300
    assert pixels[..., :3].std() > 0.01


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.561, "4.56"),
        (51_234.0, "51.2 k"),
        (999_900.0, "1.00 M"),
        (999.4, "999"),
        (999.9, "1.00 k"),
        (1.7e6, "1.70 M"),
    ],
)
def test_rates(value, text):
    assert rate(value) == text


def test_durations_and_ratios():
    assert duration(0.0125) == "12.5 ms"
    assert duration(9.96) == "9.96 s"
    assert times(0.85) == "0.85x"
    assert times(123.4) == "123x"
