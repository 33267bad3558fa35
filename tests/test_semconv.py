"""The names that go out: OpenTelemetry's where it has one, and nowhere but in one module."""

import re
from pathlib import Path

import pytest

from ragtrace import semconv

ROOT = Path(__file__).parents[1]


def test_genai_names_are_those_of_opentelemetry() -> None:
    """Every `gen_ai.*` attribute is one that OpenTelemetry's own GenAI library writes, or a listed extension."""
    pytest.importorskip("opentelemetry.util.genai", reason="opentelemetry-util-genai is not installed")
    import opentelemetry.semconv._incubating.attributes as incubating
    from opentelemetry.util import genai

    folders = [Path(next(iter(genai.__path__))), Path(next(iter(incubating.__path__)))]
    source = "\n".join(p.read_text(encoding="utf-8") for f in folders for p in f.rglob("*.py"))
    known = set(re.findall(r"[\"'](gen_ai\.[a-z_.]+|user\.id|error\.type|session\.id)[\"']", source))
    ours = {v for v in vars(semconv).values() if isinstance(v, str) and re.fullmatch(r"gen_ai\.[a-z_.]+", v)}
    extensions = {semconv.EVALUATOR_ID, semconv.EVALUATOR_VERSION, semconv.EVALUATOR_TYPE, semconv.SCORE_PREFIX}
    extensions.add(semconv.EVENT_EVALUATION)  # in the conventions, but no release of the library emits it
    assert ours - known - extensions == set()


def test_names_stand_in_one_module() -> None:
    pattern = re.compile(
        r"""["'](gen_ai\.(?!evaluation["'])|openinference\.|ragtrace\.(?:evaluation|sampling|failure|retrieval)\.)"""
    )
    for folder in ("ragtrace", "integrations", "exporters"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name not in {"semconv.py", "dialects.py"}:
                text = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.S)
                assert not pattern.search(
                    text.replace('"openinference.project.name"', "").replace('("openinference.instrumentation', "")
                ), path
