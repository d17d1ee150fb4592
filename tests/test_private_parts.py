"""Which private parts of JAX are used, and that one that is missing is found at import."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
from pathlib import Path

import pytest

import drumline
from drumline import _jax_start

PACKAGE = Path(drumline.__file__).parent
ADAPTERS = (
    "_jax_start.py",
    "config/jax_internals.py",
    "cpu_kernels/jax_internals.py",
    "distribute/process_group/jax_internals.py",
    "plan/jax_internals.py",
    "training/jax_internals.py",
)
KNOWN_BY_SOME = {("core", "ClosedJaxpr"), ("jax_config", "ExplicitX64Mode")}
"""Parts that not every supported JAX has, which are asked for with a default."""


def test_only_the_adapters_import_private_modules() -> None:
    users = [
        path for path in PACKAGE.rglob("*.py") if _private_modules(ast.parse(path.read_text()))
    ]
    assert sorted(str(path.relative_to(PACKAGE)) for path in users) == sorted(ADAPTERS)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_what_an_adapter_uses_is_looked_up_at_import(adapter: str) -> None:
    tree = ast.parse((PACKAGE / adapter).read_text())
    modules = _private_modules(tree)
    used = {
        (path[0], path[1])
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and (path := _path(node)) and path[0] in modules
    }
    required = {
        (call.args[0].id, argument.value.partition(".")[0])
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id == "require" and isinstance(call.args[0], ast.Name)
        for argument in call.args[1:]
        if isinstance(argument, ast.Constant)
    }
    assert used - required - KNOWN_BY_SOME - _bound_at_import(tree) == set()


def test_a_missing_part_is_named_with_the_versions_that_have_it() -> None:
    module = types.ModuleType("jax._src.core")
    with pytest.raises(ImportError, match=r"jax._src.core.Trace, jax._src.core.a.b. Install jax>="):
        _jax_start.require(module, "__name__", "Trace", "a.b")


def test_a_parameter_that_a_function_no_longer_takes_is_named() -> None:
    def make(client: int, *, collectives: int = 0) -> None:
        """As of another version."""

    _jax_start.require_parameters(make, "client", "collectives")
    _jax_start.require_parameters(lambda **options: None, "anything")
    with pytest.raises(ImportError, match="make without the parameters host, port"):
        _jax_start.require_parameters(make, "client", "host", "port")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("jax._src.compilation_cache", "reset_cache"),
        ("jax._src.core", "EvalTrace"),
        ("jax._src.interpreters.mlir", "jaxpr_subcomp"),
    ],
)
def test_the_import_fails_and_not_the_first_step(module: str, name: str) -> None:
    program = f"import keras, {module}; del {module}.{name}; import drumline"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert f"{module}.{name}. Install {_jax_start.SUPPORTED}." in ended.stderr


def test_the_versions_in_messages_are_those_that_are_installed_with() -> None:
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    assert f'"{_jax_start.SUPPORTED}"' in pyproject.read_text()


def _private_modules(tree: ast.Module) -> set[str]:
    """The names under which a file knows private modules of JAX and parts of them."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        if (node.module or "").startswith("jax._src") or node.module == "jaxlib"
        for alias in node.names
    }


def _path(node: ast.Attribute) -> list[str] | None:
    value = node.value
    if isinstance(value, ast.Attribute):
        outer = _path(value)
        return None if outer is None else [*outer, node.attr]
    return [value.id, node.attr] if isinstance(value, ast.Name) else None


def _bound_at_import(tree: ast.Module) -> set[tuple[str, str]]:
    """Private parts named in the file's own statements, which run when it is imported."""
    statements = [node for node in tree.body if isinstance(node, ast.Assign | ast.ClassDef)]
    bases = [base for node in statements if isinstance(node, ast.ClassDef) for base in node.bases]
    values = [node.value for node in statements if isinstance(node, ast.Assign)]
    return {
        (path[0], path[1])
        for whole in (*bases, *values)
        for node in ast.walk(whole)
        if isinstance(node, ast.Attribute) and (path := _path(node))
    }
