"""What the API answers; by hand, and by schemathesis over its own description."""

import gzip
import io
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from fastapi import FastAPI
from schemathesis.config import SchemathesisConfig
from sqlalchemy import func, select, update

from ragtrace import calibrations
from ragtrace.base.model_prices import ModelUsage
from ragtrace.console import api, tokens
from ragtrace.console.api import described
from ragtrace.console.chatlogs.schema import traces
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.options import ConsoleSettings
from ragtrace.console.review.queue import submit
from ragtrace.evaluation import evaluator
from ragtrace.records import Evaluation, Facts, Score
from ragtrace.testing import make_trace
from tests.console.conftest import PASSWORD, STARTED, TRACE, Console, both_databases, evil_evaluation, faithfulness
from tests.row_files import rows, table


@evaluator(needs={"answer"}, threshold=0.5, version="1")
def relevance(_trace: Any) -> float:
    """To the point?"""
    return 1.0


def plain(number: int, value: float = 0.9, **fields: Any) -> Evaluation:
    fields.setdefault("facts", Facts(app="shop", env="prod", model=f"m{number % 2}", prompt_version="p1"))
    fields |= {"trace_id": 0x1000 + number, "span_id": number + 1, "started": STARTED + number, "duration": 0.5}
    trace = make_trace(f"how long is pump {number} covered", **fields)
    label = "pass" if value >= 0.5 else "fail"
    return Evaluation(trace, (Score("relevance", value, label, version="1", method="model"),))


@pytest.fixture
def shop(console: Console) -> Console:
    """Twenty requests, every fifth of which is bad; the last one ended in an error."""
    made = [plain(number, 0.1 if number % 5 == 0 else 0.9) for number in range(19)]
    console.store.write([*made, plain(19, error="TimeoutError")], [relevance])
    return console


def test_costs_name_people_to_those_who_may_know_them(console: Console) -> None:
    """Users and sessions by what their models cost, weighted for all requests; no names for who sees masked texts."""
    usage = {"m": ModelUsage(10, 5, cost=0.5)}
    logs = [plain(n, facts=Facts(app="shop", user_id=f"u{n % 2}", usage=usage if n else {})) for n in range(3)]
    console.store.write(logs, [relevance])
    period = {"since": STARTED - 60, "until": STARTED + 60}
    found = console.signed_in("ada").get("/api/costs", params=period).json()
    assert (found["total"], found["unpriced"], found["sessions"]) == (1.0, 1.0, [])
    assert found["users"] == [{"name": name, "requests": 1.0, "cost": 0.5} for name in ("u0", "u1")]
    masked = console.signed_in("vera").get("/api/costs", params=period).json()
    assert (masked["total"], masked["users"]) == (1.0, [])


@both_databases
def test_traces_are_found_by_every_filter(shop: Console) -> None:
    browser = shop.signed_in("rob")
    browser.post("/api/feedback", json={"trace_id": f"{0x1001:032x}", "thumbs": -1})
    browser.post("/api/review/submit", json={"trace_id": f"{0x1002:032x}", "verdicts": {"relevance": "pass"}})
    for query, count in rows(__file__, "traces_are_found_by_every_filter"):
        answer = browser.get("/api/traces", params=query)
        assert answer.status_code == 200, query
        assert len(answer.json()["rows"]) == count, query


@both_databases
def test_pages_of_traces_follow_each_other(shop: Console) -> None:
    """Newest first, without a gap or a repetition; worst first by an evaluator."""
    browser, seen, after = shop.signed_in("vera"), [], ""
    while after is not None:
        page = browser.get("/api/traces", params={"limit": 6, "after": after}).json()
        seen += [row["trace_id"] for row in page["rows"]]
        after = page["after"]
    assert seen == [f"{0x1000 + number:032x}" for number in reversed(range(20))]
    worst = browser.get("/api/traces", params={"order": "worst", "evaluator": "relevance", "limit": 4}).json()["rows"]
    assert {row["scores"]["relevance"]["label"] for row in worst} == {"fail"}


