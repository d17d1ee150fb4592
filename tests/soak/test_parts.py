"""The parts of the soak by themselves: plans, disks, clocks, the record and the report."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from tests.network_namespaces import two_hosts
from tests.soak import clock, disk, record, report
from tests.soak.faults import KINDS, Fault, plan
from tests.soak.jobs import LOOPS, TOPOLOGIES, Folder, Job, Step
from tests.soak.record import Record
from tests.soak.runner import Outcome, Struck

ALL = ["mounts", "namespaces", "compiler"]
needs_mounts = pytest.mark.skipif(not disk.can_mount(), reason="this machine forbids mounts")


def test_plans_follow_from_the_seed_and_have_all_kinds_that_fit() -> None:
    seen = set()
    for topology in TOPOLOGIES:
        job = Job.draw(topology, "custom", 0)
        for number in range(60):
            faults = plan(job, random.Random(number), ALL)
            assert faults == plan(job, random.Random(number), ALL)
            assert 1 <= len(faults) <= 4 and faults[0].moment != "start"
            for fault in faults:
                assert KINDS[fault.kind].fits(job) and fault.task in job.tasks
                assert 0 <= fault.step < job.total_steps - 1
                seen.add(fault.kind)
    assert seen == KINDS.keys()


def test_what_a_machine_lacks_is_left_out() -> None:
    job = Job.draw("hosts", "custom", 0)
    kinds = {fault.kind for n in range(200) for fault in plan(job, random.Random(n), ["compiler"])}
    assert kinds == {name for name, kind in KINDS.items() if kind.needs in ("", "compiler")}


def test_jobs_are_told_apart_by_their_names() -> None:
    jobs = [Job.draw(each, loop, n) for each in TOPOLOGIES for loop in LOOPS for n in (0, 1)]
    assert len({job.name for job in jobs}) == len(set(jobs)) == 20
    assert [Job.from_json(job.to_json()) for job in jobs] == jobs


def test_a_step_that_came_out_otherwise_when_taken_again_is_seen(tmp_path: Path) -> None:
    folders = [Folder(tmp_path / name) for name in ("undisturbed", "repeated", "other")]
    for folder in folders:
        folder.write_result("worker:0", {"weights": "w"})
        for number, value in ((1, "a"), (2, "b")):
            folder.write_step(Step(number, value, 0.0))
    folders[1].write_step(Step(2, "b", 5.0))
    folders[2].write_step(Step(1, "A", 5.0))
    with (tmp_path / "repeated" / "steps").open("a") as steps:
        steps.write('{"number": 3, "va')
    results = [folder.result() for folder in folders]
    assert results[0] == results[1] and results[0]["worker:0 weights"] == "w"
    assert record.differing(results[0], results[2]) == ["steps"]


def test_a_job_waits_at_the_gate(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.wait_at_gate(9)
    folder.set_gate(3)
    folder.wait_at_gate(3)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(folder.wait_at_gate, 4)
        assert not wait([waiting], 0.1).done
        folder.set_gate(None)
        waiting.result(30)


@needs_mounts
def test_a_disk_is_full_and_read_only_for_a_while(tmp_path: Path) -> None:
    with disk.mounted(tmp_path):
        (tmp_path / "saved").write_bytes(b"saved")
        with (tmp_path / "open").open("wb") as opened:
            with disk.read_only(tmp_path):
                with pytest.raises(OSError, match="Read-only"):
                    (tmp_path / "new").write_bytes(b"x")
                assert (tmp_path / "saved").read_bytes() == b"saved"
            opened.write(b"x")
        disk.fill(tmp_path)
        with pytest.raises(OSError, match="No space"):
            (tmp_path / "new").write_bytes(bytes(8192))
        disk.empty(tmp_path)
        (tmp_path / "new").write_bytes(bytes(8192))
        assert (tmp_path / "saved").read_bytes() == b"saved"
    assert not (tmp_path / "saved").exists()


def test_damage_changes_the_latest_save_or_the_index(tmp_path: Path) -> None:
    names = ["ckpt-9.safetensors", "ckpt-10.safetensors", "ckpt-10.servers/part", "checkpoint"]
    names += ["checkpoint.lock", "table.csv"]
    changed = set()
    for seed in range(30):
        before = {}
        for name in names:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(name.encode() * 10)
            before[name] = (tmp_path / name).read_bytes()
        said = disk.damage(tmp_path, random.Random(seed))
        (now,) = (name for name, data in before.items() if (tmp_path / name).read_bytes() != data)
        assert Path(now).name in said
        changed.add(now)
    assert changed == set(names[1:4])


def test_the_only_save_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ckpt-1.safetensors").write_bytes(b"saved")
    assert "nothing was damaged" in disk.damage(tmp_path, random.Random(0))
    assert (tmp_path / "ckpt-1.safetensors").read_bytes() == b"saved"


def test_what_is_being_saved_is_seen(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "ckpt-1.safetensors").touch()
    assert not disk.saving(tmp_path)
    (tmp_path / "checkpoints" / "ckpt-2.safetensors.unfinished").touch()
    assert disk.saving(tmp_path)


@pytest.mark.skipif(clock.library() is None, reason="there is no C compiler")
def test_the_clock_of_one_process_jumps_and_nothing_else(tmp_path: Path) -> None:
    look = "import time; print(time.time(), time.monotonic(), flush=True); input()\n"
    environment = clock.environment(tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", look * 2],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        first = [float(each) for each in process.stdout.readline().split()]
        clock.move(tmp_path / "clock", -9000 * 3600)
        process.stdin.write("\n")
        process.stdin.flush()
        second = [float(each) for each in process.stdout.readline().split()]
        process.stdin.write("\n")
        process.stdin.flush()
    passed, passed_monotonic = (after - before for before, after in zip(first, second, strict=True))
    assert passed == pytest.approx(passed_monotonic - 9000 * 3600, abs=0.5)


def outcome(end: str, kinds: list[str], lost: float) -> Outcome:
    faults = [Fault(kind, "step", 3, 0.0, "worker:0", 0, 0.0, 1) for kind in kinds]
    struck = [Struck(fault, f"a {fault.kind}", 4, 10.0, lost) for fault in faults]
    return Outcome(end, {"steps": end}, struck, 20.0, 1)  # type: ignore[arg-type]


def test_a_record_goes_on_where_it_stopped(tmp_path: Path) -> None:
    job = Job.draw("single", "custom", 0)
    path = tmp_path / "made" / "soak.jsonl"
    first = Record(path, "tree", seed=1)
    assert (first.next_run(), first.faults(), first.reference(job)) == (0, 0, None)
    first.add_reference(job, outcome("identical", [], 0.0))
    first.add_run(0, job, outcome("identical", ["kill", "pause"], 7.0), planned=3)
    path.write_text(path.read_text() + '{"commit": "whose writer was ki\n')
    again = Record(path, "tree", seed=1)
    assert (again.next_run(), again.faults()) == (1, 2)
    assert again.reference(job) == {"steps": "identical"}
    assert Record(path, "tree", seed=2).next_run() == 0
    assert Record(path, "tree", seed=2).faults() == 2, "seeds count together"
    changed = Record(path, "another tree", seed=1)
    assert (changed.next_run(), changed.faults(), changed.reference(job)) == (0, 0, None)
    whole = [line for line in path.read_text().splitlines() if line.endswith("}")]
    assert all({"commit", "tree"} <= json.loads(line).keys() for line in whole)


def test_the_tree_is_what_its_sources_are(tmp_path: Path) -> None:
    for name in ("drumline/a.py", "rust/src/b.rs", "tests/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    before = record.tree_digest(tmp_path)
    for name in ("tests/c.py", "drumline/_core.abi3.so", "drumline/__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("changed")
    assert record.tree_digest(tmp_path) == before
    (tmp_path / "rust/src/b.rs").write_text("changed")
    assert record.tree_digest(tmp_path) != before


def test_the_report_counts_faults_and_names_defects(tmp_path: Path) -> None:
    job = Job.draw("single", "fit", 0)
    kept = Record(tmp_path / "soak.jsonl", "tree", seed=1)
    kept.add_reference(job, outcome("identical", [], 0.0))
    kept.add_run(0, job, outcome("identical", ["kill", "pause"], 7.0), planned=2)
    kept.add_run(1, job, outcome("different", ["kill"], 90.0), planned=2)
    rows = report.table(kept.lines()).splitlines()
    assert rows[2] == "| kill | 2 | 1 | 1 | 0 | 0 | 7.0 | 7.0 |"
    assert rows[4] == "| **all** | 3 | 2 | 1 | 0 | 0 | 7.0 | 7.0 |"
    (defect,) = report.defects(kept.lines())
    assert defect == f"run 1 of seed 1, {job.name}: different after a kill at step 4 (steps)"
    report.picture(kept.lines(), tmp_path / "made" / "soak.png")
    assert (tmp_path / "made" / "soak.png").read_bytes().startswith(b"\x89PNG")


@needs_mounts
def test_a_disk_is_read_only_on_hosts_of_their_own_too(tmp_path: Path) -> None:
    with disk.mounted(tmp_path), two_hosts() as hosts:
        write = ["sh", "-c", f"echo; read line; echo $line > {tmp_path}/here"]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        writers = [hosts.run(0, write, **pipes) for _ in "ab"]
        for writer in writers:
            writer.stdout.readline()  # it has its own mounts by now
        with disk.read_only(tmp_path):
            _, said = writers[0].communicate(b"first\n")
            assert writers[0].returncode != 0 and b"Read-only" in said
        writers[1].communicate(b"second\n")
        assert writers[1].returncode == 0 and (tmp_path / "here").read_text() == "second\n"


def test_the_page_says_what_the_record_says() -> None:
    folder = Path(__file__).parent
    lines = record.read(folder / "record.jsonl")
    assert len({line["tree"] for line in lines}) == 1 and report.defects(lines) == []
    assert sum(len(line["faults"]) for line in lines if "run" in line) >= 300
    page = (folder.parents[1] / "docs" / "training" / "checkpoints.md").read_text()
    assert report.table(lines) in page
