"""Each flag of tf_cnn_benchmarks has its kind, default, choices and bounds here, or a reason."""

from __future__ import annotations

from typing import Any

from drumline.cnn.flags import FLAGS, parse
from tests.cnn.flags_of_the_original import ROWS

KINDS = {
    "string": str,
    "enum": str,
    "boolean": bool,
    "integer": int,
    "float": float,
    "list": list,
}
OTHER_DEFAULTS = {
    # The original's needs a GPU; weights are the same in both, and CPUs and TPUs compute this one.
    "data_format": "NHWC",
    # Two runs on one machine would write to the original's folder in /tmp.
    "eval_dir": None,
}
OWN = {
    # Of the guide; the original has --all_reduce_spec in its place.
    "use_nccl",
    "use_bf16",
}
NARROWER = {"resize_method", "stop_at_top_1_accuracy", "summary_verbosity", "tf_random_seed"}
"""Any text or number there, and one of some here."""


def differences(row: tuple[str, str, object, tuple[str, ...], float | None, float | None]) -> Any:
    """What is not as in the original, by name."""
    name, kind, default, choices, least, most = row
    flag = FLAGS.get(name)
    if flag is None:
        return "missing"
    expected: dict[str, Any] = {"kind": KINDS[kind], "default": OTHER_DEFAULTS.get(name, default)}
    if name not in NARROWER:
        expected |= {"choices": choices, "most": most}
    if least is not None:
        expected["least"] = least
    # The original's choices are in no order that matters.
    found = {attribute: getattr(flag, attribute) for attribute in expected}
    for values in (expected, found):
        values["choices"] = sorted(values.get("choices", ()))
    return {key: found[key] for key in found if found[key] != expected[key]}


def test_flags_are_the_originals() -> None:
    found = {row[0]: differences(row) for row in ROWS}
    assert {name: differing for name, differing in found.items() if differing} == {}
    assert set(FLAGS) - set(found) == OWN


def test_defaults_are_values_that_may_be_given() -> None:
    for name, flag in FLAGS.items():
        if flag.default is None:
            continue
        text = ",".join(flag.default) if isinstance(flag.default, list) else str(flag.default)
        found = parse([f"--{name}={text}"])
        assert (name, getattr(found, name)) == (name, flag.default)
        assert bool(found.remarks) == bool(flag.instead), name
