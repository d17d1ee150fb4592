"""Steps, updates and initial values as programs that other tasks run without the user's code."""

from drumline.distribute.parameter_server.programs.errors import (
    CorruptProgramError,
    OptimizerError,
    ProgramError,
    StepError,
    WholeTableReadError,
)
from drumline.distribute.parameter_server.programs.exporting import load_program
from drumline.distribute.parameter_server.programs.formula import formula_of
from drumline.distribute.parameter_server.programs.ids_program import (
    IdsProgram,
    evaluate_ids,
    prepared,
)
from drumline.distribute.parameter_server.programs.initializer import export_initializer
from drumline.distribute.parameter_server.programs.slots import Input, Output
from drumline.distribute.parameter_server.programs.step_program import StepProgram, load
from drumline.distribute.parameter_server.programs.trace_step import TracedStep, trace_step
from drumline.distribute.parameter_server.programs.update import UpdateProgram, export_update
from drumline.distribute.parameter_server.programs.worker_state import worker_state

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
    "formula_of",
    "load",
    "load_program",
    "prepared",
    "trace_step",
    "worker_state",
]
