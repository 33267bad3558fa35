"""Which functions a change adds, removes or edits: python tools/function_ledger.py REVISION [--folder FOLDER ...]

A function is its name and a hash of its syntax tree without imports and without its place. Where a change only moves
code, the ledger is empty. Names of modules inside of texts count as code: they stand in the ledger.
"""

import argparse
import ast
import hashlib
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("ragtrace", "integrations", "exporters")
Ledger = Counter[tuple[str, str]]
"""How often each pair of a qualified name and a hash occurs."""


class _WithoutImports(ast.NodeTransformer):
    def visit_Import(self, _node: ast.Import) -> ast.Pass:
        return ast.Pass()

    def visit_ImportFrom(self, _node: ast.ImportFrom) -> ast.Pass:
        return ast.Pass()


def functions(text: str) -> Iterator[tuple[str, str]]:
    """Yields the functions of a file, and as `<module>` what the file does outside of them."""
    tree = _WithoutImports().visit(ast.parse(text))

    def walk(node: ast.AST, above: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{above}{child.name}", _hash(child)
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{above}{child.name}.")
            elif isinstance(child, ast.If | ast.Try):
                yield from walk(child, above)

    yield from walk(tree, "")
    rest = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Pass | ast.If)]
    for node in rest:
        yield "<module>", _hash(node)


def _hash(node: ast.AST) -> str:
    return hashlib.sha256(ast.dump(node).encode()).hexdigest()[:12]


def ledger(texts: Iterator[str]) -> Ledger:
    """Counts the functions of these files."""
    return Counter(one for text in texts for one in functions(text))


def files_now(folders: Sequence[str]) -> Iterator[str]:
    """Yields the texts of the Python files of the working tree."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            yield path.read_text(encoding="utf-8")


def files_then(revision: str, folders: Sequence[str]) -> Iterator[str]:
    """Yields the texts of the Python files of a revision."""
    archive = subprocess.run(["git", "archive", revision, *folders], capture_output=True, check=True, cwd=ROOT).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            content = files.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                yield content.read().decode("utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("--folder", nargs="+", default=FOLDERS)
    given = parser.parse_args()
    before = ledger(files_then(given.revision, given.folder))
    now = ledger(files_now(given.folder))
    gone, new = before - now, now - before
    names_gone, names_new = {name for name, _ in gone}, {name for name, _ in new}
    for sign, names in (("-", names_gone - names_new), ("+", names_new - names_gone), ("~", names_gone & names_new)):
        for name in sorted(names):
            print(sign, name)
    print(
        f"{before.total()} functions and statements before, {now.total()} now; {gone.total()} gone, {new.total()} new"
    )
    return 1 if gone or new else 0


if __name__ == "__main__":
    sys.exit(main())
