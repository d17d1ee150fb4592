"""Loops over datasets in a function's source, prepared to be staged."""

from __future__ import annotations

import ast
import copy
import inspect
import types
from collections.abc import Callable, Set
from typing import Any

from drumline.autograph.source import (
    LOOPS,
    assigned,
    code_of,
    definition_of_source,
    function_of,
    own_nodes,
    parsed,
)

_STOPPERS = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Delete)


def with_loops(fn: Callable[..., Any], loops: Any) -> Callable[..., Any]:
    """`fn` with each of its ``for`` statements left as it is, unless it goes over a dataset.

    A loop over a dataset becomes ``loops.staged(iterable, body, names, values)``, where ``body``
    is a function of a batch and of the names that the loop assigns. Everything else runs as
    written, with the same globals, closure and line numbers. A function without such statements,
    or whose source is not to be had, is returned itself.

    Args:
        fn: a function or method.
        loops: has ``over_data(iterable)``, ``staged``, ``step_by_step(reason)``, ``values`` and
            ``unset``.
    """
    target = inspect.unwrap(fn)
    bound = getattr(target, "__self__", None)
    plain = target.__func__ if bound is not None else target
    rewritten = _rewritten(plain, loops) if isinstance(plain, types.FunctionType) else None
    if rewritten is None:
        return fn
    return types.MethodType(rewritten, bound) if bound is not None else rewritten


def _rewritten(fn: types.FunctionType, loops: Any) -> types.FunctionType | None:
    if LOOPS in fn.__code__.co_freevars:  # converted: its loops over data are prepared
        return function_of(fn, fn.__code__, {LOOPS: loops})
    definition = definition_of_source(fn)
    if definition is None:
        return None
    rewriter = _Rewriter(definition)
    definition.body = [rewriter.visit(statement) for statement in definition.body]
    definition.body = _flat(definition.body)
    if not rewriter.found:
        return None
    return function_of(fn, code_of(fn, definition, (LOOPS,)), {LOOPS: loops})


def _flat(statements: list[Any]) -> list[ast.stmt]:
    return [
        part
        for statement in statements
        for part in (statement if isinstance(statement, list) else [statement])
    ]


class _Rewriter(ast.NodeTransformer):
    """Puts a choice in the place of each loop of the function itself."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self.found = False
        self._count = 0
        declared = [
            node for node in ast.walk(definition) if isinstance(node, (ast.Global, ast.Nonlocal))
        ]
        self._outer_names = {name for node in declared for name in node.names}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef  # type: ignore

    def visit_For(self, node: ast.For) -> Any:
        self.found = True
        self._count += 1
        number = self._count
        iterable = f"__iterable_{number}__"
        plain = copy.deepcopy(node)
        plain = self.generic_visit(plain)  # type: ignore[assignment]
        plain.body = _flat(plain.body)
        plain.iter = ast.Name(iterable, ast.Load())
        reason = reason_against_staging(node, self._outer_names)
        if reason is not None:
            staged: list[ast.stmt] = [
                *parsed(f"{LOOPS}.step_by_step({reason!r})"),
                copy.deepcopy(plain),
            ]
        else:
            staged = staged_loop(node, number, iterable)
        choice = ast.If(
            test=parsed(f"{LOOPS}.over_data({iterable})")[0].value,
            body=staged,
            orelse=[plain],
        )
        assign = ast.Assign([ast.Name(iterable, ast.Store())], node.iter)
        for statement in (assign, choice):
            ast.copy_location(statement, node)
            statement.end_lineno = node.lineno  # else a call that fails is shown at its last line
            statement.end_col_offset = node.col_offset + len("for")
        return [assign, choice]


def reason_against_staging(node: ast.For, outer_names: Set[str]) -> str | None:
    """Why a loop over a dataset cannot be staged; None if it can.

    Args:
        node: the loop.
        outer_names: those that the function declares global or nonlocal.
    """
    if node.orelse:
        return "it has an else clause"
    for inner in own_nodes(node.body):
        if isinstance(inner, _STOPPERS):
            return f"its body has a {type(inner).__name__.lower()} statement"
    outer = outer_names & set(assigned(node.body))
    if outer:
        return f"its body assigns {', '.join(sorted(outer))}, declared global or nonlocal"
    return None


def staged_loop(node: ast.For, number: int, iterable: str) -> list[ast.stmt]:
    names = sorted(set(assigned(node.body)) - set(_targets(node.target)))
    body, values = f"__body_{number}__", f"__values_{number}__"
    tuple_of_names = "(" + "".join(f"{name}, " for name in names) + ")"
    definition = parsed(f"def {body}(__batch__{''.join(f', {n}' for n in names)}): pass")[0]
    assert isinstance(definition, ast.FunctionDef)
    unpack = ast.Assign([copy.deepcopy(node.target)], ast.Name("__batch__", ast.Load()))
    definition.body = [
        ast.copy_location(unpack, node),
        *copy.deepcopy(node.body),
        *parsed(f"return {tuple_of_names}"),
    ]
    call = f"{LOOPS}.staged({iterable}, {body}, {names!r}, {values})"
    lines = [f"{values} = {LOOPS}.values(locals(), {names!r})"]
    after = [f"{tuple_of_names} = {call}" if names else call]
    after += [f"if {name} is {LOOPS}.unset: del {name}" for name in names]
    return [
        *parsed("\n".join(lines)),
        definition,
        *parsed("\n".join(after)),
    ]


def _targets(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
