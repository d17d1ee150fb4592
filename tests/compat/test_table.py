"""The table of names: every entry resolves, and every name that is absent has an answer."""

import collections
import importlib
import subprocess
import sys

import pytest

from drumline.compat import tf
from drumline.compat.symbols import absent, table


def is_there(name):
    """Whether a public name of TensorFlow is an object of the look-alike."""
    home, _, last = table.canonical(name).rpartition(".")
    if table.find(name) is not None or table.is_namespace(name):
        return True
    if home.partition(".")[0] == "keras":
        return hasattr(importlib.import_module(f"drumline.compat.tf.{home}"), last)
    entry = table.find(home) if home in table.tensorflow().methods else None
    return entry is not None and hasattr(entry.load(), last)


@pytest.fixture(scope="module")
def absent_names():
    public = table.tensorflow()
    methods = {f"{cls}.{name}" for cls, names in public.methods.items() for name in names}
    return sorted(name for name in public.names | methods if not is_there(name))


@pytest.mark.parametrize("area", table.areas())
def test_every_entry_resolves(area):
    for entry in importlib.import_module(f"drumline.compat.symbols.{area}").AREA:
        if entry.needs and entry.name not in table.entries():
            assert table.find(entry.needs) is None, entry
            continue
        found = entry.load()
        reached = tf
        for part in entry.name.split("."):
            reached = getattr(reached, part)
        assert reached is found, entry


def test_names_are_tensorflows_own():
    unknown = {
        name
        for name in table.entries()
        if not table.is_public(name)
        # TensorFlow 2.15 is the last release that has Estimators.
        and not name.removeprefix("compat.v1.").startswith(("keras.", "estimator."))
    }
    assert unknown == set()


def test_names_of_one_object_are_there_together():
    assert tf.linalg.matmul is tf.matmul
    assert tf.compat.v1.matmul is tf.matmul
    assert tf.compat.v2.linalg.matmul is tf.matmul
    assert tf.compat.v1.ceil is tf.math.ceil
    assert tf.losses.MeanSquaredError is tf.keras.losses.MeanSquaredError


def test_names_are_listed_and_importable():
    from drumline.compat.tf.keras import layers

    from drumline.compat.tf import keras, math

    assert {"add", "math", "keras"} <= set(dir(tf))
    assert "reduce_sum" in dir(math)
    assert keras.layers is layers
    assert "Dense" in dir(layers)
    listed = [name for name in dir(tf) if name != "__version__"]
    assert all(hasattr(tf, name) for name in listed)
    assert {name for name in table.present() if "." not in name} <= set(listed)


def test_absent_names_have_answers(absent_names):
    uses = collections.defaultdict(list)
    for name in absent_names:
        answer = absent.answer(table.canonical(name))
        uses[answer.use].append(name)
        assert table.missing(name) == f"tf.{name} is not in the look-alike{answer}"
        assert "\n" not in table.missing(name)
        assert answer.use or answer.reason in absent.REASONS, name
        assert not answer.reason or answer.reason in absent.REASONS, name
    uses.pop("")
    wrong = {use: names[:3] for use, names in uses.items() if not absent.resolves(use)}
    assert wrong == {}


def test_no_reason_is_a_rag_bag(absent_names):
    # Each object once, too: a name of compat.v1 is often another one of the same function.
    first = table.tensorflow().same
    objects = {first.get(table.canonical(name), table.canonical(name)) for name in absent_names}
    assert len(absent.REASONS) <= 10
    for names in (absent_names, sorted(objects)):
        answers = [absent.answer(table.canonical(name)) for name in names]
        reasons = collections.Counter(each.reason for each in answers if not each.use)
        assert max(reasons.values()) <= 0.1 * len(names), reasons
        assert sum(reasons.values()) <= 0.25 * len(names), reasons


def test_every_absent_name_has_an_answer_of_its_own(absent_names):
    answers = {name: absent.answer(table.canonical(name)) for name in absent_names}
    assert [name for name, each in answers.items() if each.reason == "later"] == []


