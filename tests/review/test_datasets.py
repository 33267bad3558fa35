"""Reviewed logs go out as a data set that `ragtrace eval` reads, and labels come in."""

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ragtrace.base.rows import Row, read
from ragtrace.cli import main
from ragtrace.console.chatlogs.schema import reviews, users, verdicts
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.review.agreement import measure_evaluator
from ragtrace.console.review.dataset_export import Options, consent_of, export
from ragtrace.console.review.label_import import import_labels
from ragtrace.console.review.queue import load_verdicts, submit
from ragtrace.errors import DataError
from ragtrace.testing import make_trace
from ragtrace.text.redaction import mask_pii
from tests.databases import count
from tests.review.review_data import NOW, evaluation, fill_store, good, people, scored
from tests.row_files import rows


@pytest.mark.parametrize(("attributes", "expected"), [*rows(__file__, "consent"), ({"tags": ("consent: yes",)}, True)])
def test_consent(attributes: Mapping[str, object], expected: bool | None) -> None:
    """What a trace says of it, in attributes, metadata or tags; a word that is not understood is no consent."""
    assert consent_of(attributes) is expected


@pytest.fixture
def reviewed(store: Store) -> Store:
    """Five logs, four of them reviewed, one twice; one corrected; consent given, refused, and not said."""
    given: list[dict[str, object]] = [{"consent": "yes"}, {"consent": "no"}, {}, {}, {}]
    made = [
        evaluation(i, scored(good, 0.2), attributes=more, answer=f"Mail jo{i}@acme.io \ud800.")
        for i, more in enumerate(given)
    ]
    store.write(made, [good], now=NOW)
    ann, bob = people(store, "ann", "bob")
    hexes = [f"{e.trace.trace_id:032x}" for e in made]
    for i, label in enumerate(["fail", "fail", "pass", "unsure"]):
        corrected = "It is covered for 24 months." if i == 0 else None
        submit(store, hexes[i], Review(hexes[i], (Verdict("good", label),), "call 555", corrected), ann, NOW)
    submit(store, hexes[2], Review(hexes[2], (Verdict("good", "fail"),)), bob, NOW)
    return store


def rows_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        return [json.loads(line) for line in file]


def test_lines(reviewed: Store, tmp_path: Path) -> None:
    """Each reviewed log has its verdicts, terms, corrected answer and no names; refused consent leaves it out."""
    out = tmp_path / "out.jsonl"
    found = export(reviewed, out, Options(license="CC-BY-4.0", consent="terms 2026"))
    rows = rows_of(out)
    assert (found.rows, found.refused, found.without, len(rows)) == (3, 1, 0, 3)
    first = rows[0]
    assert (first["reference"], first["corrected"]) == ("It is covered for 24 months.", True)
    assert first["verdicts"] == [{"evaluator": "good", "label": "fail"}]
    assert first["labels"][0] == {"reviewer": "reviewer-1", "evaluator": "good", "label": "fail", "comment": "call 555"}
    assert first["scores"] == [{"evaluator": "good", "version": "2", "value": 0.2, "label": "fail"}]
    assert [row["consent"] for row in rows] == ["yes", "terms 2026", "terms 2026"]
    assert {row["license"] for row in rows} == {"CC-BY-4.0"}
    assert (rows[1]["verdicts"], len(rows[1]["labels"])) == ([], 2), "people are divided"
    assert rows[2]["verdicts"] == []
    assert "ann" not in out.read_text(encoding="utf-8")


def test_require_consent_and_redaction(reviewed: Store, tmp_path: Path) -> None:
    """Only rows that say yes; texts are redacted on their way out."""
    out = tmp_path / "out.jsonl.gz"
    found = export(reviewed, out, Options(require_consent=True, redact=mask_pii))
    assert (found.rows, found.refused, found.without) == (1, 1, 2)
    (row,) = rows_of(out)
    assert "acme.io" not in json.dumps(row)
    assert row["license"] is None


