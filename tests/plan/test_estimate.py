"""Times of collectives and steps: against sums done by hand, and what must hold of any."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from drumline.plan import report
from drumline.plan.compiled.program_text import Collective, ProgramTextError
from drumline.plan.estimate import (
    HOP_SECONDS,
    NETWORK_SECONDS,
    StepEstimate,
    collective_seconds,
    efficiencies,
    estimate,
    estimate_text,
)
from drumline.plan.hardware import CHIPS, Known, group_of

PROGRAMS = Path(__file__).parent / "programs"


def step_of(program: str, hardware: str) -> StepEstimate:
    return estimate_text((PROGRAMS / f"{program}.hlo").read_text(), group_of(hardware))


def collective(kind: str = "all-reduce", size: float = 1e9, group: int = 8) -> Collective:
    return Collective(kind, size, {"f32": size}, 1.0, group, "", False, "")


def seconds(hardware: str, kind: str = "all-reduce", size: float = 1e9, group: int = 8) -> float:
    known = collective_seconds(collective(kind, size, group), group_of(hardware), 8)
    assert (known.unit, known.how) == ("s", "model")
    return known.value


def test_an_all_reduce_over_a_whole_pod() -> None:
    """Both axes of 16 x 16 chips carry parts, in both directions: 4 links of 50 GB/s."""
    sent = 2 * 1e9 * 255 / 256
    assert seconds("tpu-v5e-256") == pytest.approx(sent / 200e9 + 2 * 16 * HOP_SECONDS)
    # Google's page: 51.2 TB/s for all-reduces of a pod, which is 200 GB/s a chip.
    assert 256 * 200e9 == 51.2e12


def test_rows_without_joined_ends_carry_half() -> None:
    """16 chips of v5e are 4 x 4, whose ends are not joined; 64 of v5p are, from 4 on."""
    assert seconds("tpu-v5e-16") == pytest.approx(2e9 * 15 / 16 / 100e9 + 12 * HOP_SECONDS)
    assert seconds("tpu-v5p-64") == pytest.approx(2e9 * 63 / 64 / 600e9 + 12 * HOP_SECONDS)


def test_slices_reduce_their_shares_over_the_network() -> None:
    one, two, more = (seconds(f"tpu-v5e-{slices}x256") for slices in (1, 2, 32))
    network = CHIPS["v5e"].network.value
    assert two - one == pytest.approx(2 * 1e9 / 256 / 2 / network + 2 * NETWORK_SECONDS)
    assert more - one == pytest.approx(2e9 / 256 * 31 / 32 / network + 10 * NETWORK_SECONDS)


@pytest.mark.parametrize("hardware", ["tpu-v5e-256", "tpu-v5p-64", "gpu-h100-8", "gpu-h100-64"])
def test_what_must_hold_of_all(hardware: str) -> None:
    gather, scatter = (seconds(hardware, kind) for kind in ("all-gather", "reduce-scatter"))
    assert gather == scatter == pytest.approx(seconds(hardware) / 2)
    for kind in ("all-reduce", "all-gather", "all-to-all", "collective-permute"):
        small, large = (seconds(hardware, kind, size) for size in (1e3, 1e9))
        assert 0 < small < large


def test_a_collective_over_some_devices_stays_among_neighbours() -> None:
    """Two of the eight that the program was compiled for, whatever the group's size."""
    assert seconds("tpu-v5e-256", group=2) == seconds("tpu-v5e-4x256", group=2)
    assert seconds("tpu-v5e-1") == 0.0


def test_a_step_s_time_is_of_cycles_and_collectives() -> None:
    step = step_of("data_parallel", "tpu-v5e-8")
    assert step.computing.value == pytest.approx(10842 / 1.5e9)
    assert step.computing.how == "compiler's cycles"
    (reduced,) = step.collectives
    assert step.waiting.value == reduced.seconds.value > 0 and step.hidden.value == 0
    assert step.step.value == pytest.approx(step.computing.value + step.waiting.value)
    assert sum(layer.share for layer in step.layers) == pytest.approx(1)
    assert [layer.seconds.value for layer in step.layers] == sorted(
        (layer.seconds.value for layer in step.layers), reverse=True
    )
    peak = step.share_of_peak(34_766_848)
    assert peak.value == pytest.approx(34_766_848 / step.step.value / 197e12) and peak.value < 1


def test_what_runs_beside_work_costs_nothing_until_it_takes_longer() -> None:
    step = step_of("overlapped", "tpu-v5e-256")
    assert 0 < step.hidden.value < step.computing.value
    assert step.step.value == pytest.approx(step.computing.value + step.waiting.value)
    slow = step_of("overlapped", "tpu-v5e-64x16")
    assert slow.hidden.value > slow.computing.value
    assert slow.step.value == pytest.approx(slow.hidden.value + slow.waiting.value)


def test_a_loop_s_work_counts_each_time_and_without_an_estimate_by_its_bytes() -> None:
    step = step_of("loop", "tpu-v5e-8")
    by_bytes = step.computing.value - (12 * (1957 + 4319) + 2019) / 1.5e9
    bytes_ = sum(work.bytes * work.times for work in step.without_estimate)
    assert bytes_ > 64 * 256 * 2
    assert by_bytes == pytest.approx(2 * bytes_ / 819e9)


