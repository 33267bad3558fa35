"""Reads Python files and the imports between them, with the standard library alone."""

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (".", "integrations", "exporters")  # the folders that hold packages of the product
PRODUCT = (
    "ragtrace", "ragtrace_langchain", "ragtrace_llama_index", "ragtrace_otlp", "ragtrace_prometheus",
    "ragtrace_backends", "ragtrace_brokers",
)  # fmt: skip

ADAPTERS = ("ragtrace_langchain", "ragtrace_llama_index")
DOOR: tuple[list[str], ...] = ([], ["__main__"], ["cli"], ["pytest"], ["testing"])
FOLDERS = ("batch", "worker", "live", "console", "capture", "evaluate", "statistics", "text")
OPENTELEMETRY_PARTS = ("exporter", "instrumentation", "proto", "sdk")


@dataclass(frozen=True)
class Module:
    """One Python file: its dotted name (None outside the product), its path and its text."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


@dataclass(frozen=True, order=True)
class Import:
    """That `importer` imports `imported`; both are modules of the product."""

    importer: str
    imported: str


@dataclass(frozen=True, order=True)
class Dependency:
    """That `module` imports the third-party package `package` at `line`, in a function or when it is loaded."""

    module: str
    package: str
    line: int
    in_function: bool


def product_modules(root: Path = ROOT) -> dict[str, Module]:
    """Returns every module of the product by its dotted name; a package has the name of its folder."""
    modules = {}
    for source in SOURCES:
        for package in PRODUCT:
            for path in sorted((root / source / package).rglob("*.py")):
                parts = path.relative_to(root / source).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                modules[name] = Module(name, path, path.read_text(encoding="utf-8"))
    return modules


def files_below(folder: Path) -> Iterator[Module]:
    """Yields the Python files of a folder; their names are their paths."""
    for path in sorted(path for path in folder.rglob("*.py") if "node_modules" not in path.parts):
        yield Module(str(path.relative_to(folder.parent)), path, path.read_text(encoding="utf-8"))


def imports_between(modules: dict[str, Module]) -> list[Import]:
    """Returns every import from one module of the product to another, those inside of functions too."""
    return sorted({one for module in modules.values() for one in _imports_of(module, modules)})


def _imports_of(module: Module, modules: dict[str, Module]) -> Iterator[Import]:
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute_base(module, node)
            names = [n if (n := f"{base}.{alias.name}") in modules else base for alias in node.names]
        else:
            continue
        for name in names:
            if name in modules and name != module.name:
                yield Import(module.name, name)


def _absolute_base(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    above = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*above, *([node.module] if node.module else [])])


def _typing_only(module: Module) -> set[ast.AST]:
    """Returns the nodes below `if TYPE_CHECKING:`."""
    nodes: set[ast.AST] = set()
    for node in module.nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            nodes.update(inner for statement in node.body for inner in ast.walk(statement))
    return nodes


def dependencies_of(module: Module) -> Iterator[Dependency]:
    """Yields the imports of third-party packages, except those for types only.

    A package of OpenTelemetry's SDK has two words (`opentelemetry.sdk`); `opentelemetry` alone is its API.
    """
    typing_only = _typing_only(module)
    functions = [node for node in module.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    late = {node for function in functions for node in ast.walk(function)}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in {external_package(name) for name in names} - {""}:
            if node not in typing_only:
                yield Dependency(module.name, name, node.lineno, node in late)


def external_package(name: str) -> str:
    """Returns the package that holds a module: its first word, or two for a part of OpenTelemetry; '' for our own and
    the standard library's."""
    first, _, rest = name.partition(".")
    if first in PRODUCT or first in sys.stdlib_module_names:
        return ""
    second = rest.split(".")[0]
    return f"{first}.{second}" if first == "opentelemetry" and second in OPENTELEMETRY_PARTS else first


def circle(imports: Iterable[Import]) -> list[str]:
    """Returns files that import each other in a circle, imports for types included; none where there is no circle."""
    following: dict[str, set[str]] = {}
    for each in imports:
        following.setdefault(each.importer, set()).add(each.imported)
    try:
        TopologicalSorter(following).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def room(name: str) -> str:
    """Returns the room of the house that holds a module.

    A folder of ragtrace is a room; so are `integrations`, `exporters`, `door` (the names that start everything) and
    `shared` (what lies in ragtrace/, base and settings).
    """
    parts = name.split(".")
    if parts[0] != "ragtrace":
        return "integrations" if parts[0] in ADAPTERS else "exporters"
    if parts[1:2] in DOOR:
        return "door"
    return parts[1] if parts[1] in FOLDERS else "shared"
