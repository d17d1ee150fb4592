"""The cache of compiled programs, in processes of its own: hits, bits, damage, many at once."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import drumline as dl
from drumline import _settings
from drumline.config import cache, jax_internals

END = """
info = dl.config.compilation_cache_info()
print(json.dumps({"bits": bits, **info._asdict()}))
"""
PROGRAM = (
    """
import hashlib, json, os, sys
import drumline as dl
BEFORE
import jax, jax.numpy as jnp
import numpy as np
f = jax.jit(lambda x: jnp.tanh(x @ x.T).sum(0))
g = jax.jit(lambda x: jnp.cumsum(x, 0) * 2)
x = np.linspace(0, 1, 64 * 32, dtype=np.float32).reshape(64, 32)
bits = hashlib.sha256(np.asarray(f(x)).tobytes() + np.asarray(g(x)).tobytes()).hexdigest()
"""
    + END
)
FIT = (
    """
import hashlib, json
import drumline as dl, jax, keras, numpy as np
dl.config.set_logical_devices("cpu", 2)
keras.utils.set_random_seed(1)
with dl.distribute.MirroredStrategy().scope():
    model = keras.Sequential([
        keras.Input((12, 12, 1)), keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.MaxPooling2D(), keras.layers.Conv2D(4, 1), keras.layers.Flatten(),
        keras.layers.Dropout(0.5), keras.layers.Dense(10),
    ])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x = np.random.default_rng(0).random((24, 12, 12, 1), "float32")
data = dl.data.Dataset.from_tensor_slices((x, np.arange(24) % 10))
data = data.map(lambda x, y: (x * 2 - 1, y)).batch(8)
model.fit(data, epochs=2, verbose=0)
bits = hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest()
"""
    + END
)


def run(folder: Path | str | None, program: str = PROGRAM, before: str = "", **env: str) -> Any:
    """What a process tells of its cache; it must end well, and what it warns of comes along."""
    names = ("DRUMLINE_COMPILATION_CACHE", "JAX_COMPILATION_CACHE_DIR")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    chosen = {} if folder is None else {"DRUMLINE_COMPILATION_CACHE": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", program.replace("BEFORE", before)],
        env={**inherited, "JAX_PLATFORMS": "cpu", **chosen, **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout.splitlines()[-1]), "log": done.stderr}


def counts(*told: Any) -> list[tuple[int, int]]:
    return [(each["hits"], each["misses"]) for each in told]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("cache") / "programs"
    return folder, run(folder)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.program"))


def test_a_second_process_compiles_nothing_and_gives_the_same_bits(
    filled: tuple[Path, Any],
) -> None:
    folder, cold = filled
    warm = run(folder)
    without = run(None)
    assert cold["misses"] > 1 and cold["hits"] == 0
    assert counts(warm) == [(cold["misses"], 0)]
    assert cold["bits"] == warm["bits"] == without["bits"]
    assert (cold["path"], without["path"]) == (str(folder), None)
    assert (cold["max_bytes"], cold["max_age_days"]) == (4 << 30, 30)
    assert cold["log"] == warm["log"] == without["log"] == ""


def test_fit_gives_the_same_weights_from_the_cache(tmp_path: Path) -> None:
    """With drumline's own kernels in the programs, and a dataset's function on its own device."""
    cold, warm = (run(tmp_path, FIT) for _ in range(2))
    assert cold["misses"] > 2
    assert counts(warm) == [(cold["hits"] + cold["misses"], 0)]
    assert cold["bits"] == warm["bits"]


def test_what_is_damaged_is_compiled_again_with_one_warning(tmp_path: Path) -> None:
    """Damage that the checksum finds, and a whole entry of which XLA can make nothing."""
    cold = run(tmp_path)
    for entry in entries(tmp_path):
        entry.write_bytes(entry.read_bytes()[:-3])
    cut = run(tmp_path)
    assert counts(cut) == counts(cold)
    assert cut["log"].count("is damaged") == 1
    not_programs = """
