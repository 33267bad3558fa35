"""The forms that the values of single settings have."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ragtrace.base.model_prices import Price
from ragtrace.errors import SettingError

BROKERS = ("nats", "redis", "rediss", "kafka")
FRAMEWORKS = ("langchain", "llama_index")


def prices(items: Sequence[str], where: str = "model_prices") -> dict[str, Price]:
    """The prices of models, from items `model=INPUT/OUTPUT` or `model=INPUT/OUTPUT/CACHE_READ/CACHE_WRITE`. Cached
    tokens cost as much as others where their price is left out.

    Raises SettingError for an item of another form, a price that is no finite number of at least 0, and a model that
    is there twice."""
    by_model: dict[str, Price] = {}
    for item in items:
        name, _, numbers = item.rpartition("=")
        model = name.strip()
        try:
            values = [float(part) for part in numbers.split("/")]
        except ValueError:
            values = []
        if not model or len(values) not in (2, 4) or not all(0 <= value < math.inf for value in values):
            raise SettingError(
                f"{where} has {item!r}; give model=INPUT/OUTPUT or model=INPUT/OUTPUT/CACHE_READ/CACHE_WRITE in US "
                "dollars for a million tokens, e.g. gpt-4o-mini=0.15/0.60/0.075/0.15"
            )
        if model in by_model:
            raise SettingError(f"{where} has {model!r} twice; give one price for each model")
        by_model[model] = Price(*values, *(values[:1] * (4 - len(values))))
    return by_model


def evaluator_shares(items: Sequence[Any], where: str = "evaluators") -> list[tuple[Any, float]]:
    """Each evaluator of the setting `evaluators`, a name or an object, with the share of the evaluated requests that it
    evaluates, in (0, 1].

    Raises SettingError for an item of another form and for a share outside (0, 1]."""
    pairs: list[tuple[Any, float]] = []
    for item in items:
        name, share = item, 1.0
        try:
            if isinstance(item, str) and "=" in item:
                before, _, after = item.rpartition("=")
                name, share = before.strip(), float(after)
            elif isinstance(item, Mapping):
                if set(item) - {"name", "sample"} or isinstance(item.get("sample"), bool):
                    raise ValueError
                name, share = item["name"], float(item.get("sample", 1.0))
            if not name or not 0.0 < share <= 1.0:
                raise ValueError
        except (ValueError, TypeError, KeyError):
            raise SettingError(
                f"{where} has {item!r}; give a name, or {{name = NAME, sample = SHARE}} (as text NAME=SHARE) with a "
                "share above 0, at most 1"
            ) from None
        pairs.append((name, share))
    return pairs


_MODELS = {
    **dict.fromkeys(("embedding", "entailment", "similarity", "likelihood"), ".+"),
    "toxicity": "detoxify:(original|unbiased|multilingual)",
    "pii": "presidio|gliner:.+",
}


def check_models(names: Mapping[str, str], where: str) -> None:
    """Raise SettingError for a kind of model that does not exist, and for a name of another form."""
    for kind, name in names.items():
        if not re.fullmatch(_MODELS.get(kind, ""), name):
            forms = ", ".join(f"{kind}={form}" for kind, form in _MODELS.items())
            raise SettingError(f"{where} has {kind}={name!r}; give {forms}")


def check_address(address: str, where: str) -> None:
    """Raise SettingError for what is no address of a server: a URL of http or https without a host, and any other text
    (HOST:PORT, a broker's address) that cannot be read as an address, or has a blank in its host or the port 0."""
    try:
        urlsplit(address)  # its readers do not all add the "//"
        parts = urlsplit(address if "://" in address else f"//{address}")
        is_valid = bool(parts.hostname) or parts.scheme not in ("http", "https")
        # a broker may have several servers
        is_valid = is_valid and ("," in parts.netloc or (parts.port != 0 and not re.search(r"\s", parts.netloc)))
    except ValueError:
        is_valid = False
    if not is_valid:  # not quoted: it may hold a password
        raise SettingError(f"{where} is no address of a server; give one like http://localhost:4318")


def check_endpoint(address: str, where: str) -> None:
    """Raise SettingError for what is no address that spans can be sent to: OTLP over HTTP needs http:// or https://."""
    check_address(address, where)
    scheme = address.partition("://")[0] if "://" in address else ""
    protocols = (os.environ.get(f"OTEL_EXPORTER_OTLP_{each}PROTOCOL", "") for each in ("", "TRACES_"))
    is_grpc = any(protocol.startswith("grpc") for protocol in protocols)
    if address and not is_grpc and scheme not in ("http", "https", *BROKERS):
        raise SettingError(f"{where} does not begin with http:// or https://; give one like http://localhost:4318")


def is_server(place: str) -> bool:
    """Whether a `judge_ledger` is the address of a server, also one without its scheme, and no file."""
    return "://" in place or bool(re.fullmatch(r"[^/\\]+:\d+", place))


def check_ledger(place: str, where: str) -> None:
    """Raise SettingError for an address that is not one of a Redis server."""
    if not is_server(place):
        return
    check_address(place, where)
    if not re.match(r"(?:rediss?|unix)://.", place):  # not quoted: it may hold a password
        raise SettingError(
            f"{where} is not the address of a Redis server; give redis://USER:PASSWORD@HOST:PORT/DATABASE#BUDGET, with "
            "rediss:// for TLS or unix:// for a socket"
        )


def check_frameworks(names: Sequence[str], where: str) -> None:
    """Raise SettingError for a framework that cannot be instrumented."""
    for name in set(names).difference(FRAMEWORKS):
        raise SettingError(f"{where} has {name!r}; give langchain, llama_index, both or neither")


def check_regions(regions: Sequence[str], where: str) -> None:
    """Raise SettingError for anything but codes of two capital letters."""
    for region in regions:
        if not re.fullmatch("[A-Z]{2}", region):
            raise SettingError(f"{where} has {region!r}; give ISO 3166 codes of two capital letters, e.g. US,DE")