def test_one_trace_is_whole(evil: Console) -> None:
    """By its hexadecimal id and by the number here: documents, evidence, scores, history."""
    browser = evil.signed_in("rob")
    found = browser.get(f"/api/traces/{TRACE}").json()
    assert found["trace_id"] == TRACE
    assert browser.get(f"/api/traces/{found['id']}").json() == found
    assert [document["score"] for document in found["documents"]] == [0.9, None]
    assert found["scores"][0]["evidence"][0]["verdict"] == "unsupported"
    history = browser.get(f"/api/traces/{TRACE}/scores").json()
    assert [(score["name"], score["version"]) for score in history] == [("faithfulness", "1")]
    assert browser.get(f"/api/traces/{'f' * 32}").status_code == 404
    for path in ("x", "0", "-1", TRACE.upper(), TRACE + "0", "1.5", "9" * 17):
        assert browser.get(f"/api/traces/{path}").status_code == 422, path


def test_what_json_cannot_say_is_said_otherwise(console: Console) -> None:
    """Not-a-numbers, huge numbers and broken text in a trace's own values come out as JSON all the same."""
    odd = {"app": "a", "nan": float("nan"), "inf": [float("inf")], "big": 2**70, "half": "\ud800", "set": {1}, 5: None}
    console.store.write([plain(0, attributes=odd)], [relevance])
    answer = console.signed_in("rob").get(f"/api/traces/{0x1000:032x}")
    assert answer.status_code == 200
    json.loads(answer.text, parse_constant=pytest.fail)


def test_an_encrypted_store_says_that_it_cannot_be_searched(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path / "sealed.db"), key="22" * 32)) as store:
        store.write([plain(1)], [relevance])
        browser = Console(store).local()
        assert browser.get("/api/traces").json()["rows"][0]["query"].startswith("how long")
        assert browser.get("/api/traces", params={"text": "pump"}).status_code == 422
        assert browser.get("/api/health").json()["sealed"] is True


@both_databases
def test_sums_and_choices(shop: Console) -> None:
    """The overview's figures are the store's, choices name what is there, evaluators have their thresholds."""
    browser = shop.signed_in("vera")
    found = browser.get("/api/overview", params={"since": STARTED - 3600, "until": STARTED + 3600}).json()
    assert found["total"]["evaluated"] == 20
    assert [check["passes"]["value"] for check in found["checks"]] == [pytest.approx(0.8)]
    assert browser.get("/api/overview", params={"since": 2, "until": 1}).status_code == 422
    assert browser.get("/api/choices").json()["model"] == ["m0", "m1"]
    assert [(e["name"], e["threshold"]) for e in browser.get("/api/evaluators").json()] == [("relevance", 0.5)]
    first = shop.store.scalar(select(func.min(traces.c.id)))
    shop.store.execute(update(traces).where(traces.c.id == first).values(stored=4e9))  # not the latest by its own time
    health = browser.get("/api/health").json()
    assert (health["traces"], health["last_stored"]) == (20, 4e9)
    assert health["bytes"] > 0


@both_databases
def test_a_review_from_the_queue_to_the_agreement(shop: Console) -> None:
    """Fill, take, submit, skip, give back; who holds nothing cannot give it back; then agreement and export have it."""
    ada, rob = shop.signed_in("ada"), shop.signed_in("rob")
    assert rob.post("/api/review/next").json() == {"task": None}
    assert rob.post("/api/review/next?queue=nix").status_code == 409
    assert ada.post("/api/review/fill").json()["picked"] > 3
    first = rob.post("/api/review/next").json()["task"]
    assert rob.post("/api/review/next").json()["task"]["item"] == first["item"], "the same until it is done"
    assert ada.post("/api/review/next").json()["task"]["item"] != first["item"], "nobody else has it"
    assert ada.post(f"/api/review/{first['item']}/release").status_code == 409
    assert ada.post(f"/api/review/{first['item']}/skip", json={"reason": "mine"}).status_code == 409
    said = {"trace_id": first["trace_id"], "item": first["item"], "verdicts": {"relevance": "fail"}, "corrected": "24"}
    assert rob.post("/api/review/submit", json=said).status_code == 200
    second = rob.post("/api/review/next").json()["task"]
    assert second["item"] != first["item"]
    assert rob.post(f"/api/review/{second['item']}/skip", json={"reason": " "}).status_code == 422
    assert rob.post(f"/api/review/{second['item']}/skip", json={"reason": "no language of mine"}).status_code == 204
    third = rob.post("/api/review/next").json()["task"]
    assert rob.post(f"/api/review/{third['item']}/release").status_code == 204
    queue = rob.get("/api/review/queue").json()
    assert [sum(states[name] for states in queue.values()) for name in ("done", "skipped")] == [1, 1]
    agreement = rob.get("/api/agreement", params={"weighted": False}).json()
    assert [(e["evaluator"], e["logs"]) for e in agreement["evaluators"]] == [("relevance", 1)]
    assert rob.post("/api/review/submit", json={"trace_id": first["trace_id"]}).status_code == 422
    assert rob.post("/api/review/submit", json={**said, "trace_id": "f" * 32}).status_code == 404
    rows = [json.loads(line) for line in rob.get("/api/export").text.splitlines()]
    assert [(row["id"], row["reference"]) for row in rows] == [(first["trace_id"], "24")]


