"""Damaged and hostile files of arrays and tables: each ends in a documented error, or is read.

Another process reads them, so that one which ends the process is seen, and named by its number.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from drumline.data import Dataset
from drumline.errors import DataLossError

READER = r"""
import random, resource, sys, warnings
from pathlib import Path
from drumline.data import Dataset

kind, folder, first, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
warnings.simplefilter("ignore")
NUMBERS = [0, 1, -1, 1 << 31, (1 << 31) - 1, 1 << 62, -(1 << 63), 400]


def mutate(content, r):
    content = bytearray(content)
    for _ in range(r.choice([1, 1, 2, 4])):
        at = r.randrange(max(1, len(content)))
        match r.randrange(6):
            case 0:
                if content:
                    content[at] ^= 1 << r.randrange(8)
            case 1:
                size = r.choice([4, 8])
                number = r.choice(NUMBERS) % (1 << 8 * size)
                content[at & ~3 : (at & ~3) + size] = number.to_bytes(size, "little")
            case 2:
                del content[at:]
            case 3:
                content[at:at] = r.randbytes(r.randrange(1, 9))
            case 4:
                other = r.randrange(max(1, len(content)))
                content[at : at + 8] = content[other : other + 8]
            case 5:
                content[at : at + 1] = r.choice([b"[" * 5000, b"{", b"(", b"\\x00" * 64, b"9" * 30])
    return bytes(content)


def read():
    if kind == "stored":
        return list(Dataset.load(folder))
    return list(Dataset.from_arrow_ipc(str(folder / "t.arrow")))


files = sorted(path for path in folder.rglob("*") if path.is_file())
whole = {path: path.read_bytes() for path in files}
for seed in range(first, first + count):
    r = random.Random(seed)
    file = r.choice(files)
    print("seed", seed, file.name, flush=True)
    file.write_bytes(mutate(whole[file], r))
    try:
        read()
        print("read")
    except (ValueError, OSError) as error:
        print("refused", type(error).__name__)
    except TypeError as error:  # for a column's type, which damage may have made another one
        print("refused" if "has type" in str(error) else f"WRONG {error!r:.300}")
    except BaseException as error:
        print("WRONG", type(error).__name__, str(error)[:300].replace("\\n", " "))
    file.write_bytes(whole[file])
print("end", flush=True)
"""


def read_mutations(kind: str, folder: Path, first: int, count: int) -> list[str]:
    """What the reader says of each of so many files."""
    arguments = [kind, str(folder), str(first), str(count)]
    reader = subprocess.run(
        [sys.executable, "-c", READER, *arguments], capture_output=True, text=True, check=False
    )
    lines = reader.stdout.splitlines()
    assert reader.returncode == 0 and lines[-1] == "end", (lines[-3:], reader.stderr[-2000:])
    return lines


def check(kind: str, folder: Path, count: int) -> None:
    lines = read_mutations(kind, folder, 0, count)
    wrong = [(lines[i - 1], line) for i, line in enumerate(lines) if line.startswith("WRONG")]
    assert not wrong, wrong[:5]
    assert sum(line.startswith("refused") for line in lines) > count // 4, "most are damaged"


def store(folder: Path, *, checked: bool) -> None:
    names = np.array([b"item %d" % n for n in range(50)], object)
    rows = np.arange(100, dtype=np.float32).reshape(50, 2)
    Dataset.from_tensor_slices({"name": names, "x": rows}).save(folder)
    if not checked:  # as older releases stored it: what is damaged must do no harm
        import json

        text = json.loads((folder / "dataset.json").read_text())
        old = {key: text[key] for key in text.keys() - {"crc32", "checksums"}}
        (folder / "dataset.json").write_text(json.dumps(old))


def table(folder: Path, name: str) -> None:
    n = 50
    columns = {
        "text": pa.array([f"row {k}" for k in range(n)]),
        "large": pa.array([f"row {k}" for k in range(n)], pa.large_string()),
        "list": pa.array([list(range(k % 4)) for k in range(n)]),
        "texts": pa.array([[f"{k}"] * (k % 3) for k in range(n)]),
        "kind": pa.array(["a", "b"] * (n // 2)).dictionary_encode(),
        "x": pa.array(np.arange(n, dtype=np.float32)),
        "b": pa.array([k % 2 == 0 for k in range(n)]),
        "s": pa.array([{"u": k, "v": str(k)} for k in range(n)]),
    }
    rows = pa.table(columns)
    make = pa.ipc.new_file if name == "file" else pa.ipc.new_stream
    folder.mkdir()
    with make(str(folder / "t.arrow"), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=20)


@pytest.mark.parametrize("name", ["file", "stream"])
def test_hostile_arrow_files(tmp_path: Path, name: str) -> None:
    table(tmp_path / "t", name)
    check("arrow", tmp_path / "t", 400)


@pytest.mark.parametrize("checked", [True, False])
def test_hostile_stored_elements(tmp_path: Path, checked: bool) -> None:
    store(tmp_path / "a", checked=checked)
    check("stored", tmp_path / "a", 300)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["file", "stream"])
def test_many_hostile_arrow_files(tmp_path: Path, name: str) -> None:
    table(tmp_path / "t", name)
    check("arrow", tmp_path / "t", 10_000)


@pytest.mark.thorough
@pytest.mark.parametrize("checked", [True, False])
def test_many_hostile_stored_elements(tmp_path: Path, checked: bool) -> None:
    store(tmp_path / "a", checked=checked)
    check("stored", tmp_path / "a", 5_000)


def test_an_offset_that_leads_out_of_its_column(tmp_path: Path) -> None:
    """It ended the process: Arrow looks at the last offset alone, unless it is asked for more."""
    rows = pa.table({"b": [f"row {k}" for k in range(50)]})
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(str(path), rows.schema) as writer:
        writer.write_table(rows)
    content = path.read_bytes()
    offsets = b"".join(n.to_bytes(4, "little") for n in (0, 5, 10, 15))
    for number in (400, 2**31 - 1, -5):
        wrong = offsets[:8] + number.to_bytes(4, "little", signed=True) + offsets[12:]
        assert content.count(offsets) == 1
        path.write_bytes(content.replace(offsets, wrong))
        with pytest.raises(DataLossError, match="[Oo]ffset"):
            list(Dataset.from_arrow_ipc(str(path)))


def test_a_union_is_refused_by_name(tmp_path: Path) -> None:
    """One of 10,000 mutations made one of another type, which raised what is not documented."""
    kinds = pa.array([0, 1], pa.int8())
    union = pa.UnionArray.from_sparse(kinds, [pa.array([1, 2]), pa.array(["a", "b"])])
    rows = pa.table({"u": union, "x": pa.array([1, 2])})
    path = str(tmp_path / "t.arrow")
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows)
    with pytest.raises(TypeError, match="column 'u' has type sparse_union.*columns="):
        Dataset.from_arrow_ipc(path)
    assert [int(e["x"]) for e in Dataset.from_arrow_ipc(path, columns=["x"])] == [1, 2]


def test_text_that_is_no_utf_8_is_read_as_before(tmp_path: Path) -> None:
    raw = pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())
    rows = pa.table({"b": raw})
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    found = [bytes(e["b"]) for e in Dataset.from_arrow_ipc(str(tmp_path / "t.arrow"))]
    assert found == [b"\xff\xfe", b"a"]
