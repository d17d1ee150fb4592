"""``drumline checkpoint``: show, verify and convert."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import drumline as dl
from drumline.checkpoints.command import bytes_in
from drumline.cli import app
from tests.checkpoints.examples import TENSORS, plain, same, write_set


def run(*arguments: object) -> tuple[int, str]:
    words = ["checkpoint", *map(str, arguments)]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    return result.exit_code, result.output


def _of_3_gb(file: Path) -> None:
    """A file whose header has tensors of 3 GB, and whose bytes the disk does not have."""
    entry = {"dtype": "F32", "shape": [750, 1_000_000], "data_offsets": [0, 3_000_000_000]}
    text = json.dumps({"table": entry}).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text)
    with open(file, "r+b") as opened:
        opened.truncate(8 + len(text) + 3_000_000_000)


def test_show_reads_headers_alone_and_neither_jax_nor_keras(tmp_path: Path) -> None:
    file = tmp_path / "large.safetensors"
    _of_3_gb(file)
    write_set(tmp_path / "set", {"a": np.ones(2)}, {"b": np.ones(3)})
    program = f"""
import sys, tracemalloc
import drumline_command
from drumline.cli import command_line
tracemalloc.start()
for path in ({str(file)!r}, {str(tmp_path / "set")!r}):
    command_line(["checkpoint"])(["checkpoint", "show", path], standalone_mode=False)
assert tracemalloc.get_traced_memory()[1] < 100_000_000
assert not {{"jax", "keras"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "750 x 1000000" in done.stdout and "3.0 GB" in done.stdout
    assert "model-00002-of-00002" in done.stdout


def test_show(tmp_path: Path) -> None:
    path = dl.train.Checkpoint(v=dl.Variable([1.0, 2.0]), n=dl.Variable(3)).save(tmp_path / "ckpt")
    for given in (path, f"{path}.safetensors", tmp_path):
        code, text = run("show", given)
        assert code == 0
        for expected in ("v/variables/0", "format: drumline", "step: 1", "2, 3 values", "float32"):
            assert expected in text
    code, text = run("show", path, "--json")
    shown = json.loads(text)
    assert code == 0 and shown["format"] == "drumline" and shown["values"] == 3
    (entry,) = [each for each in shown["tensors"] if each["name"] == "v/variables/0"]
    assert (entry["shape"], entry["dtype"], entry["bytes"]) == ([2], "float32", 8)
    content = Path(entry["file"]).read_bytes()
    assert content[entry["offset"] :][:8] == np.float32([1, 2]).tobytes()
    assert shown["files"] == {f"{path}.safetensors": len(content)}


def test_show_names_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("[bold]words, and more of them")
    for path in (tmp_path / "text", tmp_path / "none", tmp_path):
        code, text = run("show", path)
        assert code == 1 and text.startswith(f"Failed: {path}")
    code, text = run("show", tmp_path / "text")
    assert "begins neither as HDF5 nor as an archive of Keras's, and is no safetensors" in text
    code, text = run("show", "gs://bucket/x")
    assert code == 1 and text.startswith("Failed: open_checkpoint: 'gs://bucket/x' is a URL")


def test_verify(tmp_path: Path) -> None:
    file = tmp_path / "file.safetensors"
    content = plain({"a": np.ones(3), "b": np.array([1, np.nan]), "c": np.array(np.inf)})
    file.write_bytes(content)
    assert run("verify", file) == (0, f"{file}: no defect was found\n")
    code, text = run("verify", file, "--finite")
    size = len(content)
    assert code == 1 and text == (
        f"{file}:{size - 16}: 'b' has nan at [1]\n{file}:{size - 8}: 'c' has inf at []\n"
    )
    file.write_bytes(content[:-1])
    code, text = run("verify", file)
    assert code == 1 and text.startswith(f"{file}:8: it has 47 bytes") and text.count("\n") == 1


def test_convert(tmp_path: Path) -> None:
    source = tmp_path / "source.safetensors"
    source.write_bytes(plain(TENSORS))
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"block/*": "layer/*", "scale": "not this"}))
    words = ["--rename", "scale=factor", "--rename-file", rules, "--shard-size", "60B"]
    code, text = run("convert", source, tmp_path / "out", "--dtype", "float64", *words)
    assert (code, text) == (0, f"wrote {tmp_path / 'out'}\n")
    reader = dl.train.open_checkpoint(tmp_path / "out")
    assert len(reader.files) > 2
    expected = TENSORS["block/0/kernel"].astype(np.float64)
    assert same(reader.read("layer/0/kernel"), expected)
    assert same(reader.read("factor"), TENSORS["scale"])
    code, text = run("convert", source, tmp_path / "out")
    assert code == 1 and "there already" in text and "--force" in text
    assert run("convert", source, tmp_path / "out", "--force")[0] == 0
    assert len(dl.train.open_checkpoint(tmp_path / "out").files) == 1


def test_convert_tells_what_it_leaves_out(tmp_path: Path) -> None:
    batches = iter(dl.data.Dataset.range(4).batch(2))
    path = dl.train.Checkpoint(v=dl.Variable(1.0), batches=batches).write(tmp_path / "ckpt")
    code, text = run("convert", path, tmp_path / "out.safetensors")
    assert code == 0 and "left out: positions of inputs, and other states: batches" in text
    code, text = run("convert", path, tmp_path / "copy", "--to", "drumline")
    assert code == 0 and "left out" not in text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--rename", "scale"], "--rename takes OLD=NEW, got 'scale'"),
        (["--rename", "x=y"], "No tensor is called 'x'"),
        (["--rename-file", "none.json"], "none.json"),
        (["--rename-file", __file__], "is no JSON"),
        (["--dtype", "int8"], "is no dtype of floating-point numbers"),
        (["--shard-size", "many"], "is no size"),
        (["--to", "keras"], "keras"),
    ],
)
def test_convert_names_what_is_wrong(tmp_path: Path, words: list[str], why: str) -> None:
    source = tmp_path / "source.safetensors"
    source.write_bytes(plain(TENSORS))
    code, text = run("convert", source, tmp_path / "out", *words)
    assert code in (1, 2) and why in text
    assert [each.name for each in tmp_path.iterdir()] == ["source.safetensors"]


def test_sizes() -> None:
    found = [bytes_in(text) for text in ("5GB", "5g", "1.5 kB", "500MiB", "12", "12B", "2T")]
    assert found == [5e9, 5e9, 1500, 500 * 2**20, 12, 12, 2e12]