def test_every_rule_is_the_first_for_a_name():
    public = table.tensorflow()
    methods = {f"{cls}.{name}" for cls, names in public.methods.items() for name in names}
    unused = list(absent.rules())
    for name in public.names | methods:
        first = next((rule for rule in absent.rules() if rule.expression.match(name)), None)
        unused = [rule for rule in unused if rule is not first]
    assert unused == []


def test_what_an_answer_names_is_imported_to_see():
    assert absent.resolve("tf.math.add") is tf.add
    assert absent.resolve("str.format") == str.format
    for wrong in ("jax.lax.no_such", "no_such_package.name", "tf.math.no_such"):
        assert not absent.resolves(wrong)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("raw_ops.SegmentSumV2", "use tf.math.segment_sum"),
        ("raw_ops.ResourceGather", "use tf.gather"),
        ("raw_ops.TensorArrayReadV3", "use "),
        ("raw_ops.EnqueueTPUEmbeddingIntegerBatch", "TPU embeddings"),
        ("raw_ops.BoostedTreesPredict", "removed from TensorFlow"),
        ("compat.v1.Session", "no graphs, sessions"),
        ("compat.v1.train.summary_iterator", "event_file_loader.EventFileLoader"),
        ("compat.v2.raw_ops.SegmentSumV2", "use tf.math.segment_sum"),
        ("lite.TFLiteConverter", "convert TensorFlow's graphs"),
    ],
)
def test_an_absent_name_says_what_to_use(name, expected):
    path, _, last = name.rpartition(".")
    module = importlib.import_module(f"drumline.compat.tf.{path}")
    with pytest.raises(AttributeError) as of_attribute:
        getattr(module, last)
    text = str(of_attribute.value)
    assert text.startswith(f"tf.{name} is not in the look-alike") and expected in text
    with pytest.raises(ImportError) as of_import:
        exec(f"from drumline.compat.tf.{path} import {last}")
    assert str(of_import.value) == text


def test_misspelled_names_get_near_ones():
    with pytest.raises(AttributeError, match=r"TensorFlow 2\.21 has no .*tf\.reduce_sum"):
        tf.reduce_summ  # noqa: B018
    with pytest.raises(ImportError, match=r"nearest: tf\.reduce_sum"):
        from drumline.compat.tf import reduce_summ  # noqa: F401
    with pytest.raises(ImportError, match=r"has no tf\.math\.no_such_thing"):
        import drumline.compat.tf.math.no_such_thing  # noqa: F401
    with pytest.raises(AttributeError) as raised:
        tf.summary.summary_scope  # noqa: B018
    assert str(raised.value).count("tf.summary.experimental.summary_scope") == 1
    assert not hasattr(tf, "__wrapped__")


def test_objects_answer_for_methods_that_are_absent():
    for value, name, use in [
        (tf.Variable(1.0), "initializer", "no graphs"),
        (tf.constant(1.0), "eval", "use tf.Tensor.numpy"),
        (tf.TensorShape([1]), "as_proto", "TensorFlow alone reads"),
    ]:
        kind = type(value).__name__
        if table.tensorflow().methods[kind] and name not in table.tensorflow().methods[kind]:
            raise AssertionError(f"TensorFlow's {kind} has no {name}")
        with pytest.raises(AttributeError) as raised:
            getattr(value, name)
        assert str(raised.value).startswith(f"tf.{kind}.{name} is not in the look-alike")
        assert use in str(raised.value)
        assert not hasattr(value, name) and not hasattr(type(value), name)
    with pytest.raises(AttributeError, match="has no attribute 'no_such'"):
        tf.constant(1.0).no_such  # noqa: B018
    from drumline.distribute import Strategy

    assert "make_dataset_iterator" not in dir(Strategy)


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, drumline.compat.tf as tf; dir(tf); "
        "print([n for n in ('jax', 'keras', 'tensorflow') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
