"""The source of functions: where it is, what it assigns, and functions made of changed source."""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
import textwrap
import types
from typing import Any

from drumline._function_identity import copy_function

LOOPS = "__drumline_loops__"
RUNTIME = "__drumline_autograph__"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def definition_of_source(fn: types.FunctionType) -> ast.FunctionDef | None:
    try:
        lines, first = inspect.getsourcelines(fn.__code__)
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


def code_of(
    fn: types.FunctionType, definition: ast.FunctionDef | ast.Lambda, added: tuple[str, ...]
) -> types.CodeType:
    """The code of the changed definition, where `added` are closure variables beside `fn`'s."""
    # Keyword-only arguments lost their defaults above: they are optional again by __kwdefaults__.
    free = [*fn.__code__.co_freevars, *added]
    name = "<lambda>"
    if isinstance(definition, ast.FunctionDef):
        # Under its own name it would be a variable of the factory, that a function which calls
        # itself finds in place of the global one.
        name, definition = definition.name, copy.copy(definition)
        definition.name = "__definition__"
    factory = ast.FunctionDef(
        name="__factory__",
        args=ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, []),
        body=(
            [ast.Return(definition)]
            if isinstance(definition, ast.Lambda)
            else [definition, ast.Return(ast.Name(definition.name, ast.Load()))]
        ),
        decorator_list=[],
    )
    module = ast.fix_missing_locations(ast.Module([factory], []))
    namespace: dict[str, Any] = {}
    exec(compile(module, fn.__code__.co_filename, "exec"), namespace)
    code = next(
        constant
        for constant in namespace["__factory__"].__code__.co_consts
        if isinstance(constant, types.CodeType)
    )
    return code.replace(co_name=name, co_qualname=fn.__qualname__)


def function_of(
    fn: types.FunctionType, code: types.CodeType, added: dict[str, Any]
) -> types.FunctionType:
    """`code` as a function with the closure and the defaults of `fn`, and values of its own."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    for name, value in added.items():
        cells[name] = types.CellType(value)
    return copy_function(fn, closure=tuple(cells[name] for name in code.co_freevars), code=code)


def lambda_of_source(fn: types.FunctionType) -> ast.Lambda | None:
    """The lambda in its file, found by the places of its code; None if that is not to be had."""
    code = fn.__code__
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename, fn.__globals__)))
    except SyntaxError:
        return None
    places = [
        (first, column, last, end)
        for first, last, column, end in code.co_positions()
        if first is not None and last is not None and column is not None and end is not None
    ]
    places = [place for place in places if place[:2] != place[2:]]  # those of no expression
    if not places:
        return None
    start = min(place[:2] for place in places)
    stop = max(place[2:] for place in places)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            body = node.body
            ends = (body.end_lineno or 0, body.end_col_offset or 0)
            if (body.lineno, body.col_offset) <= start and stop <= ends:
                found.append(node)
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    found = found[-1:]  # the innermost, where one lambda holds another
    if len(found) != 1:
        return None
    found[0].args.defaults = []
    found[0].args.kw_defaults = [None] * len(found[0].args.kwonlyargs)
    return found[0]


def parsed(source: str) -> list[Any]:
    """The statements without a place in the source: they get that of the loop they stand for."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for attribute in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            vars(node).pop(attribute, None)
    return tree.body


def own_nodes(statements: list[ast.stmt]) -> list[ast.AST]:
    """All nodes of the statements but those of functions and classes defined there."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = list(statements)
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)
    return found


def assigned(statements: list[ast.stmt]) -> list[str]:
    names = []
    for node in own_nodes(statements):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    return names
