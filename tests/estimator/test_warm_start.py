"""Estimators that begin with another one's values."""

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.estimator.train_loop import saved_values
from tests.estimator.test_estimator import estimator, input_fn

est = dl.estimator
NAMES = [
    f"sequential/{layer}/{name}" for layer in ("dense", "dense_1") for name in ("kernel", "bias")
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return estimator(tmp_path_factory.mktemp("trained")).train(input_fn, max_steps=4)


def begun(made):
    """The values of the first checkpoint, before the first step."""
    made.train(input_fn, steps=1)
    return saved_values(f"{made.model_dir}/model.ckpt-0")


def warm(folder, *arguments, **options):
    run = est.RunConfig(tf_random_seed=7)
    settings = est.WarmStartSettings(*arguments, **options)
    model_fn = estimator(folder / "unused").model_fn
    return est.Estimator(model_fn, folder / "warm", run, {"rate": 0.05}, settings)


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (".*", NAMES),
        ("sequential/dense/.*", NAMES[:2]),
        (["sequential/dense_1", "sgd/"], [*NAMES[2:], "sgd/iteration"]),
        (None, []),
    ],
)
def test_the_variables_that_are_chosen_are_taken(trained, tmp_path, wanted, taken):
    found = begun(warm(tmp_path, trained.model_dir, wanted))
    for name in (*NAMES, "sgd/iteration"):
        same = np.array_equal(found[name], trained.get_variable_value(name))
        assert same == (name in taken), name
    assert found["global_step"] == 0


def test_a_path_stands_for_all_trainable_variables_and_training_goes_on(trained, tmp_path):
    model_fn = trained.model_fn
    again = est.Estimator(
        model_fn, tmp_path, None, {"rate": 0.05}, warm_start_from=trained.latest_checkpoint()
    )
    first = begun(again)
    np.testing.assert_array_equal(first[NAMES[0]], trained.get_variable_value(NAMES[0]))
    later = again.get_variable_value(NAMES[0])
    resumed = est.Estimator(
        model_fn,
        tmp_path,
        est.RunConfig(log_step_count_steps=None),
        {"rate": 0.0},
        trained.model_dir,
    )
    resumed.train(input_fn, steps=1)
    assert resumed.get_variable_value("global_step") == 2
    assert not np.array_equal(later, first[NAMES[0]])


def test_names_and_vocabularies_map_to_the_old_ones(trained, tmp_path):
    swapped = {NAMES[1]: "sgd/sequential_dense_bias_momentum"}
    found = begun(warm(tmp_path, trained.model_dir, var_name_to_prev_var_name=swapped))
    np.testing.assert_array_equal(found[NAMES[1]], trained.get_variable_value(swapped[NAMES[1]]))
    (tmp_path / "old").write_text("a\nb\nc\nd\n")
    (tmp_path / "new").write_text("c\nx\na\n")
    words = {"new_vocab": tmp_path / "new", "new_vocab_size": 3, "num_oov_buckets": 1}
    info = est.VocabInfo(
        **words, old_vocab=tmp_path / "old", backup_initializer=keras.initializers.Constant(9.0)
    )
    made = warm(
        tmp_path / "words", trained.model_dir, None, var_name_to_vocab_info={NAMES[0]: info}
    )
    before = trained.get_variable_value(NAMES[0])
    nines = np.full(8, 9.0)
    np.testing.assert_array_equal(begun(made)[NAMES[0]], [before[2], nines, before[0], nines])
    zeros = info._replace(backup_initializer=None, axis=1, old_vocab_size=3, num_oov_buckets=5)
    made = warm(
        tmp_path / "columns", trained.model_dir, None, var_name_to_vocab_info={NAMES[0]: zeros}
    )
    after = begun(made)[NAMES[0]]
    np.testing.assert_array_equal(after[:, [0, 2]], before[:, [2, 0]])
    assert not after[:, [1, 3, 4, 5, 6, 7]].any()


def test_what_cannot_be_taken_is_named(trained, tmp_path):
    cases = [
        ((tmp_path,), {}, "there is no checkpoint in"),
        ((trained.model_dir,), {"var_name_to_prev_var_name": {NAMES[0]: "w"}}, "no variable 'w'"),
        ((trained.model_dir,), {"var_name_to_prev_var_name": {"w": "v"}}, "not used: .'w'."),
        (
            (trained.model_dir,),
            {"var_name_to_prev_var_name": {NAMES[0]: NAMES[1]}},
            r"has the shape \(8,\)",
        ),
    ]
    for place, (arguments, options, message) in enumerate(cases):
        made = warm(tmp_path / str(place), *arguments, **options)
        with pytest.raises(ValueError, match=message):
            made.train(input_fn, steps=1)
    with pytest.raises(ValueError, match="must be a string or a WarmStartSettings"):
        est.Estimator(trained.model_fn, warm_start_from=3)
    with pytest.raises(ValueError, match="MUST be set"):
        est.WarmStartSettings("")
