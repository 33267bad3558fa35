"""Measures the structure of the code: circles, layers, sizes, names. One command prints every figure and its aim.

python tools/measure_house.py                             all static figures
python tools/measure_house.py --check                     the same; exits 1 when an aim is missed
python tools/measure_house.py --lower                     writes the figures of tests/house/ratchet.json that fell
python tools/measure_house.py --list                      the places behind every figure that misses its aim
"""

import argparse
import ast
import json
import re
import statistics
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from import_graph import ROOT, Module, circle, files_below, imports_between, product_modules, room

# Nouns of the field that end in -ing; every other module name of that form says an activity where a thing should be.
FIELD_NOUNS = {
    "embedding": "a vector for a text; the usual word", "reporting": "the discipline: reports of runs",
    "sampling": "OpenTelemetry's word for choosing traces",
    "testing": "the usual name of a package's helpers for tests", "timing": "the durations of a request",
    "tracing": "OpenTelemetry's word for recording spans",
}  # fmt: skip
# Modules that have the same name on purpose: each package has one, or both adapters have the same parts.
CONVENTIONAL_STEMS = {"cli", "conversion", "handler", "instrumentor", "part", "server", "sink"}
# Modules of routes: each is named after the thing that it shows.
ROUTES = ("ragtrace.console.api.", "ragtrace.console.pages.")

# A participle alone does not say what the value is: `matches`, `payload`, `message`, `rows` do.
PARTICIPLES = frozenset((
    "asked", "begun", "chosen", "drawn", "fallen", "found", "given", "gone", "heard", "held", "kept", "known", "looked",
    "made", "met", "named", "numbered", "offered", "paced", "parked", "pointed", "ranged", "said", "seen", "settled",
    "shown", "spaced", "taken", "told", "torn", "turned", "valued", "wanted", "whoever",
))  # fmt: skip
# Names that others use: fields of files and of statistics, and attributes of the public fakes.
PUBLIC_NAMES = {
    "exporters/ragtrace_otlp/hold.py": {"held", "parked", "_parked"},
    "ragtrace/base/background.py": {"offered", "_offered"}, "ragtrace/calibrations.py": {"made"},
    "ragtrace/console/api/calibrations.py": {"made"}, "ragtrace/console/review/agreement.py": {"seen"},
    "ragtrace/console/review/calibration.py": {"made"}, "ragtrace/testing.py": {"asked"},
}  # fmt: skip

RATCHET = "tests/house/ratchet.json"
OPTION = re.compile(r'add(?:_argument)?\(\s*"(--[a-z-]+)"')
TEST = re.compile(r"^ *(?:async )?def test_", re.MULTILINE)


@dataclass(frozen=True)
class Figure:
    """One measured number, the highest value that meets the aim (None: shown only), and the places behind it."""

    name: str
    value: float
    aim: float | None = None
    places: list[str] = field(default_factory=list)

    @property
    def missed(self) -> bool:
        return self.aim is not None and self.value > self.aim


