"""Every fuzz target has seeds, and its minute in CI."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FUZZ = ROOT / "rust" / "fuzz"


def test_targets_seeds_and_workflow_agree():
    targets = sorted(path.stem for path in (FUZZ / "targets").glob("*.rs"))
    workflow = (ROOT / ".github" / "workflows" / "fuzz.yml").read_text()
    (listed,) = re.findall(r"^ +target: \[(.*)\]$", workflow, re.MULTILINE)
    assert listed.split(", ") == targets
    assert [path.name for path in sorted((FUZZ / "seeds").iterdir())] == targets
    tried = (ROOT / "rust" / "tests" / "hostile" / "main.rs").read_text()
    assert re.findall(r"^    (\w+): \d+ inputs", tried, re.MULTILINE) == targets