@both_databases
def test_feedback_is_kept_and_shown(shop: Console) -> None:
    """By a token of the scope feedback, also before its trace is there."""
    program = shop.program("vera", "feedback")
    trace = f"{0x1003:032x}"
    answer = program.post("/api/feedback", json={"trace_id": trace, "thumbs": -1, "comment": "wrong", "source": "chat"})
    assert (answer.status_code, answer.json()) == (201, {"stored": True})
    early = program.post("/api/feedback", json={"trace_id": "f" * 32, "comment": "early"})
    assert (early.status_code, early.json()) == (201, {"stored": False})
    found = shop.signed_in("rob").get(f"/api/traces/{trace}").json()
    assert found["thumbs"] == -1
    assert [(f["comment"], f["source"]) for f in found["feedback"]] == [("wrong", "chat")]


@both_databases
def test_alerts_become_reviews(shop: Console) -> None:
    """Alertmanager's webhook, with a token of the scope review; a second time nothing is new."""
    program = shop.program("rob", "review")
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(STARTED + 60))
    labels = {"app": "shop", "evaluator": "relevance"}
    alert = {"status": "firing", "labels": labels, "startsAt": began, "annotations": {}}
    payload = {"version": "4", "receiver": "review", "status": "firing", "alerts": [alert]}
    assert program.post("/api/webhooks/alertmanager", json=payload).json() == {"picked": 4}
    assert program.post("/api/webhooks/alertmanager", json=payload).json() == {"picked": 0}
    for wrong in (None, [], {}, {"alerts": {}}, {"alerts": [1]}, {"alerts": [{"labels": []}]}):
        assert program.post("/api/webhooks/alertmanager", json=wrong).status_code == 422
    assert program.get("/api/traces").status_code == 403


@both_databases
def test_labels_come_in(shop: Console) -> None:
    """As JSON lines and as CSV; lines that cannot be used are named by their number, without the server's paths."""
    program = shop.program("ada", "admin")
    good = {"trace_id": f"{0x1001:032x}", "evaluator": "relevance", "label": "pass", "reviewer": "lena"}
    wrong = ("{", json.dumps({**good, "label": "maybe"}), json.dumps({**good, "trace_id": "f" * 32}))
    lines, ndjson = "\n".join([json.dumps(good), *wrong]), {"content-type": "application/x-ndjson"}
    answer = program.post("/api/labels", content=lines, headers=ndjson).json()
    assert (answer["labels"], answer["logs"], answer["refused"]) == (1, 1, 3)
    assert [error["line"] for error in answer["errors"]] == [2, 3, 4]
    assert "/" not in "".join(error["why"] for error in answer["errors"])
    csv = f"trace_id,evaluator,label\n{0x1002:032x},relevance,fail\n"
    answer = program.post("/api/labels?probability=1", content=csv, headers={"content-type": "text/csv; charset=utf-8"})
    assert answer.json()["labels"] == 1
    bad = program.post("/api/labels", content="a,b\n1,2\n", headers={"content-type": "text/csv"})
    assert (bad.status_code, "tmp" in bad.text) == (422, False)
    bomb = program.post("/api/labels", content=gzip.compress(b"x"), headers=ndjson)
    assert (bomb.status_code, "plain text" in bomb.text) == (422, True)
    assert program.post("/api/labels", json={}).status_code == 422


