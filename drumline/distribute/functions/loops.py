"""Loops over datasets in a function's source, prepared to be staged."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

from drumline._function_identity import copy_function

_LOOPS = "__drumline_loops__"
_STOPPERS = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Delete)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


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
    definition = _definition(fn)
    if definition is None:
        return None
    rewriter = _Rewriter(definition)
    definition.body = [rewriter.visit(statement) for statement in definition.body]
    definition.body = _flat(definition.body)
    if not rewriter.found:
        return None
    return _compiled(fn, definition, loops)


def _definition(fn: types.FunctionType) -> ast.FunctionDef | None:
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError):
        return None
    try:
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except SyntaxError:  # the lines of a lambda need not be a whole statement
        return None
    definition = tree.body[0] if tree.body else None
    if not isinstance(definition, ast.FunctionDef):
        return None
    ast.increment_lineno(tree, first - 1)
    definition.decorator_list = []
    definition.returns = None
    arguments = definition.args
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        argument.annotation = None
    return definition


def _compiled(
    fn: types.FunctionType, definition: ast.FunctionDef, loops: Any
) -> types.FunctionType:
    """The changed definition as a function with the closure and the defaults of `fn`."""
    # Keyword-only arguments lost their defaults above: they are optional again by __kwdefaults__.
    free = [*fn.__code__.co_freevars, _LOOPS]
    factory = ast.FunctionDef(
        name="__factory__",
        args=ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, []),
        body=[definition, ast.Return(ast.Name(definition.name, ast.Load()))],
        decorator_list=[],
    )
    module = ast.fix_missing_locations(ast.Module([factory], []))
    namespace: dict[str, Any] = {}
    exec(compile(module, fn.__code__.co_filename, "exec"), namespace)
    code = next(
        constant
        for constant in namespace["__factory__"].__code__.co_consts
        if isinstance(constant, types.CodeType) and constant.co_name == definition.name
    )
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    cells[_LOOPS] = types.CellType(loops)
    closure = tuple(cells[name] for name in code.co_freevars)
    return copy_function(fn, closure=closure, code=code)


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
        reason = self._reason(node)
        if reason is not None:
            staged: list[ast.stmt] = [
                *_parsed(f"{_LOOPS}.step_by_step({reason!r})"),
                copy.deepcopy(plain),
            ]
        else:
            staged = _staged(node, number, iterable)
        choice = ast.If(
            test=_parsed(f"{_LOOPS}.over_data({iterable})")[0].value,
            body=staged,
            orelse=[plain],
        )
        assign = ast.Assign([ast.Name(iterable, ast.Store())], node.iter)
        for statement in (assign, choice):
            ast.copy_location(statement, node)
            statement.end_lineno = node.lineno  # else a call that fails is shown at its last line
            statement.end_col_offset = node.col_offset + len("for")
        return [assign, choice]

    def _reason(self, node: ast.For) -> str | None:
        """Why the loop cannot be staged; None if it can."""
        if node.orelse:
            return "it has an else clause"
        for inner in _own_nodes(node.body):
            if isinstance(inner, _STOPPERS):
                return f"its body has a {type(inner).__name__.lower()} statement"
        outer = self._outer_names & set(_assigned(node.body))
        if outer:
            return f"its body assigns {', '.join(sorted(outer))}, declared global or nonlocal"
        return None


def _staged(node: ast.For, number: int, iterable: str) -> list[ast.stmt]:
    names = sorted(set(_assigned(node.body)) - set(_targets(node.target)))
    body, values = f"__body_{number}__", f"__values_{number}__"
    tuple_of_names = "(" + "".join(f"{name}, " for name in names) + ")"
    definition = _parsed(f"def {body}(__batch__{''.join(f', {n}' for n in names)}): pass")[0]
    assert isinstance(definition, ast.FunctionDef)
    unpack = ast.Assign([copy.deepcopy(node.target)], ast.Name("__batch__", ast.Load()))
    definition.body = [
        ast.copy_location(unpack, node),
        *copy.deepcopy(node.body),
        *_parsed(f"return {tuple_of_names}"),
    ]
    call = f"{_LOOPS}.staged({iterable}, {body}, {names!r}, {values})"
    lines = [f"{values} = {_LOOPS}.values(locals(), {names!r})"]
    after = [f"{tuple_of_names} = {call}" if names else call]
    after += [f"if {name} is {_LOOPS}.unset: del {name}" for name in names]
    return [
        *_parsed("\n".join(lines)),
        definition,
        *_parsed("\n".join(after)),
    ]


def _parsed(source: str) -> list[Any]:
    """The statements without a place in the source: they get that of the loop they stand for."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for attribute in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            vars(node).pop(attribute, None)
    return tree.body


def _own_nodes(statements: list[ast.stmt]) -> list[ast.AST]:
    """All nodes of the statements but those of functions and classes defined there."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = list(statements)
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)
    return found


def _assigned(statements: list[ast.stmt]) -> list[str]:
    names = []
    for node in _own_nodes(statements):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    return names


def _targets(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
