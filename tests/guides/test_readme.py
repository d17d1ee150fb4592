"""What the README shows first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax

README = Path(__file__).parents[2] / "README.md"


def test_the_first_block_learns() -> None:
    code = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.S | re.M)[0]
    devices = f'"cpu", {len(jax.devices())}'  # those that the tests have been given
    assert '"cpu", 2' in code
    found: dict[str, Any] = {}
    exec(code.replace('"cpu", 2', devices), found)
    history = found["model"].history.history
    assert history["loss"][0] < 3
    assert history["accuracy"][-1] > 0.9
