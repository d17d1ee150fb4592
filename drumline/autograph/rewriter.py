"""Python control flow rewritten so that conditions and loops may be over traced values.

Two passes over a function's syntax tree. `_Jumps` replaces ``break``, ``continue`` and early
``return`` by flags, and puts the statements that they skip under ``if not flag``. `_Calls` then
turns each ``if``, ``while`` and ``for`` into functions without arguments for the branches, which
assign the names of the function around them (``nonlocal``), and a call of the runtime
(`drumline.autograph.runtime`), which decides whether to run them as Python or to trace them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from drumline.autograph.datasets import reason_against_staging, staged_loop
from drumline.autograph.source import LOOPS, RUNTIME, assigned, own_nodes, parsed

_RETURNS, _VALUE = "__returns__", "__value__"

_KEEPS_FRAME = frozenset(("super", "locals", "globals", "vars", "eval", "exec", "dir"))


def convertible(definition: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether a function's control flow can be rewritten: generators and coroutines cannot."""
    if isinstance(definition, ast.Lambda):
        return True
    kinds = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
    return not any(isinstance(node, kinds) for node in own_nodes(definition.body))


def rewrite_function(definition: ast.FunctionDef) -> None:
    """Rewrite the control flow of a function in place; functions in it are rewritten too."""
    body, declared = _without_declarations(definition.body)
    jumps = _Jumps()
    always = _jumps_always(body)
    nested = any(isinstance(node, ast.Return) for node in own_nodes(body[:-1])) or (
        bool(body)
        and not isinstance(body[-1], ast.Return)
        and any(isinstance(node, ast.Return) for node in own_nodes(body[-1:]))
    )
    if nested:
        body, _ = jumps.block(body, None)
        place = definition.body[0]
        ends = f"return {_VALUE}" if always else f"return {RUNTIME}.returned({_RETURNS}, {_VALUE})"
        body = [
            *_at(parsed(f"{_RETURNS} = False; {_VALUE} = {RUNTIME}.nothing"), place),
            *body,
            *_at(parsed(ends), definition.body[-1]),
        ]
    else:
        body = jumps.loops_of(body)
    names = sorted(set(assigned(body)))
    arguments = definition.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    given += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    outside = {each.arg for each in given} | {n for each in declared.values() for n in each}
    written_inside = {
        name
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Nonlocal)
        for name in node.names
    }
    shared = written_inside & (outside | set(names))
    new = _Calls(definition, frozenset(declared["global"]), frozenset(shared)).block(body)
    # Functions in it may only declare names nonlocal that are bound here; this binds and costs
    # nothing, since the compiler leaves out what never runs.
    bound = [name for name in names if name not in outside]
    start = [f"{kind} {', '.join(sorted(each))}" for kind, each in declared.items() if each]
    start += ["if 0: " + " = ".join([*bound, "None"])] if bound else []
    documented = [new.pop(0)] if new and ast.get_docstring(definition, clean=False) else []
    place = definition.body[0]
    definition.body = [*documented, *_at(parsed("\n".join(start)), place), *new]


def rewrite_lambda(definition: ast.Lambda) -> None:
    """Rewrite the conditions and calls in a lambda in place."""
    definition.body = _Calls(definition, frozenset(), frozenset()).visit(definition.body)


def _without_declarations(body: list[ast.stmt]) -> tuple[list[ast.stmt], dict[str, set[str]]]:
    """The statements without ``global`` and ``nonlocal``, and the names that these declare."""
    declared: dict[str, set[str]] = {"global": set(), "nonlocal": set()}

    class Remove(ast.NodeTransformer):
        def visit_FunctionDef(self, node: Any) -> Any:
            return node

        visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef

        def visit_Global(self, node: ast.Global | ast.Nonlocal) -> Any:
            declared["global" if isinstance(node, ast.Global) else "nonlocal"].update(node.names)
            return ast.copy_location(ast.Pass(), node)

        visit_Nonlocal = visit_Global

    return [Remove().visit(statement) for statement in body], declared