def floors(root: Path = ROOT) -> list[list[str]]:
    """Returns the rooms of each floor, the highest floor first, as the import contract in pyproject.toml has them."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["type"] == "layers"]
    rows = [re.split(r"[ |:]+", layer) for layer in contract["layers"]]
    return [sorted({room(name) for name in row}) for row in rows]


def figures(root: Path = ROOT) -> list[Figure]:
    """Returns all static figures of a checkout."""
    modules = product_modules(root)
    product = list(modules.values())
    grafana = list(files_below(root / "grafana"))
    return [
        *_structure(modules, root), *_sizes(product, grafana), *_ratchet(modules, root), *_names(modules),
        _participles("product", product), _participles("grafana", grafana),
        Figure("test functions", sum(len(TEST.findall(module.text)) for module in files_below(root / "tests"))),
    ]  # fmt: skip


def _structure(modules: dict[str, Module], root: Path) -> Iterator[Figure]:
    files = circle(imports_between(modules))
    yield Figure("files in a circle", len(files), 0, files)
    homeless = sorted({room(name) for name in modules} - {name for floor in floors(root) for name in floor})
    yield Figure("rooms without a floor", len(homeless), 0, homeless)
    loose = sorted(path.name for path in (root / "ragtrace").glob("*.py"))
    yield Figure("loose files in ragtrace/", len(loose), 16, loose)


def _sizes(product: list[Module], grafana: list[Module]) -> Iterator[Figure]:
    measured = [module for module in [*product, *grafana] if "migrations" not in module.path.parts]
    long = [(module.lines, str(module.path)) for module in product if module.lines > 400]
    yield Figure("longest module", max(m.lines for m in product), 400, [f"{path}: {n}" for n, path in sorted(long)])
    functions = [
        (node.end_lineno - node.lineno + 1, module, node) for module in measured for node in _functions(module)
    ]
    lengths = [length for length, *_ in functions]
    long_functions = [f"{m.path}:{node.lineno} {node.name}: {n}" for n, m, node in functions if n > 60]
    yield Figure("function p95", statistics.quantiles(lengths, n=20, method="inclusive")[-1], 24)
    yield Figure("longest function", max(lengths), 60, long_functions)


def _ratchet(modules: dict[str, Module], root: Path) -> Iterator[Figure]:
    """Yields the figures that may fall and never rise; `--lower` writes what they have fallen to."""
    aims = json.loads((root / RATCHET).read_text())
    lines: dict[str, int] = defaultdict(int)
    for module in modules.values():
        lines[room(module.name)] += module.lines
    order = floors(root)
    edges = {(room(i.importer), room(i.imported)) for i in imports_between(modules)}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    texts = [module.text for module in modules.values()]
    pages = [*(root / "docs").rglob("*.md"), root / "README.md"]
    values = {
        "product lines": sum(lines.values()),
        "library lines": sum(n for name, n in lines.items() if name not in ("console", "batch", "worker")),
        **{f"lines of {name}": n for name, n in sorted(lines.items())},
        "files of text": sum(room(name) == "text" for name in modules), "rooms": len(lines), "floors": len(order),
        "edges between rooms": sum(start != end for start, end in edges),
        "settings": sum(map(_settings, modules.values())),
        "options": len({name for text in texts for name in OPTION.findall(text)}),
        "extras": len(project["optional-dependencies"]),
        "words of docs": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
        "test lines": sum(module.lines for module in files_below(root / "tests")),
        "benchmark, training and tool lines": sum(
            module.lines for name in ("benchmarks", "training", "tools") for module in files_below(root / name)
        ),
    }  # fmt: skip
    for name, value in values.items():
        yield Figure(name, value, aims.get(name))


def _settings(module: Module) -> int:
    """Returns how many fields the dataclasses have that a `Section` of this module reads."""
    kinds = {
        node.args[0].id
        for node in module.nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Section" and isinstance(node.args[0], ast.Name)
    }
    classes = [node for node in module.tree.body if isinstance(node, ast.ClassDef) and node.name in kinds]
    return sum(isinstance(line, ast.AnnAssign) for node in classes for line in node.body)


def _names(modules: dict[str, Module]) -> Iterator[Figure]:
    stems = {name: name.rpartition(".")[2] for name in modules}
    gerunds = [name for name, stem in stems.items() if stem.endswith("ing") and stem not in FIELD_NOUNS]
    yield Figure("gerund module names", len(gerunds), 0, gerunds)
    holders: dict[str, list[str]] = defaultdict(list)
    for name, stem in stems.items():
        if stem not in CONVENTIONAL_STEMS and not modules[name].is_package and not name.startswith(ROUTES):
            holders[stem].append(name)
    pairs = [", ".join(names) for names in holders.values() if len(names) > 1]
    yield Figure("module names that collide", len(pairs), 0, pairs)
    classes: dict[str, list[str]] = defaultdict(list)
    for name, module in modules.items():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(name)
    twice = [f"{name}: {', '.join(where)}" for name, where in classes.items() if len(where) > 1]
    yield Figure("class names that collide", len(twice), 0, twice)


def _functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in module.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def participles(module: Module) -> Iterator[tuple[int, str]]:
    """Yields (line, name) of each local, parameter, attribute and field that is a participle alone."""
    allowed = next((names for path, names in PUBLIC_NAMES.items() if str(module.path).endswith(path)), set())
    for node in module.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue
        if name.strip("_").lower() in PARTICIPLES and name not in allowed:
            yield node.lineno, name


def _participles(title: str, modules: list[Module]) -> Figure:
    places = [f"{module.path}:{line} {name}" for module in modules for line, name in participles(module)]
    return Figure(f"participles as names, {title}", len(places), 0, places)


def _lower(measured: list[Figure]) -> None:
    aims = json.loads((ROOT / RATCHET).read_text())
    values = {figure.name: figure.value for figure in measured}
    lowered = {name: min(aim, values[name]) for name, aim in aims.items()}
    (ROOT / RATCHET).write_text(json.dumps(lowered, indent=2) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a figure misses its aim")
    parser.add_argument("--lower", action="store_true", help="write what the figures of the ratchet have fallen to")
    parser.add_argument("--list", action="store_true", help="list the places behind each figure that misses its aim")
    options = parser.parse_args(arguments)
    measured = figures()
    if options.lower:
        _lower(measured)
        return 0
    for figure in measured:
        aim = "" if figure.aim is None else f"aim {figure.aim:g}"
        print(f"{figure.name:32}{figure.value:9g}  {aim:10}{'MISSED' if figure.missed else ''}")
        if options.list and figure.missed:
            print(*(f"    {place.removeprefix(str(ROOT) + '/')}" for place in figure.places), sep="\n")
    return int(options.check and any(figure.missed for figure in measured))


if __name__ == "__main__":
    sys.exit(main())