def test_exports_are_files(shop: Console) -> None:
    """In three forms, under a name of ours, masked where it was asked for; nothing is left behind."""
    review = Review("", (Verdict("relevance", "fail"),), "call 0171 2345678")
    submit(shop.store, f"{0x1001:032x}", review, shop.user("rob"))
    browser = shop.signed_in("rob")
    whole = browser.get("/api/export?license=CC-BY-4.0")
    assert whole.headers["content-disposition"] == 'attachment; filename="reviewed.jsonl"'
    assert json.loads(whole.text)["license"] == "CC-BY-4.0"
    assert "0171" in whole.text
    packed = browser.get("/api/export?format=jsonl.gz&mask=true")
    assert "[number]" in gzip.decompress(packed.content).decode()
    table = browser.get("/api/export?format=parquet").content
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(io.BytesIO(table)).num_rows == 1
    assert browser.get("/api/export?require_consent=true").text == ""


@pytest.fixture
def judged(console: Console, tmp_path: Path) -> Console:
    """Eighty reviewed logs; people fail what scores below 0.4, now and then also above."""
    made = Console(console.store, ConsoleSettings(calibration_file=str(tmp_path / "calibration.json")))
    made.store.write([plain(number, number / 80) for number in range(80)], [relevance])
    for number in range(80):
        label = "fail" if number < 32 or number % 13 == 0 else "pass"
        submit(made.store, f"{0x1000 + number:032x}", Review("", (Verdict("relevance", label),)), made.user("rob"))
    return made


@both_databases
def test_a_threshold_is_looked_at_fitted_and_put_in_force(judged: Console) -> None:
    """Consequences of candidates; a fit with figures before and after; the pipeline's file; the way back."""
    ada = judged.signed_in("ada")
    path = "/api/evaluators/relevance"
    steps = ada.get(f"{path}/consequences", params={"threshold": [0.2, 0.6], "weighted": False}).json()
    assert [step["threshold"] for step in steps] == [0.2, 0.6]
    assert steps[0]["recall"]["value"] < steps[1]["recall"]["value"]
    assert len(ada.get(f"{path}/consequences", params={"weighted": False}).json()) > 2
    shown = ada.post(f"{path}/calibrations", json={"weighted": False})
    assert shown.status_code == 200, shown.text
    assert 0.3 < shown.json()["threshold"] < 0.5
    assert shown.json()["number"] is None
    file = Path(judged.settings.calibration_file)
    assert not file.exists()
    active = {"weighted": False, "activate": True}
    assert [ada.post(f"{path}/calibrations", json=active).json()["number"] for _ in range(2)] == [1, 2]
    assert calibrations.load(file)["relevance"].number == 2
    history = ada.get(f"{path}/calibrations").json()
    assert [entry["active"] for entry in history] == [True, False]
    assert ada.post(f"/api/calibrations/{history[1]['id']}/activate").status_code == 204
    assert calibrations.load(file)["relevance"].number == 1
    assert [entry["active"] for entry in ada.get(f"{path}/calibrations").json()] == [False, True]
    assert "+c1</span>" in ada.get("/evaluators/relevance").text, "it is measured against what is in force"


def test_without_verdicts_or_a_file_nothing_is_put_in_force(shop: Console) -> None:
    ada = shop.signed_in("ada")
    assert ada.post("/api/evaluators/relevance/calibrations", json={}).status_code in (409, 422)
    none = ada.post("/api/evaluators/relevance/calibrations", json={"activate": True})
    assert none.status_code == 409
    assert "calibration_file" in none.json()["detail"]
    assert ada.post("/api/calibrations/1/activate").status_code == 409


@both_databases
def test_saved_views_are_everybodys_own(console: Console) -> None:
    """Nobody sees or deletes another's; the same name again replaces it."""
    rob, vera = console.signed_in("rob"), console.signed_in("vera")
    one = rob.post("/api/views", json={"name": "bad ones", "query": "label=fail"}).json()
    two = rob.post("/api/views", json={"name": "bad ones", "query": "label=error"}).json()
    assert (rob.get("/api/views").json(), vera.get("/api/views").json()) == ([two], [])
    assert vera.delete(f"/api/views/{two['id']}").status_code == 404
    assert rob.delete(f"/api/views/{two['id']}").status_code == 204
    assert rob.delete(f"/api/views/{one['id']}").status_code == 404


