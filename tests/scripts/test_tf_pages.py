"""The pages on the names of the look-alike of TensorFlow."""

import re

import pytest

from drumline.compat.symbols import table
from scripts import tf_pages


@pytest.fixture(scope="module")
def pages():
    return tf_pages.pages()


def sections(page):
    parts = re.split(r"^## (\S+)\n", page, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_name_is_on_one_page(pages):
    both = [sections(page) for page in pages.values()]
    for name in table.tensorflow().names:
        if not table.is_namespace(name):
            home, _, last = name.rpartition(".")
            title = f"tf.{home}" if home else "tf"
            assert sum(f"`{last}`" in page.get(title, "") for page in both) == 1, name


def test_rows_say_how_a_name_is_implemented_and_differs(pages):
    entry = next(each for each in table.entries().values() if each.difference)
    home, _, last = entry.name.rpartition(".")
    row = f"| `{last}` | `{entry.module}.{entry.attribute}` | {entry.since} | {entry.difference} |"
    assert row.replace("||", "|") in sections(pages[tf_pages.PRESENT])[f"tf.{home}"]


def test_absent_names_have_answers(pages):
    raw = sections(pages[tf_pages.ABSENT])["tf.raw_ops"]
    assert re.search(r"^\| .*`BatchSvd`.* \| use `tf\.linalg\.svd` \|$", raw, re.M)
    assert "| names | in their place |" in raw


def test_counts_add_up(pages):
    numbers = re.search(r"\*\*(\d+) of the (\d+) public names", pages[tf_pages.PRESENT])
    missing = re.search(r"^(\d+) of the (\d+) public names", pages[tf_pages.ABSENT], re.M)
    assert int(numbers[1]) + int(missing[1]) == int(numbers[2]) == int(missing[2])
