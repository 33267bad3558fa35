"""Odd values for `fuzz.py`: texts, numbers, nested values, objects of frameworks, and bytes of files."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st


class Hostile:
    """An object whose methods raise."""

    def __str__(self) -> str:
        raise RuntimeError("hostile")

    __repr__ = __len__ = __iter__ = __bool__ = __eq__ = __hash__ = __float__ = __int__ = __str__  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("hostile")


class HostileMapping(dict[str, Any]):
    """A mapping that cannot be read."""

    def get(self, *_arguments: Any) -> Any:
        raise RuntimeError("hostile")

    items = keys = values = __getitem__ = __iter__ = get


@dataclasses.dataclass
class Plain:
    """A data class, with fields that documents and messages have."""

    content: Any = None
    page_content: Any = None
    metadata: Any = None
    id: Any = None
    score: Any = None


def _circular() -> list[Any]:
    values: list[Any] = [1]
    values.append(values)
    return values


def _deep() -> Any:
    value: Any = "x"
    for _ in range(3_000):
        value = [value]
    return value


NAMES = (
    "id", "content", "text", "page_content", "metadata", "score", "role", "type", "query", "question", "input",
    "output", "answer", "documents", "context", "messages", "tool_calls", "function", "arguments", "name", "usage",
    "parts", "time",
    "trace_id", "evaluator", "label", "contexts", "steps", "duration", "scores", "probability", "app", "trace", "value",
    "error", "choices", "message", "delta", "prompt_tokens", "total_tokens", "finish_reason", "reference", "thumbs",
)  # fmt: skip
_LARGE = st.sampled_from([10**400, -(10**400), 2**63, 2**64, 1e308, math.nan, math.inf, -math.inf])
TEXT = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["", "\0", "\ud800", "\u202e", "[" * 20_000, '{"a":' * 2_000, "nan", "ab " * 2_000, "yes", "1e999"]
    ),
    st.text(st.sampled_from("[]{}\",:\\0123456789.eE+- \n\r\t'`truefalsn<>/"), max_size=80),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _LARGE, TEXT, st.sampled_from(NAMES))


def _nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.one_of(st.sampled_from(NAMES), st.text(max_size=8))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=5), st.tuples(inner, inner)
        ),
        max_leaves=12,
    )


JSON = _nested(SCALARS)


def framework_objects() -> st.SearchStrategy[Any]:
    """Objects as applications pass them to a framework."""
    import numpy as np
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    factories = [
        Hostile, HostileMapping, _circular, _deep, object, lambda: iter([1, 2]), lambda: b"\xff\x00", lambda: np.nan,
        lambda: np.array([[1.0, 2.0]]), lambda: np.float32(3), lambda: {1, 2}, lambda: {(1, 2): 3}, lambda: Plain,
        lambda: SimpleNamespace(content=Hostile(), usage=Hostile()), lambda: Exception("x"),
        lambda: Plain(content=Hostile(), metadata=HostileMapping(a=1), score=10**400),
    ]  # fmt: skip
    odd = st.sampled_from(factories).map(lambda make: make())  # type: ignore[operator]  # all can be called
    leaves = st.one_of(SCALARS, odd, st.complex_numbers(), st.datetimes(), st.decimals())
    inner = _nested(leaves)
    documents = st.builds(
        lambda text, metadata, id: Document(page_content=text, metadata=metadata, id=id),
        st.text(max_size=20), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        st.none() | st.text(max_size=5),
    )  # fmt: skip
    models = st.sampled_from([AIMessage, HumanMessage]).flatmap(
        lambda kind: st.builds(
            lambda text, extra: kind(content=text, additional_kwargs=extra),
            st.text(max_size=20), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        )
    )  # fmt: skip
    tools = st.text(max_size=10).map(lambda text: ToolMessage(content=text, tool_call_id=text))
    plain = st.builds(Plain, inner, inner, inner, inner, inner)
    return st.one_of(
        inner, documents, models, tools, plain, st.lists(st.one_of(documents, models, plain, inner), max_size=4)
    )


def file_contents() -> st.SearchStrategy[bytes]:
    """Bytes of files: lines of JSON, tables, broken ones, and any bytes."""
    line = JSON.map(lambda value: json.dumps(value, default=str))
    rows = st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6).map(lambda value: json.dumps(value, default=str))
    lines = st.lists(st.one_of(rows, rows, line, TEXT), max_size=6)
    text = st.one_of(
        lines.map("\n".join),
        lines.map(lambda each: "[" + ",\n".join(each) + "]"),
        st.lists(st.lists(st.one_of(st.sampled_from(NAMES), TEXT), max_size=5).map(",".join), max_size=5).map(
            "\n".join
        ),
    )
    written = text.map(lambda value: value.encode("utf-8", "surrogatepass"))
    cut = st.tuples(written, st.integers(0, 200)).map(lambda pair: pair[0][: -pair[1] or None])
    return st.one_of(
        written, cut, st.binary(max_size=300), written.map(gzip.compress), cut.map(lambda b: b"\xef\xbb\xbf" + b)
    )
