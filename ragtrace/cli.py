"""The command line: `ragtrace demo · eval · evaluators · doctor`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ragtrace._version import __version__
from ragtrace.errors import RagtraceError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. 0: done · 1: done, with bad input left out · 2: could not be done."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["demo"]:  # it has a parser of its own
        return _guarded(lambda: _demo(arguments[1:]))
    options = _parser().parse_args(arguments)
    return _guarded(lambda: int(options.run(options)))


def _guarded(command: object) -> int:
    try:
        return int(command())  # type: ignore[operator]
    except RagtraceError as error:
        print(f"ragtrace: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `ragtrace eval … | head`
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ragtrace", description="Watches live RAG applications.")
    parser.add_argument("--version", action="version", version=f"ragtrace-otel {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("demo", help="two real assistants over a real corpus, traced and scored", add_help=False)

    evaluate = commands.add_parser("eval", help="score a file of requests")
    evaluate.add_argument("file", help="JSON lines, plain or gzipped: id, query, contexts, answer, reference")
    evaluate.add_argument("--evaluators", required=True, metavar="A,B", help="names, or `default`")
    evaluate.add_argument("--out", default="-", help="where the scores go; - for standard output")
    evaluate.add_argument("--jobs", type=int, default=0, help="processes; 0 for one for each core")
    evaluate.add_argument("--strict", action="store_true", help="stop at the first line that cannot be used")
    evaluate.set_defaults(run=_eval)

    listing = commands.add_parser("evaluators", help="what can be asked of an answer")
    listing.add_argument("--json", action="store_true", help="as one JSON array")
    listing.set_defaults(run=_evaluators)

    doctor = commands.add_parser("doctor", help="what is installed, set and reachable here")
    doctor.add_argument("--json", action="store_true", help="as one JSON array")
    doctor.set_defaults(run=_doctor)
    return parser


def _demo(arguments: Sequence[str]) -> int:
    from ragtrace.demo import main as demo

    return int(demo(arguments))


def _eval(options: argparse.Namespace) -> int:
    from ragtrace.config import DEFAULT_SUITE
    from ragtrace.offline import evaluate

    names: list[str] = []
    for name in options.evaluators.split(","):
        names.extend(DEFAULT_SUITE if name.strip() == "default" else [name.strip()] if name.strip() else [])
    if options.out == "-":
        done, bad = evaluate(options.file, names, sys.stdout, jobs=options.jobs, strict=options.strict)
    else:
        # Written beside it and moved: a run that is stopped leaves no half file that looks like a whole one.
        target = Path(options.out)
        part = target.with_name(target.name + ".part")
        with part.open("w", encoding="utf-8") as out:
            done, bad = evaluate(options.file, names, out, jobs=options.jobs, strict=options.strict)
        part.replace(target)
    print(f"ragtrace eval: {done} rows scored, {bad} lines left out", file=sys.stderr)
    return 1 if bad else 0


def _evaluators(options: argparse.Namespace) -> int:
    from ragtrace import plugins

    rows = [plugins.describe(plugins.load(name)) for name in plugins.builtin_names()]
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        needs = ", ".join(row["needs"])
        print(f"{row['name']:32} {row['method']:6} {needs:28} {str(row['description']).splitlines()[0]}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from ragtrace.doctor import examine

    findings = examine()
    if options.json:
        print(json.dumps([{"what": f.what, "state": f.state, "detail": f.detail} for f in findings], indent=1))
    else:
        for finding in findings:
            print(f"{finding.state:8} {finding.what:36} {finding.detail}")
    return 2 if any(finding.state == "wrong" for finding in findings) else 0
