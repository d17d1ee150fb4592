"""The check of names and texts against the glossary."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_words
from scripts.check_words import ROOT, Glossary, read_remaining, run

GLOSSARY = """\
# Glossary

| Word | Name in code | Defined in | Meaning | In the literature |
| --- | --- | --- | --- | --- |
| stage | `Stage` | | a running operation | |
| order | `IndexOrder` | | positions | |
| thing | `Thing` | | nothing | |

## Names that were replaced

| Not | Use |
| --- | --- |
| `made_anew` | `function_identity` |
| `Order` | `IndexOrder` |
| `expect()` | `limit_demand` |

## Phrases to avoid

| Not | Write |
| --- | --- |
| `anew` | again |
| `at hand`, `are none of these` | available |
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository without findings."""
    for folder in ("docs/inside", "drumline/data", "scripts", "rust/src"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs/inside/glossary.md").write_text(GLOSSARY)
    (tmp_path / "drumline/data/stage.py").write_text('"""Stages."""\n\n\nclass Stage: ...\n')
    remaining(tmp_path)
    assert run(["--update"], tmp_path) == []
    assert run([], tmp_path) == []
    return tmp_path


def remaining(tree: Path, files: str = "", classes: str = "") -> None:
    text = f"files = [{files}]\nclasses = [{classes}]\n"
    (tree / "scripts/words_remaining.toml").write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("drumline/a.py", '"""One.\n\nIs made anew.\n"""\n', 3),
        ("drumline/a.py", "x = 1  # made Anew\n", 1),
        ("drumline/a.py", "x = 1\n# what is at\n# hand\n", 2),
        ("drumline/a.py", 'x = 1\nraise ValueError(f"{x} is not at hand")\n', 2),
        ("drumline/a.py", 'x = ("these are none "\n     "of these")\n', 1),
        ("rust/src/a.rs", "fn a() {}\n/// Made anew.\n", 2),
        ("rust/src/a.rs", 'fn a() { panic!("at hand") }\n', 1),
        ("docs/a.md", "# A\n\nis at\nhand\n", 3),
        ("README.md", "anew\n", 1),
    ],
)
def test_phrases_are_found(tree: Path, name: str, text: str, line: int) -> None:
    (tree / name).write_text(text)
    (found,) = run([], tree)
    assert found.startswith(f"{name}:{line}: “")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("drumline/a.py", "anew = 1\n"),
        ("drumline/a.py", '"""Renewed, and a-new; handy."""\n'),
        ("docs/a.md", "the file `anew`\n\n```python\nanew = 1\n```\n"),
        ("rust/src/a.rs", "fn anew() {}\n"),
    ],
)
def test_code_and_other_words_are_not_found(tree: Path, name: str, text: str) -> None:
    (tree / name).write_text(text)
    assert run([], tree) == []


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("drumline/made_anew.py", "", "the name made_anew; use: `function_identity`"),
        ("drumline/a.py", "class Order: ...\n", "the name Order; use: `IndexOrder`"),
        ("drumline/a.py", "class A:\n    def expect(self): ...\n", "the name expect(); use"),
        ("rust/src/a.rs", "pub struct Order {}\n", "the name Order; use"),
    ],
)
def test_replaced_names_are_found(tree: Path, name: str, text: str, found: str) -> None:
    (tree / name).write_text(text)
    assert any(found in line for line in run([], tree))


def test_a_function_may_have_the_name_of_a_replaced_file(tree: Path) -> None:
    (tree / "drumline/a.py").write_text("def made_anew(): ...\n")
    assert run([], tree) == []


def test_a_class_is_defined_once(tree: Path) -> None:
    (tree / "drumline/b.py").write_text("def f():\n    class Stage: ...\n")
    run(["--update"], tree)
    (found,) = run([], tree)
    assert found.startswith("The class Stage is defined at drumline/b.py:2, drumline/data/stage")
    remaining(tree, classes='"Stage"')
    assert run([], tree) == []


def test_listed_files_may_have_findings(tree: Path) -> None:
    (tree / "drumline/a.py").write_text("# anew\n")
    remaining(tree, files='"drumline/a.py"')
    assert run([], tree) == []
    assert len(run(["drumline/a.py"], tree)) == 1


def test_an_entry_without_findings_fails_until_it_is_dropped(tree: Path) -> None:
    remaining(tree, files='"drumline/data/stage.py", "drumline/gone.py"', classes='"Stage"')
    assert len(run([], tree)) == 3
    assert run(["--update"], tree) == []
    assert read_remaining(tree) == (set(), set())


def test_an_update_follows_moved_files_and_adds_none(tree: Path) -> None:
    (tree / "drumline/new.py").write_text("# anew\n")
    remaining(tree, files='"drumline/old.py"')
    assert run(["--update"], tree) == []
    assert read_remaining(tree)[0] == {"drumline/new.py"}
    (tree / "drumline/newer.py").write_text("# anew\n")
    assert len(run(["--update"], tree)) == 1
    assert read_remaining(tree)[0] == {"drumline/new.py"}


def test_places_of_names_are_filled_in(tree: Path) -> None:
    (tree / "drumline/order.py").write_text("class Order: ...\n")
    (glossary_is_old,) = [line for line in run([], tree) if "old places" in line]
    assert "--update" in glossary_is_old
    run(["--update"], tree)
    page = (tree / "docs/inside/glossary.md").read_text()
    assert "| stage | `Stage` | `drumline/data/stage.py` | a running operation | |" in page
    assert "| order | `IndexOrder` | `drumline/order.py` (now `Order`) | positions | |" in page
    assert "| thing | `Thing` | - | nothing | |" in page


def test_a_glossary_without_its_tables_is_refused(tree: Path) -> None:
    page = tree / "docs/inside/glossary.md"
    page.write_text(page.read_text().replace("## Phrases to avoid", "## Phrases"))
    with pytest.raises(ValueError, match="no table of replaced names or of phrases"):
        run([], tree)


def test_the_glossary_names_a_concept_once() -> None:
    lines = Glossary((ROOT / check_words.GLOSSARY).read_text()).lines
    words = [line.split("|")[1].strip() for line in lines if line.count("|") == 6]
    assert len(words) - words.count("Word") - words.count("---") > 60
    words = [word for word in words if word not in {"Word", "---"}]
    assert len(words) == len(set(words))
