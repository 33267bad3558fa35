"""Finds names that are not plain technical English (CONTRIBUTING.md has the rule)."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from import_graph import Module

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


def names(module: Module) -> Iterator[tuple[int, str]]:
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


def listing(modules: list[Module], root: str) -> str:
    """Returns what is left, by file, the files with the most first; then the total of each folder."""
    rows = []
    folders: Counter[str] = Counter()
    for module in modules:
        words = Counter(name for _, name in names(module))
        if words:
            path = str(module.path).removeprefix(root + "/")
            folders[path.rpartition("/")[0]] += words.total()
            rows.append((words.total(), path, _counts(words)))
    lines = [f"{total:4} {path}: {words}" for total, path, words in sorted(rows)[::-1]]
    return "\n".join([*lines, "", *(f"{count:4} {folder}/" for folder, count in folders.most_common())])


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())
