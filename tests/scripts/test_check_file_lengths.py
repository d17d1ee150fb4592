"""The check of the tree's shape, on small trees that break one rule each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import check_file_lengths as check


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree that breaks no rule: a package of two whole modules."""
    (tmp_path / "scripts").mkdir()
    write(tmp_path, "drumline/__init__.py", "from drumline.room.whole import whole\n")
    write(tmp_path, "drumline/room/__init__.py", "")
    write(tmp_path, "drumline/room/whole.py", "whole = 1\n" * 120)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def allow(root: Path, text: str) -> None:
    write(root, check.ALLOWED, text)


def complaints(root: Path) -> list[str]:
    return check.complaints(root, check.Allowed.read(root / check.ALLOWED))


def test_a_tree_of_whole_files_passes(tree):
    assert complaints(tree) == []
    assert check.main([], tree) == 0


@pytest.mark.parametrize("name", ["drumline/room/long.py", "rust/src/long.rs", "tests/long.py"])
def test_a_long_file_fails(tree, name):
    write(tree, name, "x = 1\n" * 900)
    assert complaints(tree) == []
    write(tree, name, "x = 1\n" * 901)
    assert [line.split(":")[0] for line in complaints(tree)] == [
        f"{name} has 901 lines; the limit is 900. Split it by concept."
    ]


def test_docstrings_of_the_classes_that_users_hold_are_not_counted(tree):
    documented = sorted(check.DOCUMENTED)[0]
    method = '    def f(self):\n        """What it does.\n\n        More.\n        """\n'
    write(tree, documented, "class C:\n" + method * 300)
    assert complaints(tree) == []
    write(tree, documented, "class C:\n" + method * 300 + "x = 1\n" * 600)
    assert [line.split(";")[0] for line in complaints(tree)] == [f"{documented} has 901 lines"]
    write(tree, "drumline/room/long.py", "class C:\n" + method * 300)
    assert len(complaints(tree)) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "from drumline.room.helper import f",
        "from drumline.room import helper",
        "import drumline.room.helper",
        "from . import helper",
        "from .helper import f",
        "def late():\n    from drumline.room.helper import f",
    ],
)
def test_a_small_module_with_a_single_importer_beside_it_fails(tree, statement):
    write(tree, "drumline/room/whole.py", f"{statement}\n" + "whole = 1\n" * 120)
    write(tree, "drumline/room/helper.py", "f = 1\n" * 99)
    [complaint] = complaints(tree)
    assert complaint.startswith("drumline/room/helper.py has 99 lines and a single importer")
    assert "drumline/room/whole.py" in complaint
    allow(tree, 'small_modules = ["drumline/room/helper.py"]')
    assert complaints(tree) == []


def test_a_module_of_100_lines_may_have_a_single_importer(tree):
    write(tree, "drumline/room/whole.py", "from .helper import f\n" + "whole = 1\n" * 120)
    write(tree, "drumline/room/helper.py", "f = 1\n" * 100)
    assert complaints(tree) == []


@pytest.mark.parametrize(
    "importer", ["drumline/room/second.py", "drumline/other/second.py", "drumline/room/__main__.py"]
)
def test_a_small_module_with_two_importers_passes(tree, importer):
    write(tree, "drumline/room/helper.py", "f = 1\n")
    write(tree, "drumline/room/whole.py", "from .helper import f\n" + "whole = 1\n" * 120)
    write(tree, importer, "from drumline.room.helper import f\n" + "second = 1\n" * 120)
    assert complaints(tree) == []


@pytest.mark.parametrize("importer", ["drumline/room/__init__.py", "drumline/other/first.py"])
def test_a_package_that_lists_it_or_another_folder_is_no_place_for_a_module(tree, importer):
    write(tree, "drumline/room/helper.py", "f = 1\n")
    write(tree, importer, "from drumline.room.helper import f\n" + "first = 1\n" * 120)
    assert complaints(tree) == []


def test_a_folder_with_more_than_14_entries_fails(tree):
    for number in range(13):  # beside whole.py
        write(tree, f"drumline/room/entry{number}.py", "x = 1\n")
    write(tree, "drumline/room/__main__.py", "")
    write(tree, "drumline/room/README.md", "")
    assert complaints(tree) == []
    write(tree, "drumline/room/folder/one.py", "x = 1\n")
    [complaint] = complaints(tree)
    assert complaint.startswith("drumline/room has 15 entries; 14 are allowed.")
    allow(tree, '[large_folders]\n"drumline/room" = 15')
    assert complaints(tree) == []
    write(tree, "drumline/room/another.py", "x = 1\n")
    assert complaints(tree)[0].startswith("drumline/room has 16 entries; 15 are allowed.")


def test_a_rust_module_and_its_folder_are_one_entry(tree):
    for number in range(14):
        write(tree, f"rust/src/entry{number}.rs", "")
        write(tree, f"rust/src/entry{number}/part.rs", "")
    assert complaints(tree) == []


@pytest.mark.parametrize("folder", ["drumline", "drumline/datasets/builders", "tests/room"])
def test_folders_of_declarations_and_tests_are_not_counted(tree, folder):
    for number in range(20):
        write(tree, f"{folder}/entry{number}.py", "x = 1\n")
    assert complaints(tree) == []


def test_entries_that_no_longer_apply_fail_until_they_are_removed(tree):
    for number in range(15):  # beside whole.py
        write(tree, f"drumline/room/entry{number}.py", "x = 1\n")
    allow(
        tree,
        'small_modules = ["drumline/room/merged.py"]\n'
        '[large_folders]\n"drumline/room" = 18\n"drumline/gone" = 20\n',
    )
    found = complaints(tree)
    assert len(found) == 3
    assert "drumline/room/merged.py, which is no longer small" in found[0]
    assert "drumline/room 18 entries, and it has 16" in found[1]
    assert "drumline/gone 20 entries, and it has no more than 14" in found[2]
    assert check.main([], tree) == 1
    assert check.main(["--update"], tree) == 0
    assert check.Allowed.read(tree / check.ALLOWED) == check.Allowed([], {"drumline/room": 16})


def test_update_adds_nothing(tree):
    write(tree, "drumline/room/whole.py", "from .helper import f\n" + "whole = 1\n" * 120)
    write(tree, "drumline/room/helper.py", "f = 1\n")
    assert check.main(["--update"], tree) == 1
    assert check.Allowed.read(tree / check.ALLOWED) == check.Allowed([], {})


def test_an_unknown_list_is_refused(tree):
    allow(tree, "small_files = []")
    with pytest.raises(SystemExit, match="unknown keys"):
        complaints(tree)


def test_the_script_ends_with_what_is_wrong(tree):
    script = tree / "scripts/check_file_lengths.py"
    script.write_text(Path(check.__file__).read_text())
    write(tree, "drumline/room/long.py", "x = 1\n" * 901)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "drumline/room/long.py has 901 lines" in ended.stderr
