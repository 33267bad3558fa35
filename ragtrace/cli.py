"""The command line: `ragtrace doctor`, and the commands of the parts that are installed."""

import argparse
import json
import sys
from collections.abc import Sequence

from ragtrace._version import __version__
from ragtrace.base import terminal
from ragtrace.errors import RagtraceError
from ragtrace.plugins import parts


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code.

    0: success · 1: success, but unreadable input was left out, or an evaluator has no value · 2: error · 3: success,
    but a limit of `--fail-under` is missed."""
    terminal.accept_every_character()
    sys.path.append("")  # for evaluators in the working directory, as with `python -m ragtrace`
    return terminal.written(lambda: _guarded(list(sys.argv[1:] if argv is None else argv)))


def _guarded(arguments: list[str]) -> int:
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    try:
        if hasattr(options, "run_with"):  # a command with a parser of its own
            return int(options.run_with(rest))
        if rest:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        return int(options.run(options))
    except RagtraceError as error:
        print(f"ragtrace: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ragtrace", description="Traces and evaluates live RAG applications.")
    parser.add_argument("--version", action="version", version=f"ragtrace-otel {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    doctor = commands.add_parser("doctor", help="show which packages, models and settings are usable here")
    doctor.add_argument("--json", action="store_true", help="print one JSON array")
    doctor.set_defaults(run=_doctor)
    for part in parts():
        part.add_commands(commands)
    return parser


def _doctor(options: argparse.Namespace) -> int:
    from ragtrace.live.doctor import examine

    findings = examine()
    if options.json:
        print(json.dumps([{"what": f.what, "state": f.state, "detail": f.detail} for f in findings], indent=1))
    else:
        lines = [f"{finding.state:8} {finding.what:36} {finding.detail}" for finding in findings]
        print("\n".join(terminal.fitted(lines, terminal.width())))
    return 2 if any(finding.state == "wrong" for finding in findings) else 0
