"""Dependencies follow the data: what each part may import of the others, and of the world."""

from __future__ import annotations

import ast
import graphlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

ALLOWED = {
    "collector": {
        "collector",
        "shadow.content_coding",
        "shadow.outage",  # a leaf: what is said of something that is away
        "shadow.exchange",
        "shadow.sse",
        "shadow.stream",
    },
    "analysis": {"analysis", "shadow.exchange", "shadow.outage"},
}
OWN = {"shadow", "collector", "analysis", "grafana"}


def imports(path: Path) -> set[str]:
    """Absolute names of all modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def reaches(name: str, allowed: set[str]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in allowed)


@pytest.mark.parametrize("package", ALLOWED)
def test_arrows(package):
    """Collector and analysis know the wire and nothing else of the proxy, and not each other."""
    for path in files(package):
        ours = {name for name in imports(path) if name.split(".")[0] in OWN}
        wrong = {name for name in ours if not reaches(name, ALLOWED[package])}
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_the_proxy_knows_no_later_part():
    """User traffic shares no code with decoding or the database; the command line stands outside."""
    outside = {"cli", "demo"}
    for path in files("shadow"):
        if path.relative_to(ROOT / "shadow").parts[0] in outside:
            continue
        wrong = {name for name in imports(path) if name.split(".")[0] in {"collector", "analysis"}}
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


@pytest.mark.parametrize(
    ("core", "world"),
    [
        ("shadow/exchange", {"pydantic", "shadow.exchange"}),
        ("shadow/sse.py", set()),
        ("shadow/relay/head.py", {"shadow.relay"}),
        ("shadow/relay/framing.py", {"shadow.relay"}),
        ("shadow/cli/entry.py", set()),
    ],
)
def test_pure_cores_import_next_to_nothing(core, world):
    """The wire schema needs pydantic, the sans-IO cores and the console entry nothing at all."""
    paths = files(core) or [ROOT / core]
    for path in paths:
        top = ast.parse(path.read_text()).body
        names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        names |= {str(node.module) for node in top if isinstance(node, ast.ImportFrom)}
        wrong = {n for n in names if not reaches(n, set(sys.stdlib_module_names) | world)}
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_the_parts_of_the_proxy_are_no_circle():
    """What one part needs of another when it runs leads one way; only types may look back."""
    needs: dict[str, set[str]] = {}
    for path in files("shadow"):
        part = path.relative_to(ROOT / "shadow").with_suffix("").parts[0]
        for name in running(ast.parse(path.read_text())):
            if name.startswith("shadow.") and name.split(".")[1] != part:
                needs.setdefault(part, set()).add(name.split(".")[1])
    order = list(graphlib.TopologicalSorter(needs).static_order())
    assert order.index("relay") < order.index("mirror") < order.index("app")


def test_the_relay_knows_the_mirror_by_an_interface_only():
    """Not even its types: what passes production's bytes is read without what copies them."""
    for path in files("shadow/relay"):
        wrong = {
            name for name in imports(path) if name.startswith(("shadow.mirror", "shadow.choosing"))
        }
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def running(tree: ast.Module) -> set[str]:
    """Modules imported at run time, not for their types."""
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return {
        str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and id(node) not in typing
    }