def _jumps_always(body: Sequence[ast.stmt]) -> bool:
    """Whether control never reaches what follows the statements."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
        return True
    if isinstance(last, ast.With):
        return _jumps_always(last.body)
    return isinstance(last, ast.If) and _jumps_always(last.body) and _jumps_always(last.orelse)


def _at(statements: list[Any], place: ast.AST) -> list[Any]:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (ast.stmt, ast.expr)) and not hasattr(node, "lineno"):
                ast.copy_location(node, place)
                node.end_lineno = node.lineno  # else errors are shown at a statement's last line
                node.end_col_offset = node.col_offset + 1
    return statements


def _stores(body: Sequence[ast.stmt]) -> tuple[str, ...]:
    """The items and attributes that the statements assign, of objects that are not their own."""
    own = set(assigned(list(body)))
    found = set()
    for node in own_nodes(list(body)):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            base: ast.expr = node
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            if not (isinstance(base, ast.Name) and base.id in own):
                found.add(ast.unparse(node))
    return tuple(sorted(found))


def _unless(flags: set[str]) -> str:
    return f"not ({' or '.join(sorted(flags))})"


class _Jumps:
    """Replaces ``break``, ``continue`` and ``return`` by flags."""

    def __init__(self) -> None:
        self._loops = 0

    def loops_of(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Statements whose only ``return`` is the last one: it stays."""
        if body and isinstance(body[-1], ast.Return):
            return [*self.block(body[:-1], None)[0], body[-1]]
        return self.block(body, None)[0]

    def block(
        self, statements: list[ast.stmt], loop: tuple[str, str] | None
    ) -> tuple[list[ast.stmt], set[str]]:
        """The statements without jumps, and the flags that they may set."""
        out: list[ast.stmt] = []
        flags: set[str] = set()
        pending = list(statements)
        while pending:
            statement = pending.pop(0)
            if isinstance(statement, ast.If) and pending:
                # What follows a branch that leaves belongs to the other: both then have a value.
                if _jumps_always(statement.body):
                    statement.orelse, pending = [*statement.orelse, *pending], []
                elif _jumps_always(statement.orelse):
                    statement.body, pending = [*statement.body, *pending], []
            new, set_here = self._statement(statement, loop)
            out += new
            flags |= set_here
            if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
                break
            if set_here and pending:
                rest, more = self.block(pending, loop)
                flags |= more
                guard = _at(parsed(f"if {_unless(set_here)}: pass"), pending[0])[0]
                guard.body = rest
                out.append(guard)
                break
        return out, flags

    def _statement(self, node: ast.stmt, loop: tuple[str, str] | None) -> tuple[list[Any], set]:
        if isinstance(node, ast.Return):
            flag = _at(parsed(f"{_RETURNS} = True"), node)
            value = ast.Assign(
                [ast.Name(_VALUE, ast.Store())], node.value or ast.Constant(value=None)
            )
            return [*_at([value], node), *flag], {_RETURNS}
        if isinstance(node, (ast.Break, ast.Continue)) and loop is not None:
            name = loop[0] if isinstance(node, ast.Break) else loop[1]
            return _at(parsed(f"{name} = True"), node), {name}
        if isinstance(node, (ast.While, ast.For)):
            return self._loop(node, loop)
        flags: set[str] = set()
        if isinstance(node, ast.Match):
            for case in node.cases:
                case.body, more = self.block(case.body, loop)
                flags |= more
        if isinstance(node, (ast.If, ast.With, ast.Try)):
            node.body, flags = self.block(node.body, loop)
            of_body = set(flags)
            for field in ("orelse", "finalbody"):
                if inner := getattr(node, field, None):
                    new, more = self.block(inner, loop)
                    if of_body and field == "orelse" and isinstance(node, ast.Try):
                        guard = _at(parsed(f"if {_unless(of_body)}: pass"), inner[0])[0]
                        guard.body, new = new, [guard]
                    setattr(node, field, new)
                    flags |= more
            for handler in getattr(node, "handlers", ()):
                handler.body, more = self.block(handler.body, loop)
                flags |= more
        return [node], flags

    def _loop(self, node: Any, outer: tuple[str, str] | None) -> tuple[list[Any], set[str]]:
        self._loops += 1
        leaves, skips = f"__break_{self._loops}__", f"__continue_{self._loops}__"
        node.as_written = copy.deepcopy(node)
        node.body, flags = self.block(node.body, (leaves, skips))
        before: list[Any] = []
        if skips in flags:
            node.body = [*_at(parsed(f"{skips} = False"), node), *node.body]
            before += _at(parsed(f"{skips} = False"), node)
        if leaves in flags:
            before += _at(parsed(f"{leaves} = False"), node)
        node.stops = flags - {skips}
        after, more = self.block(node.orelse, outer)
        if after and node.stops:
            guard = _at(parsed(f"if {_unless(node.stops)}: pass"), after[0])[0]
            guard.body, after = after, [guard]
        node.orelse = []
        return [*before, node, *after], (flags - {skips, leaves}) | more


