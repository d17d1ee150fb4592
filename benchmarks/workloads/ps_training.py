"""Asynchronous training with one parameter server and two workers, each a process."""

from __future__ import annotations

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import measured_loop
from benchmarks.harness.server_cluster import in_server_cluster
from benchmarks.harness.training import check_training
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads import ps_keras, ps_tensorflow
from benchmarks.workloads.ps_problem import DENSE, EMBEDDING, TABLES, Problem

OURS = ("drumline", "jax", "keras")
THEIRS = ("tensorflow-cpu", "tensorflow")
WORKERS, SERVERS = 2, 1
EXPERT_STEPS = 10
# Which weights a step reads is a matter of timing.
TOLERANCE, FALLS_TO = 0.3, 0.98


def _drumline(problem: Problem) -> Contender:
    run = measured_loop(ps_keras.drumline_training(problem), *OURS)
    return Contender(
        "drumline",
        "Keras model and optimizer, ClusterCoordinator.schedule",
        OURS,
        in_server_cluster(WORKERS, SERVERS, ps_keras.drumline_serve, run),
    )


def _tensorflow(name: str, about: str, prepare: ps_tensorflow.Prepare) -> Contender:
    return Contender(
        name,
        about,
        ("tensorflow", "keras"),
        in_server_cluster(WORKERS, SERVERS, ps_tensorflow.serve, measured_loop(prepare, *THEIRS)),
    )


def _contenders(problem: Problem) -> tuple[Contender, ...]:
    return (
        _drumline(problem),
        _tensorflow(
            "TensorFlow",
            "tf.Variable, fused updates on the server, ClusterCoordinator.schedule",
            ps_tensorflow.training(problem),
        ),
        _tensorflow(
            "TensorFlow expert",
            f"the same, {EXPERT_STEPS} steps in each scheduled function",
            ps_tensorflow.training(problem, EXPERT_STEPS),
        ),
    )


def _workload(
    name: str,
    title: str,
    contenders: tuple[Contender, ...],
    full: Scale,
    quick: Scale,
    floor: Floor,
) -> Workload:
    return Workload(
        name=name,
        title=title,
        unit="steps",
        baseline="TensorFlow",
        full=full,
        quick=quick,
        contenders=contenders,
        floors=(floor,),
        check=check_training(TOLERANCE, FALLS_TO),
    )


def _floor(at_least: float, aim: float | None = None) -> Floor:
    return Floor("later", at_least=at_least, aim=aim, against="TensorFlow")


WORKLOADS = (
    _workload(
        "ps_embedding",
        "1 ps, 2 workers: table of 100,000 x 64, batch 256 x 20 ids, dense 1280-256-1, SGD",
        (
            *_contenders(EMBEDDING),
            _tensorflow(
                "TensorFlow, Keras",
                "Keras model and optimizer, ClusterCoordinator.schedule",
                ps_tensorflow.with_keras(EMBEDDING),
            ),
        ),
        Scale(elements=300, batch_size=1, later_epochs=4),
        Scale(elements=50, batch_size=1, later_epochs=3),
        _floor(2.0, aim=4.0),
    ),
    _workload(
        "ps_tables",
        "1 ps, 2 workers: 26 tables of 100,000 x 16, batch 2,048, dense 416-32-1, Adagrad",
        _contenders(TABLES),
        Scale(elements=100, batch_size=1, later_epochs=4),
        Scale(elements=20, batch_size=1, later_epochs=3),
        _floor(4.0, aim=8.0),
    ),
    _workload(
        "ps_dense",
        "1 ps, 2 workers: 25 M dense parameters, 2048-4096-4096-1, batch 4, SGD",
        _contenders(DENSE),
        Scale(elements=40, batch_size=1, later_epochs=4),
        Scale(elements=20, batch_size=1, later_epochs=2),
        _floor(2.0),
    ),
)
