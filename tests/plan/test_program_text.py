"""What is read in the text of compiled programs, by texts that libtpu made (`programs/`)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from drumline.plan.compiled.program_text import (
    CompiledProgram,
    ProgramTextError,
    Summary,
    type_bytes,
)

PROGRAMS = Path(__file__).parent / "programs"


def text(name: str) -> str:
    return (PROGRAMS / f"{name}.hlo").read_text()


def summary(name: str) -> Summary:
    return CompiledProgram(text(name)).summary()


def collectives(found: Summary) -> list[tuple[str, float, float, int, bool]]:
    return [(c.kind, c.bytes, c.times, c.group, c.overlapped) for c in found.collectives]


def test_cycles_and_the_collective_of_a_step_of_data_parallelism() -> None:
    """A product of 64 x 256 with 256 x 512 on each of 8 chips, and the sum of its gradient."""
    found = summary("data_parallel")
    assert collectives(found) == [("all-reduce", 256 * 512 * 2, 1, 8, False)]
    assert found.collectives[0].algorithm == "StrategyRing"
    assert found.collectives[0].dtypes == {"bf16": 256 * 512 * 2}
    assert found.cycles == 10842 and not found.without_estimate and not found.unknown_loops
    assert [work.cycles for work in found.work] == sorted(
        (work.cycles for work in found.work), reverse=True
    )


def test_a_loops_body_counts_as_often_as_it_runs() -> None:
    """12 layers by `scan`; this compiler does not write down how often its loops run."""
    assert "known_trip_count" not in text("loop")
    found = summary("loop")
    assert found.cycles == 12 * (1957 + 4319) + 2019
    assert {work.times for work in found.work if work.cycles} == {12, 1}
    assert found.unknown_loops == ()
    (sum_,) = found.collectives
    assert (sum_.kind, sum_.bytes, sum_.times) == ("all-reduce", 512, 1)


def test_how_often_a_loop_runs_is_taken_from_the_text_where_it_is_written() -> None:
    written = text("loop").replace(
        "body=%wide.region_0.1_spmd.sunk,",
        'body=%wide.region_0.1_spmd.sunk, backend_config={"known_trip_count":{"n":"5"}},',
    )
    assert CompiledProgram(written).summary().cycles == 5 * (1957 + 4319) + 2019


SUNK = "constant.3.clone.1..sunk = s32[]{:T(128)}"


@pytest.mark.parametrize(
    ("old", "new", "times"),
    [
        ("direction=LT", "direction=LE", 13),
        ("s32[]{:T(128)} constant(0), ", "s32[]{:T(128)} constant(3), ", 9),
        (f"{SUNK} constant(1)", f"{SUNK} constant(5)", 3),
        ("direction=LT", "direction=GT", None),
        ("s32[]{:T(128)} constant(12), ", "s32[]{:T(128)} parameter(1), ", None),
    ],
)
def test_a_loops_start_step_and_end_count(old: str, new: str, times: int | None) -> None:
    assert old in text("loop")
    found = CompiledProgram(text("loop").replace(old, new)).summary()
    assert found.cycles == (times or 1) * (1957 + 4319) + 2019
    assert found.unknown_loops == (() if times else ("while.10",))


def test_gathered_weights_and_scattered_gradients() -> None:
    whole = 1024 * 1024 * 2
    assert collectives(summary("zero")) == [
        ("all-gather", whole, 1, 8, False),
        ("reduce-scatter", whole, 1, 8, False),
    ]


def test_a_collective_beside_work_stands_three_times_and_counts_once() -> None:
    lines = [line for line in text("overlapped").splitlines() if " all-gather(" in line]
    assert len(lines) == 4 and sum('chain_id="0"' in line for line in lines) == 3
    whole = 2048 * 2048 * 2
    found = summary("overlapped")
    assert sorted(collectives(found)) == [
        ("all-gather", whole, 1, 8, False),
        ("all-gather", whole, 1, 8, True),
        ("reduce-scatter", whole, 1, 8, False),
        ("reduce-scatter", whole, 1, 8, False),
    ]
    names = {work.name for work in found.work}
    assert not {"async-collective-start", "async-collective-done"} & names


def test_other_collectives() -> None:
    assert collectives(summary("others")) == [
        ("collective-permute", 64 * 1024 * 4, 1, 8, True),
        ("all-to-all", 64 * 1024 * 4, 1, 8, False),
    ]


def test_groups_of_devices_in_each_form_that_the_text_has() -> None:
    """The compiler that partitions a program itself writes axes of a mesh."""
    assert "replica_groups=mesh['axis_0'=8,'axis_1'=1] {'axis_0'}" in text("partitioned")
    assert collectives(summary("partitioned")) == [("all-gather", 8 * 1024 * 4, 1, 8, False)]
    listed = "replica_groups={{0,1,2,3,4,5,6,7}}"
    for form, devices in (("{{0,1},{2,3},{4,5},{6,7}}", 2), ("[2,4]<=[8]", 4), ("{}", 8)):
        changed = text("zero").replace(listed, f"replica_groups={form}")
        assert {c.group for c in CompiledProgram(changed).summary().collectives} == {devices}
    assert CompiledProgram(changed).devices == 8


BRANCHES = """HloModule m

%cheap (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %f.1 = f32[4]{0} fusion(%p), calls=%none, backend_config={"estimated_cycles":"10"}
}

%dear (q: f32[4]) -> f32[4] {
  %q = f32[4]{0} parameter(0)
  ROOT %f.2 = f32[4]{0} fusion(%q), calls=%none, backend_config={"estimated_cycles":"70"}
}

