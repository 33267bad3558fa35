"""The full-text index over query, answer and chunks: FTS5 in SQLite, a tsvector under GIN in PostgreSQL.

Neither keeps the texts a second time; what stands in it can be deleted from it. A store with a key has none: an index
of the words would tell what was sealed.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, text

IndexedWords = tuple[int, str, str, str]
"""A stored trace's id, and of it query, answer and chunks as they are indexed."""

_SQLITE = """CREATE VIRTUAL TABLE search USING fts5(
    query, answer, chunks, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2')"""
_POSTGRESQL = (
    "CREATE TABLE search (trace BIGINT PRIMARY KEY REFERENCES traces (id) ON DELETE CASCADE, words TSVECTOR NOT NULL)",
    "CREATE INDEX ix_search_words ON search USING gin (words)",
)
# Scripts without blanks between words: each of their characters is a word.
_WORD = re.compile(r"[^\W_]+")
_SEPARATE = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_MOST = (50_000, 100_000, 250_000)
"""Characters of query, answer and chunks that are indexed; PostgreSQL takes a megabyte of words at most."""


def create(connection: Connection) -> None:
    """Make the index, for a store of the second migration or later."""
    statements = (_SQLITE,) if connection.dialect.name == "sqlite" else _POSTGRESQL
    for statement in statements:
        connection.execute(text(statement))


def normalize(given: str | None, most: int = _MOST[0]) -> str:
    """The words of a text, as they are indexed and searched: without marks on letters, scripts without blanks taken
    apart, nothing between them but blanks, so that both databases see the same words."""
    given = (given or "")[:most]
    if not given.isascii():
        given = unicodedata.normalize("NFKD", given)
        given = "".join(c for c in given if not unicodedata.combining(c))
        given = _SEPARATE.sub(r" \g<0> ", given)
    return " ".join(_WORD.findall(given))


def index_words(trace: int, query: str | None, answer: str | None, chunks: Sequence[str]) -> IndexedWords:
    """What is indexed of a trace."""
    parts = zip((query, answer, "\n".join(chunks)), _MOST, strict=True)
    return trace, *(normalize(part, most) for part, most in parts)  # type: ignore[return-value]


def index_row(row: Mapping[Any, Any]) -> IndexedWords:
    """The same of a row of `contents` that is not sealed."""
    documents = json.loads(row["documents"] or "[]")
    return index_words(row["trace"], row["query"], row["answer"], [str(d["content"]) for d in documents])


def add(connection: Connection, given: Sequence[IndexedWords]) -> None:
    """Index traces that are not indexed yet."""
    if not given:
        return
    if connection.dialect.name == "sqlite":
        # In order: FTS5 begins a new segment whenever ids go back.
        connection.exec_driver_sql(
            "INSERT INTO search (rowid, query, answer, chunks) VALUES (?, ?, ?, ?)", sorted(given)
        )
        return
    # The three parts lie apart by something that is no word, so that no phrase spans two of them.
    apart = " || '''|'':1'::tsvector || "
    vector = apart.join(["to_tsvector('simple', %s)"] * 3)
    connection.exec_driver_sql(f"INSERT INTO search (trace, words) VALUES (%s, {vector})", sorted(given))


def remove(connection: Connection, given: Sequence[IndexedWords]) -> None:
    """Take traces out of the index; on SQLite `given` must be what was indexed, PostgreSQL does it by itself."""
    if connection.dialect.name == "sqlite" and given:
        connection.exec_driver_sql(
            "INSERT INTO search (search, rowid, query, answer, chunks) VALUES ('delete', ?, ?, ?, ?)", sorted(given)
        )


def purge(connection: Connection) -> None:
    """Rewrite the index so that nothing of removed traces is left in it."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("INSERT INTO search (search) VALUES ('optimize')")


def parse_phrases(given: str) -> list[list[str]]:
    """What a user searches for: words, each of which must be there, and phrases in double quotes. Nothing in it is
    syntax. Each item is the words of a phrase, at least one."""
    phrases = []
    for quoted, word in re.findall(r'"([^"]*)"?|([^\s"]+)', given):
        parts = normalize(quoted or word).split()
        if parts:
            phrases.append(parts)
    return phrases


def fts5_query(phrases: Sequence[Sequence[str]]) -> str:
    """The query for FTS5: every phrase quoted, so that none of its characters means anything."""
    return " ".join('"' + " ".join(phrase) + '"' for phrase in phrases)