def test_efficiencies_are_of_one_chip_and_at_most_1() -> None:
    step = step_of("data_parallel", "tpu-v5e-256")
    found = efficiencies(step)
    assert [chips for chips, _ in found] == [1 << power for power in range(11)]
    assert found[0][1].value == 1
    assert all(0 < known.value <= 1 and known.how == "model" for _, known in found)
    assert found[-1][1].value < found[8][1].value, "over the network it is slower"


def test_a_gpu_s_kernels_take_what_peak_or_bandwidth_give() -> None:
    """No cycles: each computes at the peak, or moves at the bandwidth, whichever takes longer."""
    step = step_of("gpu", "gpu-h100-8")
    work = {each.name: each for each in step.summary.work}
    # Three passes of a convolution have the same products: of each output, 3 x 3 x 64.
    convolution = 2.0 * (8 * 14 * 14 * 128) * (3 * 3 * 64)
    for name in ("forward", "filter", "input"):
        assert work[name].products == {"bf16": convolution}, name
    assert work["product"].products == {"bf16": 2.0 * 64 * 32 * 16}
    assert work["gemm"].products == {"f32": 2.0 * 64 * 64 * 128}
    assert work["new"].products == {} and work["new"].moved == 3 * 4096
    images, output, kernel = 8 * 14 * 14 * 64 * 2, 8 * 14 * 14 * 128 * 2, 128 * 9 * 64 * 2
    assert work["forward"].moved == images + output + kernel
    assert step.products == 3 * convolution + 2.0 * 64 * 32 * 16 + 2.0 * 64 * 64 * 128
    peak, bandwidth = 989.4e12, 3.35e12
    assert convolution / peak > (images + output + kernel) / bandwidth
    by_place = {layer.name: layer.seconds.value for layer in step.layers}
    assert by_place["conv"] == pytest.approx(convolution / peak)
    assert by_place["conv, backward"] == pytest.approx(2 * convolution / peak)
    assert by_place["sgd"] == pytest.approx(3 * 4096 / bandwidth)
    # float32 at half of the peak, but for small matrices it is what they move that counts.
    assert by_place["last"] == pytest.approx(4 * (64 * 64 + 2 * 64 * 128) / bandwidth)
    assert step.computing.how == "model" and "none reaches it" in step.computing.source
    assert step.computing.value == pytest.approx(sum(by_place.values()))
    assert step.hidden.value > 0 == step.waiting.value


def test_no_time_without_cycles_or_links() -> None:
    with pytest.raises(ValueError, match="No time can be planned for cpu-4x2: no compiler's"):
        step_of("gpu", "cpu-4x2")
    with pytest.raises(ValueError, match=r"cpu-4x2 cannot be planned: this machine"):
        seconds("cpu-4x2")
    with pytest.raises(ProgramTextError, match="no compiled program's text"):
        estimate_text("", group_of("tpu-v5e-8"))


def test_the_page_says_how_each_number_was_got() -> None:
    step = step_of("overlapped", "tpu-v5e-256")
    parts = report.step_sections(step)
    page = report.markdown(parts)
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    hows = {row[2] for row in rows if len(row) == 4 and row[2] not in ("how", "---")}
    assert hows == {"compiler's cycles", "model", "published"}
    first = parts[0].rows[0]
    assert (first[0], first[1].unit, first[1].value) == ("step", "s", step.step.value)
    assert all(known.how and known.source for part in parts for _, known in part.rows)
    written = io.StringIO()
    report.print_report(parts, Console(file=written, width=200))
    for section in parts:
        for name, known in section.rows:
            assert report.shown(known) in page and report.shown(known) in written.getvalue()
            assert name in page


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0012, "s", "1.20 ms"),
        (0.99999, "s", "1.00 s"),
        (12.5e-6, "s", "12.5 µs"),
        (197e12, "FLOP/s", "197 TFLOP/s"),
        (16e9, "B", "16.0 GB"),
        (512.0, "B", "512 B"),
        (0.973, "", "97.3 %"),
        (0.0, "s", "0 s"),
    ],
)
def test_numbers_have_three_digits(value: float, unit: str, text: str) -> None:
    assert report.shown(Known(value, unit, "model", "")) == text  # type: ignore[arg-type]
    assert report.shown(Known(0.0, "B", "assumed", "")) == "not known"


def test_a_program_for_several_slices_has_its_part_between_them_apart() -> None:
    """For 2 slices of 8: in a slice, between slices for each chip's share, and in a slice."""
    text = (PROGRAMS / "two_slices.hlo").read_text()
    step = estimate_text(text, group_of("tpu-v5e-2x8"), compiled_slices=2)
    scatter, between, gather = step.collectives
    kinds = [each.collective.kind for each in step.collectives]
    assert kinds == ["reduce-scatter", "all-reduce", "all-gather"]
    assert between.collective.network and between.collective.bytes == 512 * 512 * 4 / 8
    whole = collective("all-reduce", 512 * 512 * 4, 16)
    apart = sum(each.seconds.value for each in step.collectives)
    together = collective_seconds(whole, group_of("tpu-v5e-2x8"), 16).value
    assert apart == pytest.approx(together)
    one, larger = (
        estimate(step.summary, group_of(name), 8, compiled_slices=2)
        for name in ("tpu-v5e-64", "tpu-v5e-2x64")
    )
    assert one.collectives[1].seconds.value == 0
    found = larger.collectives[1].seconds.value - 2 * NETWORK_SECONDS
    assert found == pytest.approx((between.seconds.value - 2 * NETWORK_SECONDS) / 8)
    assert one.collectives[0].seconds.value > scatter.seconds.value and gather.seconds.value > 0