ENTRY %main (i: s32[], x: f32[4]) -> f32[4] {
  %i = s32[] parameter(0)
  %x = f32[4]{0} parameter(1)
  ROOT %c = f32[4]{0} conditional(%i, %x, %x), branch_computations={%cheap, %dear}
}
"""


def test_of_branches_the_dearest_counts() -> None:
    assert CompiledProgram(BRANCHES).summary().cycles == 70


def test_computations_in_a_circle_are_refused() -> None:
    circle = BRANCHES.replace(
        "ROOT %f.1 = f32[4]{0} fusion(%p), calls=%none",
        "ROOT %f.1 = f32[4]{0} call(%p), to_apply=%main",
    )
    with pytest.raises(ProgramTextError, match="main calls itself"):
        CompiledProgram(circle).summary()


@pytest.mark.parametrize(
    ("type_", "bytes_"),
    [
        ("f32[2,3]{1,0}", {"f32": 24}),
        ("(bf16[4]{0:T(256)}, pred[3], /*index=2*/s64[])", {"bf16": 8, "pred": 3, "s64": 8}),
        ("f8e4m3fn[16]", {"f8e4m3fn": 16}),
        ("s4[3]", {"s4": 1.5}),
        ("c64[2]", {"c64": 16}),
        ("f32[<=8,2]", {"f32": 64}),
        ("token[]", {}),
        ("()", {}),
    ],
)
def test_bytes_of_types(type_: str, bytes_: dict[str, float]) -> None:
    assert type_bytes(type_) == bytes_


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("", "No line begins with ENTRY"),
        ("ENTRY %m (x: f32[]) -> f32[] {\n  nonsense\n}", "Line 2 is no instruction: 'nonsense'"),
        ("ENTRY %m () -> () {\n  %t = (f32[] tuple(\n}", "parenthesis of t is not closed"),
        ("ENTRY %m () -> f32[] {\n  %t = f32[] what\n}", "t has no operation"),
    ],
)
def test_what_is_no_program_is_refused(bad: str, message: str) -> None:
    with pytest.raises(ProgramTextError, match=message):
        CompiledProgram(bad)


def test_sizes_that_no_memory_has_are_refused() -> None:
    for bad in ("f32[x]", "f32[99999999999,99999999999]", "f32[9999999999999999999999]"):
        with pytest.raises(ProgramTextError, match="dimension|larger than any memory"):
            type_bytes(bad)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_texts_are_read_or_refused(seed: int) -> None:
    """Lines left out, swapped and cut; signs changed: a summary or a `ProgramTextError`, always."""
    draw = random.Random(seed)
    names = sorted(path.stem for path in PROGRAMS.glob("*.hlo"))
    signs = "(){}[]%=,\"0123456789 \n-<>'abex"
    refused = 0
    for _ in range(60):
        whole = text(draw.choice(names))
        lines = whole.splitlines(keepends=True)
        for _ in range(draw.randrange(4)):
            at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            del lines[draw.randrange(len(lines))]
        signs_of = list("".join(lines))
        for _ in range(draw.randrange(40)):
            signs_of[draw.randrange(len(signs_of))] = draw.choice(signs)
        damaged = "".join(signs_of)[
            : draw.randrange(len(signs_of)) if draw.random() < 0.3 else None
        ]
        try:
            CompiledProgram(damaged).summary()
        except ProgramTextError:
            refused += 1
    assert 0 < refused < 60


KERNEL = """\
HloModule step, num_partitions=1

ENTRY %main (q: bf16[2,4,256,128], k: bf16[2,1,512,128]) -> bf16[2,4,256,128] {
  %q = bf16[2,4,256,128]{3,2,1,0} parameter(0)
  %k = bf16[2,1,512,128]{3,2,1,0} parameter(1)
  %splash_mha_fwd_residuals.1 = (bf16[2,4,256,128]{3,2,1,0}, f32[2,4,256]{2,1,0}) custom-call(%q, %k, %k), custom_call_target="tpu_custom_call", operand_layout_constraints={s8[1,2,2]{2,1,0}, bf16[2,4,256,128]{3,2,1,0}, bf16[2,1,512,128]{3,2,1,0}, bf16[2,1,512,128]{3,2,1,0}, s32[2,256]{1,0}}, frontend_attributes={kernel_metadata={
"xprof_metadata":"{\\"block_q\\": 128}"
}}, metadata={op_name="jit(step)/attention/pallas_call"}, backend_config={"custom_call_config":{}}
  %other.1 = bf16[2,4,256,128]{3,2,1,0} custom-call(%q), custom_call_target="tpu_custom_call"
  ROOT %out = bf16[2,4,256,128]{3,2,1,0} fusion(%q), kind=kLoop, calls=%f, backend_config={"estimated_cycles":"77"}
}
"""  # noqa: E501


def test_kernels_of_attention_are_counted_by_their_operations() -> None:
    """The attributes of a kernel have line breaks, behind which the program goes on."""
    summary = CompiledProgram(KERNEL).summary()
    (kernel,) = (work for work in summary.work if work.operations is not None)
    products = 2 * (
        2 * (2 * 4 * 256 * 128) * 512
    )  # queries by keys, and what comes of it by values
    assert kernel.operations == products and kernel.op_name.endswith("attention/pallas_call")
    assert summary.cycles == 77, "what comes after the kernel is read"
    assert [work.name for work in summary.without_estimate] == ["other.1"]