@both_databases
def test_admins_manage_users_and_tokens(console: Console) -> None:
    """Add, change, disable; a password is in no answer, a token's secret in one; nobody shuts themselves out."""
    ada = console.signed_in("ada")
    new = {"name": "nina", "role": "viewer", "password": PASSWORD}
    made = ada.post("/api/users", json=new)
    assert (made.status_code, PASSWORD in made.text) == (201, False)
    assert "argon2" not in made.text + ada.get("/api/users").text
    assert ada.post("/api/users", json=new).status_code == 409
    nina = console.signed_in("nina")
    assert ada.patch("/api/users/nina", json={"role": "reviewer"}).json()["role"] == "reviewer"
    assert nina.get("/api/me").json()["role"] == "reviewer"
    token = ada.post("/api/tokens", json={"name": "ci", "user": "nina", "scopes": ["read"], "days": 1}).json()
    program = console.stranger()
    program.headers["authorization"] = f"Bearer {token['token']}"
    assert program.get("/api/me").json()["name"] == "nina"
    assert token["token"] not in ada.get("/api/tokens").text
    assert ada.patch("/api/users/nina", json={"disabled": True}).json()["disabled"] is True
    assert nina.get("/api/me").status_code == program.get("/api/me").status_code == 401
    assert ada.patch("/api/users/nina", json={"disabled": False, "password": "a new long password"}).status_code == 200
    assert program.get("/api/me").status_code == 401  # a new password revokes the tokens
    assert ada.delete(f"/api/tokens/{token['id']}").status_code == 204
    for method, path, body, status in rows(__file__, "what_no_admin_can_do"):
        assert ada.request(method, path, json=body).status_code == status, path


def test_parameters_that_are_not_known_are_refused_everywhere(shop: Console) -> None:
    """A misspelt filter would otherwise show everything."""
    ada = shop.signed_in("ada")
    for path, methods in described(shop.app)["paths"].items():
        if "get" in methods:
            own = path.replace("{trace_id}", f"{0x1001:032x}").replace("{name}", "relevance")
            assert ada.get(own, params={"evalutor": "x"}).status_code == 422, path


_KNOWN = {"trace_id": TRACE, "name": "faithfulness"}


def operations() -> list[str]:
    app = FastAPI()
    app.include_router(api.router)
    return [f"{method} {path}" for path, methods in described(app)["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, schemathesis.BaseSchema]]:
    """A store with the evil traces, and the description of its console; one for all operations, one after the other."""
    folder = tmp_path_factory.mktemp("attacked")
    with closing(open_store(str(folder / "logs.db"))) as store:
        made = Console(store, ConsoleSettings(hosts=("testserver",), calibration_file=str(folder / "calibration.json")))
        made.add("ada", "admin")
        store.write([evil_evaluation(number) for number in range(5)], [faithfulness])
        # What the description cannot say, e.g. that feedback says something, is 422 also.
        config = SchemathesisConfig.from_dict(table(__file__, "schemathesis"))
        headers = {"host": "127.0.0.1"}
        yield store, schemathesis.openapi.from_asgi("/api/openapi.json", made.app, headers=headers, config=config)


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", operations())
def test_the_api_is_as_it_describes_itself(attacked: tuple[Store, Any], operation: str, mode: Any) -> None:
    """Whatever is sent: no error of the server, answers as described, refusals of all else, nothing without a token."""
    method, path = operation.split(" ")
    store, schema = attacked
    secret = ""

    @hypothesis.settings(
        max_examples=8, derandomize=True, database=None, deadline=None, phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(schema[path][method].as_strategy(generation_mode=mode), hypothesis.strategies.booleans())
    def attack(case: schemathesis.Case, there: bool) -> None:
        nonlocal secret
        if tokens.find(store, secret) is None:  # an example may have revoked it
            _, secret = tokens.add(store, "t", "ada", ["read", "feedback", "review", "admin"])
        if there and mode is schemathesis.GenerationMode.POSITIVE:
            case.path_parameters.update({k: v for k, v in _KNOWN.items() if k in case.path_parameters})
            if isinstance(case.body, dict) and "trace_id" in case.body:
                case.body["trace_id"] = TRACE
        said = {"Authorization": f"Bearer {secret}"}
        case.validate_response(case.call(base_url="http://127.0.0.1:8400", headers=said), headers=said)

    attack()