@pytest.mark.external
@pytest.mark.parametrize("name", ["set.jsonl", "set.parquet", "folder"])
def test_what_goes_out_is_evaluated(
    reviewed: Store, store_url: str, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ragtrace eval` reads each layout of `ragtrace export`; a row with a reference has scores that need one."""
    if name != "set.jsonl":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ragtrace-otel[eval]'")
    pytest.importorskip("rouge_score", reason="rouge-score is not installed: pip install 'ragtrace-otel[eval]'")
    out, scores = tmp_path / name, tmp_path / "scores.jsonl"
    assert main(["export", "--store", store_url, "--out", str(out), "--license", "CC0-1.0"]) == 0
    assert "3 logs, 1 left out" in capsys.readouterr().err
    assert main(["eval", str(out), "--evaluators", "pii_leakage,rouge_l", "--out", str(scores)]) == 0
    first, second, _ = (row["scores"] for row in rows_of(scores))
    assert first["pii_leakage"]["label"] == "fail"
    assert first["rouge_l"]["value"] is not None
    assert "rouge_l" not in second or second["rouge_l"]["value"] is None
    trace = next(item.trace for item in read(out) if isinstance(item, Row))
    assert [d.content for d in trace.documents] == [make_trace().documents[0].content]
    assert trace.reference == "It is covered for 24 months."


@pytest.mark.external
def test_the_folder_is_a_data_set_of_hugging_face(reviewed: Store, tmp_path: Path) -> None:
    """`datasets` loads it by its card; exported again, it is replaced whole."""
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: pip install 'ragtrace-otel[eval]'")
    out = tmp_path / "set"
    for _ in range(2):
        export(reviewed, out, Options(license="CC-BY-4.0", title="Ours"))
    assert sorted(p.name for p in out.rglob("*")) == ["README.md", "data", "train-00000-of-00001.parquet"]
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlicense: cc-by-4.0\n")
    assert "# Ours" in card
    assert "1 logs were left out because consent was refused" in card
    loaded = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert (loaded.num_rows, loaded[0]["labels"][0]["label"]) == (3, "fail")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_place_that_cannot_be_written(reviewed: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be written"):
        export(reviewed, tmp_path / "file" / "out.jsonl")
    with pytest.raises(DataError, match="a form that is not written"):
        export(reviewed, tmp_path / "out.csv")


@pytest.fixture
def bare(store: Store) -> tuple[Store, list[str]]:
    return store, list(fill_store(store, [i / 10 for i in range(10)]))


def lines_of(folder: Path, *lines: object, hexes: Sequence[str] = ("",) * 2) -> Path:
    """A file of labels: objects as JSON, texts as they are; `first`, `FIRST` and `second` stand for trace ids."""
    path = folder / "labels.jsonl"
    text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines)
    ids = {"first": hexes[0], "FIRST": hexes[0].upper(), "second": hexes[1]}
    path.write_text(re.sub('"(first|FIRST|second)"', lambda match: f'"{ids[match[1]]}"', text), "utf-8")
    return path


def test_labels_come_in_once(bare: tuple[Store, list[str]], tmp_path: Path) -> None:
    """The same file twice is as once; changed labels replace, another evaluator's add; reviewers cannot log in."""
    store, hexes = bare
    path = lines_of(tmp_path, *rows(__file__, "labels_that_come_in_once"), hexes=hexes)
    for _ in range(2):
        found = import_labels(store, path, now=NOW)
        assert (found.labels, found.logs, found.errors) == (4, 2, ())
    said = {(row.reviewer, row.verdict) for row in load_verdicts(store, "good")}
    assert said == {("ann", "fail"), ("bob", "pass"), ("import", "fail")}
    assert (count(store, reviews), count(store, verdicts)) == (3, 4)
    assert set(store.rows(select(users.c.disabled))) == {(True,)}
    again = {"trace_id": hexes[0], "evaluator": "good", "label": "unsure", "reviewer": "ann", "comment": "more"}
    import_labels(store, lines_of(tmp_path, again), now=NOW)
    assert ("ann", "unsure") in {(row.reviewer, row.verdict) for row in load_verdicts(store, "good")}
    row, *_ = store.rows(select(reviews).order_by(reviews.c.id))
    assert count(store, verdicts) == 4
    assert store.unseal(hexes[0], row._mapping, ("comment",))["comment"] == "c\u00e9\nmore"
    assert row.source == "import"


def test_lines_that_cannot_be_used_are_named(
    bare: tuple[Store, list[str]], store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its number and what is wrong; the others are in; the exit code is 1."""
    _, hexes = bare
    path = lines_of(tmp_path, *rows(__file__, "lines_that_cannot_be_used"), hexes=hexes)
    path.write_bytes(path.read_bytes() + b'\n{"trace_id": "\xff"}\n')
    assert main(["import-labels", "--store", store_url, str(path)]) == 1
    said = capsys.readouterr().err
    for number in range(2, 10):
        assert f"line {number}:" in said
    assert "1 labels of 1 logs, 8 lines left out" in said


def test_an_import_of_something_else_ends_early(bare: tuple[Store, list[str]], tmp_path: Path) -> None:
    """A million lines that are no labels: the import ends after ten thousand and keeps what it read before."""
    store, hexes = bare
    one = {"trace_id": hexes[0], "evaluator": "good", "label": "pass"}
    result = import_labels(store, lines_of(tmp_path, one, "{}\n" * 1_000_000, one | {"evaluator": "late"}), now=NOW)
    assert (result.labels, len(result.errors)) == (1, 10_001)
    assert (result.errors[-1].line, "the import ends here" in result.errors[-1].why) == (10_002, True)


def test_an_import_is_written_in_parts(bare: tuple[Store, list[str]], tmp_path: Path) -> None:
    """Labels of one review that are a thousand lines apart become one review; each label is counted once."""
    store, hexes = bare
    label = {"trace_id": hexes[0], "label": "pass", "reviewer": "ann"}
    path = lines_of(tmp_path, *(label | {"evaluator": f"e{n % 600}"} for n in range(1200)))
    result = import_labels(store, path, now=NOW)
    assert (result.labels, result.logs, result.errors) == (600, 1, ())
    assert (count(store, reviews), count(store, verdicts)) == (1, 600)


def test_labels_from_a_table(bare: tuple[Store, list[str]], tmp_path: Path) -> None:
    """CSV and TSV, with and without a byte order mark; a missing column is an error of the file."""
    store, hexes = bare
    path = tmp_path / "labels.csv"
    path.write_text(f"trace_id,evaluator,label,reviewer\n{hexes[0]},good,1,ann\n{hexes[1]},good\n", "utf-8-sig")
    found = import_labels(store, path, now=NOW)
    assert found.labels == 1
    assert (found.errors[0].line, "the line has 2 columns" in found.errors[0].why) == (3, True)
    path.write_text(f"trace_id;evaluator;label\n{hexes[2]};good;1\n", "utf-8")  # as Excel writes it
    assert import_labels(store, path, now=NOW).labels == 1
    tabs = tmp_path / "labels.tsv"
    tabs.write_text(f"label\ttrace_id\tevaluator\nfail\t{hexes[1]}\tgood\n", "utf-8")
    assert import_labels(store, tabs, now=NOW).labels == 1
    path.write_text("trace_id,label\n", encoding="utf-8")
    with pytest.raises(DataError, match="no column evaluator"):
        import_labels(store, path, now=NOW)
    with pytest.raises(DataError, match="cannot be read"):
        import_labels(store, tmp_path / "absent.csv", now=NOW)
    with pytest.raises(DataError, match="probability"):
        import_labels(store, tabs, probability=1.5)


def test_labels_of_known_probability_count_for_the_whole(bare: tuple[Store, list[str]], tmp_path: Path) -> None:
    """With `probability` each stands for 1/p; without it for nothing but itself."""
    store, hexes = bare
    rows = [{"trace_id": h, "evaluator": "good", "label": "fail" if i < 4 else "pass"} for i, h in enumerate(hexes)]
    path = lines_of(tmp_path, *rows)
    import_labels(store, path, now=NOW)
    assert {row.weight for row in load_verdicts(store)} == {0.0}
    import_labels(store, path, probability=0.5, now=NOW)
    assert {row.weight for row in load_verdicts(store)} == {2.0}
    assert measure_evaluator(load_verdicts(store)).bad.value == pytest.approx(0.4)
