"""The command that lists what of TensorFlow a script uses."""

import json

import pytest

from drumline.compat import check
from drumline.compat.check import Presence

SCRIPT = """\
import tensorflow as tf
import tensorflow_hub as hub
from tensorflow import keras
from tensorflow.keras.layers import Dense as Wide
import tensorflow.compat.v1 as old
from tensorflow.python.framework import ops

layers = tf.keras.layers
data = tf.data.Dataset.from_tensor_slices([1]).map(lambda x: tf.raw_ops.ResourceGather(x=x, y=1))
tf.data.Dataset.no_such()
layers.Conv2D(1, 1)(Wide(2)(tf.math.add(tf.reduce_summ(data), 1)))
with old.Session() as session:
    session.run(tf.math.add(1, 2).numpy())
tf.placeholder(tf.float32)
"""


def lines(source):
    return {each.name: (each.presence, each.lines) for each in check.check(source)}


def test_names_are_found_with_their_lines():
    found = lines(SCRIPT)
    assert found["math.add"] == (Presence.THERE, ("11", "13"))
    assert found["keras.layers.Dense"] == (Presence.THERE, ("4", "11"))
    assert found["keras.layers.Conv2D"] == (Presence.THERE, ("11",))
    assert found["data.Dataset.from_tensor_slices"] == (Presence.THERE, ("9",))
    for name, line in [
        ("raw_ops.ResourceGather", "9"),
        ("data.Dataset.no_such", "10"),
        ("reduce_summ", "11"),
        ("compat.v1.Session", "12"),
        ("python.framework.ops", "6"),
        ("tensorflow_hub", "2"),
        ("placeholder", "14"),
    ]:
        assert found[name] == (Presence.ABSENT, (line,)), name
    texts = {each.name: each.text for each in check.check(SCRIPT)}
    assert "use tf.gather" in texts["raw_ops.ResourceGather"]
    assert "nearest: tf.reduce_sum" in texts["reduce_summ"]
    assert "tf.compat.v1.placeholder" in texts["placeholder"]


def test_names_that_are_bound_to_something_else_are_not_tensorflows():
    found = lines("import tensorflow as tf\nK = tf.keras\nK = 1\nK.layers\ntf.add\n")
    assert found.keys() == {"keras", "add"}
    assert lines("from tensorflow import add\n\ndef f(add):\n    return add.x\n").keys() == {"add"}
    assert lines("import numpy as tf\ntf.add\n") == {}


def test_differences_are_told():
    differing = next(entry for entry in check.table.entries().values() if entry.difference)
    found = check.check(f"import drumline.compat.tf as tf\ntf.{differing.name}\n")
    assert [(each.presence, each.text) for each in found] == [
        (Presence.DIFFERS, differing.difference)
    ]


def test_notebooks_are_read_cell_by_cell():
    cells = [
        ("markdown", "import tensorflow as no"),
        ("code", "!pip install \\\n  tensorflow\nimport tensorflow as tf"),
        ("code", "%%time\nx = tf.add(\n  1, tf.raw_ops.SegmentSumV2())"),
        ("code", "%%bash\necho tf"),
        ("code", "this is no Python"),
    ]
    text = json.dumps({"cells": [{"cell_type": k, "source": s.splitlines(True)} for k, s in cells]})
    assert lines(text) == {
        "cell 5": (Presence.UNREAD, ()),
        "raw_ops.SegmentSumV2": (Presence.ABSENT, ("3:3",)),
        "add": (Presence.THERE, ("3:2",)),
    }


def test_the_exit_status_says_whether_something_is_absent(tmp_path, capsys):
    def run(text, *options):
        path = tmp_path / "script.py"
        path.write_text(text)
        return check.main([str(path), *options]), capsys.readouterr()

    status, shown = run("import tensorflow as tf\ntf.add\n")
    assert status == 0 and "1 names of TensorFlow, 1 there" in shown.out
    assert "tf.add" not in shown.out
    assert "tf.add (line 2)" in run("import tensorflow as tf\ntf.add\n", "--all")[1].out
    status, shown = run("import tensorflow as tf\ntf.raw_ops.SegmentSumV2\n")
    assert status == 1 and "absent   tf.raw_ops.SegmentSumV2 (line 2)" in shown.out
    status, shown = run("this is no Python")
    assert status == 2 and "cannot be read: SyntaxError" in shown.err
    with pytest.raises(SystemExit):
        check.main([])
    assert check.main([str(tmp_path / "no_such.py")]) == 2