from drumline.config.program_files import ProgramFiles
get = ProgramFiles.get
ProgramFiles.get = lambda self, key: None if get(self, key) is None else b"no program"
"""
    foreign = run(tmp_path, before=not_programs)
    assert counts(foreign) == counts(cold)
    assert foreign["log"].count("is damaged") == 1
    after = run(tmp_path)
    assert counts(after) == [(cold["misses"], 0)]
    assert cold["bits"] == cut["bits"] == foreign["bits"] == after["bits"]


@pytest.mark.parametrize("limit", [None, 4096])
def test_processes_that_write_at_once_are_all_served(tmp_path: Path, limit: int | None) -> None:
    """With so little room that each removes what the others are reading, too."""
    lean = "cache = __import__('drumline.config.cache').config.cache\ncache._LEAST_BYTES = 1\n"
    before = f"{lean}dl.config.compilation_cache(max_bytes={limit})"
    with ThreadPoolExecutor(3) as pool:
        told = list(pool.map(lambda _: run(tmp_path, before=before), range(3)))
    assert len({each["bits"] for each in told}) == 1
    assert [each["log"].count("damaged") for each in told] == [0, 0, 0]
    assert not list(tmp_path.glob(".part-*"))
    if limit is None:
        assert counts(run(tmp_path)) == [(told[0]["hits"] + told[0]["misses"], 0)]
        assert {each["log"] for each in told} == {""}


def test_a_disk_that_refuses_costs_one_warning(tmp_path: Path) -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))"
    full = run(tmp_path, before=limited)
    nowhere = run(Path("/proc/self/programs"))
    for told in (full, nowhere):
        assert counts(told)[0][0] == 0
        assert told["log"].count("\n") == 1 and "cannot be written" in told["log"]
    assert list(tmp_path.iterdir()) == []


def test_programs_for_other_processors_and_threads_are_not_taken(
    filled: tuple[Path, Any],
) -> None:
    folder, cold = filled
    flags = os.environ.get("XLA_FLAGS", "")
    lesser = run(folder, XLA_FLAGS=f"{flags} --xla_cpu_max_isa=SSE4_2".strip())
    fewer = run(folder, PJRT_NPROC="1")
    assert counts(lesser, fewer) == [(0, cold["misses"])] * 2
    assert fewer["bits"] == cold["bits"]


def test_a_directory_of_jaxs_own_setting_wins(tmp_path: Path) -> None:
    told = run(tmp_path / "ours", JAX_COMPILATION_CACHE_DIR=str(tmp_path / "jax"))
    assert told["path"] == str(tmp_path / "jax") and told["max_bytes"] is None
    assert not (tmp_path / "ours").exists()
    asked = run(
        tmp_path / "ours",
        before="dl.config.compilation_cache(max_bytes=2 << 20)",
        JAX_COMPILATION_CACHE_DIR=str(tmp_path / "jax"),
    )
    assert (asked["path"], asked["max_bytes"]) == (str(tmp_path / "jax"), 2 << 20)
    assert entries(tmp_path / "jax")


@pytest.mark.parametrize(
    ("value", "directory"), [("0", None), ("", None), ("1", "caches/drumline/compilation")]
)
def test_the_variable_may_be_0_or_1(tmp_path: Path, value: str, directory: str | None) -> None:
    told = run(value, XDG_CACHE_HOME=str(tmp_path / "caches"))
    assert told["path"] == (None if directory is None else str(tmp_path / directory))


def test_a_program_chooses_before_or_after_jax_is_imported_and_takes_it_back(
    tmp_path: Path,
) -> None:
    choose = f"dl.config.compilation_cache({str(tmp_path)!r}, max_age_days=2)"
    cold, warm = run(None, before=choose), run(None, before=f"import jax; {choose}")
    assert counts(warm) == [(cold["misses"], 0)]
    assert (warm["path"], warm["max_age_days"]) == (str(tmp_path), 2)
    undone = f"""
import jax
from jax._src import compilation_cache, compiler
state = lambda: [compiler._cache_read, compiler._cache_write, compilation_cache.get_file_cache,
                 dict(jax.config.values), set(dl.config.report(show=False))]
was = state()
{choose}
assert {{"JAX"}} == {{row.of for row in state()[-1] - was[-1]}} and len(state()[-1] - was[-1]) == 4
dl.config.compilation_cache(False)
assert state() == was
"""
    told = run(None, before=undone)
    assert (told["path"], counts(told)) == (None, [(0, 0)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": False, "max_bytes": 1 << 30}, "max_bytes given for no cache"),
        ({"path": "gs://b/c", "max_age_days": 1}, "max_age_days given for 'gs://b/c', which"),
        ({"path": "c", "max_bytes": 1000}, r"at least 1048576 \(1 MiB\), got 1000"),
        ({"path": "c", "max_bytes": math.nan}, "at least"),
        ({"path": "c", "max_age_days": 0}, "must be positive, got 0"),
    ],
)
def test_limits_that_make_no_sense_are_refused(arguments: Any, message: str) -> None:
    before = dl.config.compilation_cache_info()
    with pytest.raises(ValueError, match=message):
        dl.config.compilation_cache(**arguments)
    assert dl.config.compilation_cache_info() == before


def test_the_default_directory_is_that_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.delenv("DRUMLINE_COMPILATION_CACHE", raising=False)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    assert cache._directory() == _settings.cache_directory() == "/caches/drumline/compilation"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert _settings.cache_directory() == "/home/someone/.cache/drumline/compilation"


def test_half_an_entry_of_jaxs_own_cache_is_never_seen(tmp_path: Path) -> None:
    """In a job whose user has set JAX's own directory; the tests' own processes use it, too."""
    kept = jax_internals._file_cache(str(tmp_path))
    assert kept is not None
    files, _ = kept
    files.put("key", b"compiled")
    files.put("key", b"again")
    assert files.get("key") == b"compiled"
    assert [path.name for path in tmp_path.iterdir()] == ["key-cache"]
