"""Steps, updates and initial values as programs that other tasks run without the user's code."""

from drumline.distribute.parameter_server.compiler.exporting import Input, Output, load_program
from drumline.distribute.parameter_server.compiler.initializer import export_initializer
from drumline.distribute.parameter_server.compiler.split import TracedStep, trace_step
from drumline.distribute.parameter_server.compiler.step_program import (
    IdsProgram,
    StepProgram,
    evaluate_ids,
    load,
    prepared,
    worker_state,
)
from drumline.distribute.parameter_server.compiler.update import (
    UpdateProgram,
    export_update,
    native_optimizer,
)
from drumline.distribute.parameter_server.errors import (
    CorruptProgramError,
    OptimizerError,
    ProgramError,
    StepError,
)
from drumline.training.row_sparse.table_access import WholeTableReadError

__all__ = [
    "CorruptProgramError",
    "IdsProgram",
    "Input",
    "OptimizerError",
    "Output",
    "ProgramError",
    "StepError",
    "StepProgram",
    "TracedStep",
    "UpdateProgram",
    "WholeTableReadError",
    "evaluate_ids",
    "export_initializer",
    "export_update",
    "load",
    "load_program",
    "native_optimizer",
    "prepared",
    "trace_step",
    "worker_state",
]