class _Calls(ast.NodeTransformer):
    """Turns control flow without jumps into calls of the runtime."""

    def __init__(self, function: Any, global_names: frozenset[str], shared: frozenset[str]) -> None:
        # What functions inside declare nonlocal: any call in a branch may assign it.
        self._shared = shared
        self._count = 0
        self._globals = global_names
        arguments = function.args
        given = [*arguments.posonlyargs, *arguments.args]
        self._first = given[0].arg if given else None

    def block(self, statements: Sequence[ast.stmt]) -> list[Any]:
        out: list[Any] = []
        for statement in statements:
            new = self.visit(statement)
            out += new if isinstance(new, list) else [new]
        return out

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        if convertible(node):
            rewrite_function(node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        rewrite_lambda(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id in _KEEPS_FRAME:
            if node.func.id == "super" and not node.args and self._first is not None:
                names = [ast.Name("__class__", ast.Load()), ast.Name(self._first, ast.Load())]
                node.args = [ast.copy_location(name, node) for name in names]
            return node
        self.generic_visit(node)
        node.func = self._call("callee", node.func, place=node.func)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if _binds(node):
            return node
        self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        first, *others = node.values
        return self._call(name, first, *map(_delayed, others), place=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return (
            self._call("not_", node.operand, place=node) if isinstance(node.op, ast.Not) else node
        )

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if _binds(node):
            return node
        self.generic_visit(node)
        branches = _delayed(node.body), _delayed(node.orelse)
        return self._call("if_expression", node.test, *branches, place=node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 or _binds(node):
            self.generic_visit(node)
            return node
        # (lambda a, b: and_(a < b, lambda: b < c))(a, b): each operand is evaluated once.
        self._count += 1
        left, right = f"__left_{self._count}__", f"__right_{self._count}__"
        names = [ast.Name(name, ast.Load()) for name in (left, right)]
        first = ast.Compare(names[0], node.ops[:1], node.comparators[:1])
        first.comparators = [names[1]]
        rest: ast.expr = ast.Compare(
            ast.Name(right, ast.Load()), node.ops[1:], node.comparators[1:]
        )
        ast.copy_location(rest, node)
        rest = self.visit(rest)
        both = self._call("and_", first, _delayed(rest), place=node)
        function = _delayed(both, [left, right])
        operands = [self.visit(node.left), self.visit(node.comparators[0])]
        return _at([ast.Call(function, operands, [])], node)[0]

    def visit_Assert(self, node: ast.Assert) -> Any:
        if _binds(node):
            return node
        self.generic_visit(node)
        message = _delayed(node.msg or ast.Constant(value=None))
        return _at([ast.Expr(self._call("assert_", node.test, message, place=node))], node)[0]

    def visit_If(self, node: ast.If) -> Any:
        number = self._next()
        names = sorted(self._shared | set(assigned([*node.body, *node.orelse])))
        test = self.visit(node.test)
        then = self._function(f"__then_{number}__", [], node.body, names, node)
        otherwise = self._function(f"__else_{number}__", [], node.orelse, names, node)
        call = parsed(
            f"{RUNTIME}.if_(0, __then_{number}__, __else_{number}__, "
            f"{tuple(names)!r}, {node.lineno}, {_stores([*node.body, *node.orelse])!r})"
        )
        call[0].value.args[0] = test
        return [then, otherwise, *_at(call, node)]

    def visit_While(self, node: Any) -> Any:
        number = self._next()
        test = node.test
        if stops := getattr(node, "stops", None):
            going = _at(parsed(_unless(stops)), node)[0].value
            test = ast.copy_location(ast.BoolOp(ast.And(), [going, node.test]), node)
        names = sorted(
            self._shared | set(assigned(node.body)) | set(assigned([ast.Expr(node.test)]))
        )
        condition = ast.copy_location(ast.Return(test), node.test)
        definitions = [
            self._function(f"__test_{number}__", [], [condition], names, node),
            self._function(f"__body_{number}__", [], node.body, names, node),
        ]
        call = f"{RUNTIME}.while_(__test_{number}__, __body_{number}__, {tuple(names)!r}, "
        call += f"{node.lineno}, {_stores(node.body)!r})"
        return [*definitions, *_at(parsed(call), node)]

    def visit_For(self, node: Any) -> Any:
        number = self._next()
        names = sorted(
            self._shared | set(assigned([*node.body, ast.Assign([node.target], ast.Constant(0))]))
        )
        over = f"__over_{number}__"
        iterable = _at([ast.Assign([ast.Name(over, ast.Store())], self.visit(node.iter))], node)
        unpack = ast.Assign([node.target], ast.Name("__item__", ast.Load()))
        body = [ast.copy_location(unpack, node), *node.body]
        definitions = [self._function(f"__body_{number}__", ["__item__"], body, names, node)]
        going = "None"
        if stops := getattr(node, "stops", None):
            going = f"__going_{number}__"
            condition = _at(parsed(f"return {_unless(stops)}"), node)
            definitions.append(self._function(going, [], condition, [], node))
        call = (
            f"{RUNTIME}.for_({over}, __body_{number}__, {going}, {tuple(names)!r}, "
            f"{node.lineno}, {_stores(node.body)!r})"
        )
        loop = [*definitions, *_at(parsed(call), node)]
        return [*iterable, *self._over_data(node, over, number, loop)]

    def _over_data(self, node: Any, over: str, number: int, loop: list[Any]) -> list[Any]:
        """A loop over a dataset is staged if it can be; else it runs step by step."""
        written = getattr(node, "as_written", node)
        reason = reason_against_staging(written, self._globals)
        if reason is not None:
            told = parsed(f"if {LOOPS}.over_data({over}): {LOOPS}.step_by_step({reason!r})")
            return [*_at(told, node), *loop]
        staged = staged_loop(written, number, over)
        for statement in staged:
            if isinstance(statement, ast.FunctionDef):
                _at([statement], node)
                rewrite_function(statement)
        choice = parsed(f"if {LOOPS}.over_data({over}): pass\nelse: pass")[0]
        choice.body, choice.orelse = staged, loop
        return _at([choice], node)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _function(
        self, name: str, parameters: list[str], body: list[Any], names: list[str], place: Any
    ) -> Any:
        """A function of the branch, which assigns the names around it."""
        declared: list[ast.stmt] = []
        if own := [each for each in names if each not in self._globals]:
            declared.append(ast.Nonlocal(own))
        if outside := [each for each in names if each in self._globals]:
            declared.append(ast.Global(outside))
        definition = _at(parsed(f"def {name}({', '.join(parameters)}): pass"), place)[0]
        definition.body = [*_at(declared, place), *(self.block(body) or _at([ast.Pass()], place))]
        return definition

    def _call(self, name: str, *arguments: ast.expr, place: ast.AST) -> Any:
        function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load())
        return _at([ast.Call(function, list(arguments), [])], place)[0]


def _delayed(value: ast.expr, parameters: Sequence[str] = ()) -> ast.Lambda:
    given = [ast.arg(name) for name in parameters]
    return ast.Lambda(ast.arguments([], given, None, [], [], None, []), value)


def _binds(node: ast.AST) -> bool:
    """Whether an expression assigns a name (``:=``), which a lambda around it would hide."""
    return any(isinstance(each, ast.NamedExpr) for each in ast.walk(node))
