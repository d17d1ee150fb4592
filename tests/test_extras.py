"""Without the packages of its extras drumline does everything else, and names the extra."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from drumline._extras import MissingExtraError, import_extra, require_extra

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"sklearn", "matplotlib"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Blocked())
"""

WITHOUT_ANY = (
    BLOCKED
    + """
import numpy as np
import drumline as dl
import keras

data = dl.data.Dataset.from_tensor_slices((np.ones((8, 3), "float32"), np.ones(8, "float32")))
with dl.distribute.OneDeviceStrategy("cpu:0").scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(data.shuffle(8).batch(4), verbose=0)
profile = data.batch(2).profile()
assert "drumline[profile]" in profile._repr_html_() and "<pre" in profile._repr_html_()

def fails(function):
    try:
        function()
    except ImportError as error:
        print(error)
    else:
        raise AssertionError(function)

fails(lambda: profile.save_png("profile.png"))
fails(lambda: dl.datasets.load("digits", split="train"))
"""
)


def test_everything_else_works_and_messages_name_the_extra(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ANY], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert [line.partition(" needs the package ")[2] for line in done.stdout.splitlines()] == [
        "matplotlib: pip install 'drumline[profile]'",
        "sklearn: pip install 'drumline[demo]'",
    ]


def test_the_demo_names_its_extra(tmp_path: Path) -> None:
    program = BLOCKED + "import drumline_command; drumline_command.run()"
    done = subprocess.run(
        [sys.executable, "-c", program, "demo"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert "pip install 'drumline[demo]'" in done.stdout and not done.stderr
    assert not list(tmp_path.iterdir())


def test_the_extras_that_messages_name_bring_the_packages() -> None:
    extras = PROJECT["optional-dependencies"]
    needed = {"demo": ["matplotlib", "scikit-learn"], "profile": ["matplotlib"]}
    needed |= {"tensorboard": ["tensorboard"], "dev": ["drumline[audio,console,demo]"]}
    needed |= {"audio": ["soundfile"]}
    for extra, packages in needed.items():
        brought = " ".join(extras[extra])
        assert all(package in brought for package in packages), extra
    assert not any(package in " ".join(PROJECT["dependencies"]) for package in needed["demo"])


def test_the_page_of_the_installation_lists_all_extras() -> None:
    page = (Path(__file__).parents[1] / "docs" / "start" / "install.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \|", page.partition("## Extras")[2], re.M)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    of_the_repository = {"bench", "reference", "tutorials"}  # what make installs where it needs it
    extras = PROJECT["optional-dependencies"]
    assert sorted([*listed, *of_the_repository]) == sorted(extras)
    dev = " ".join(extras["dev"])
    (row,) = re.findall(r"^\| `dev` \| what the tests need: (.*), libraries", page, re.M)
    for extra in re.findall(r"`(\w+)`", row):
        assert extra in dev.partition("]")[0] or set(extras[extra]) <= set(extras["dev"]), extra


def test_a_package_that_is_there_but_lacks_another_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_an_extra.py").write_text("import what_it_builds_on")
    monkeypatch.syspath_prepend(str(tmp_path))
    require_extra("of_an_extra", "extra", "This")
    with pytest.raises(ModuleNotFoundError, match="what_it_builds_on"):
        import_extra("of_an_extra", "extra", "This")


def test_the_error_names_the_package_and_can_be_pickled() -> None:
    with pytest.raises(MissingExtraError, match=r"This needs the package no_such") as caught:
        require_extra("no_such.module", "extra", "This")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.name, again.extra) == (str(caught.value), "no_such", "extra")
