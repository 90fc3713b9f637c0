"""Modules import one another in one direction, inside functions too."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def imports_of(path, modules):
    """Return the library's modules that a file imports, wherever in it; types alone apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    result = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            result |= whole & modules or {node.module}
        elif isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names} & modules
    return result


def test_no_cycle_hides_behind_a_late_import():
    files = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }
    graph = {name: imports_of(path, set(files)) - {name} for name, path in files.items()}
    assert len(graph) > 100
    # The order exists only if there is no cycle; else the error shows one.
    tuple(TopologicalSorter(graph).static_order())
