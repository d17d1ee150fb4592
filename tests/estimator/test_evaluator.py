"""The evaluator's task: it waits for checkpoints, and evaluates each new one, the last one too."""

import importlib
import json
import logging

import pytest

import drumline as dl
from tests.estimator.test_estimator import MODES, estimator, input_fn


class Clock:
    """Stands for `time`: while the evaluator sleeps, a chief trains up to steps at their times.

    Args:
        train: trains up to a step.
        due: the steps by their times.
    """

    def __init__(self, train, due):
        self.now = 0.0
        self._train = train
        self._due = dict(due)

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds
        for when in [when for when in self._due if when <= self.now]:
            self._train(self._due.pop(when))


def test_it_evaluates_each_new_checkpoint_and_ends_with_the_last(tmp_path, monkeypatch, caplog):
    def train(step):
        estimator(tmp_path).train(lambda: input_fn(MODES.TRAIN), max_steps=step)

    clock = Clock(train, {75.0: 2, 81.0: 3, 130.0: 4, 200.0: 6})
    task_config = {"type": "evaluator", "index": 0}
    config = {"cluster": {"worker": ["h:1"], "evaluator": ["h:2"]}, "task": task_config}
    made = []

    def evaluate(*args, **kwargs):
        found = of_estimator(*args, **kwargs)
        made.append((round(clock.now), int(found["global_step"])))
        return found

    with monkeypatch.context() as patch:
        patch.setenv("TF_CONFIG", json.dumps(config))
        evaluator = estimator(tmp_path)
    of_estimator = evaluator.evaluate
    task = importlib.import_module("drumline.estimator.train_and_evaluate")
    monkeypatch.setattr(task, "time", clock)
    monkeypatch.setattr(evaluator, "evaluate", evaluate)
    spec = dl.estimator.EvalSpec(input_fn, name="all", start_delay_secs=5, throttle_secs=20)
    with caplog.at_level(logging.WARNING, "drumline"):
        found = dl.estimator.train_and_evaluate(
            evaluator, dl.estimator.TrainSpec(input_fn, max_steps=6), spec
        )
    assert found is None
    # Polled every second, and each checkpoint at least 20 seconds after the one before.
    assert made == [(75, 2), (95, 3), (130, 4), (200, 6)]
    waits = [each for each in caplog.messages if "no checkpoint in model_dir" in each]
    assert len(waits) == 2, "at 5 s, and again after a minute"
    assert "same model_dir" in waits[0] and str(tmp_path) in waits[0]
    written = dl.estimator.experimental.read_eval_metrics(tmp_path / "eval_all")
    assert sorted(written) == [2, 3, 4, 6]
    assert list(tmp_path.glob("events.*")) and not (tmp_path / "eval").exists()


def test_a_model_without_a_checkpoint_is_not_evaluated(tmp_path):
    with pytest.raises(ValueError, match=r"Could not find trained model in model_dir: .* train fi"):
        estimator(tmp_path).evaluate(input_fn)


def test_a_checkpoint_that_is_deleted_meanwhile_is_passed_over(tmp_path, monkeypatch, caplog):
    """A chief that saves faster than the evaluator evaluates deletes what it has found."""

    def train(step):
        made = estimator(tmp_path, keep_checkpoint_max=1)
        made.train(lambda: input_fn(MODES.TRAIN), max_steps=step)

    train(2)
    task_config = {"type": "evaluator", "index": 0}
    config = {"cluster": {"worker": ["h:1"], "evaluator": ["h:2"]}, "task": task_config}
    with monkeypatch.context() as patch:
        patch.setenv("TF_CONFIG", json.dumps(config))
        evaluator = estimator(tmp_path)
    of_estimator, made = evaluator.evaluate, []

    def evaluate(*args, **kwargs):
        if not made:
            made.append("late")
            train(4)
        made.append(int(of_estimator(*args, **kwargs)["global_step"]))
        return {"global_step": made[-1]}

    monkeypatch.setattr(evaluator, "evaluate", evaluate)
    spec = dl.estimator.EvalSpec(input_fn, start_delay_secs=0, throttle_secs=0)
    with caplog.at_level(logging.WARNING, "drumline"):
        dl.estimator.train_and_evaluate(
            evaluator, dl.estimator.TrainSpec(input_fn, max_steps=4), spec
        )
    assert made == ["late", 4]
    assert any("model.ckpt-2' was deleted" in each for each in caplog.messages)
