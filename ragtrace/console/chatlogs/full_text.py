"""The full-text index over query, answer and chunks: FTS5 in SQLite, a tsvector under GIN in PostgreSQL.

Neither stores the texts a second time, and entries can be deleted. A store with a key has no such index: the words
would reveal the encrypted content."""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, text

IndexedWords = tuple[int, str, str, str]
"""The id of a stored trace, and its query, answer and chunks as they are indexed."""

_SQLITE = """CREATE VIRTUAL TABLE search USING fts5(
    query, answer, chunks, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2')"""
_POSTGRESQL = (
    "CREATE TABLE search (trace BIGINT PRIMARY KEY REFERENCES traces (id) ON DELETE CASCADE, words TSVECTOR NOT NULL)",
    "CREATE INDEX ix_search_words ON search USING gin (words)",
)
# Scripts without blanks between words: each character is a word.
_WORD = re.compile(r"[^\W_]+")
_SEPARATE = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_MOST = (50_000, 100_000, 250_000)
"""Characters of query, answer and chunks that are indexed."""
_MOST_BYTES = (80_000, 160_000, 480_000)
"""The same in PostgreSQL, in bytes of words: a tsvector holds a megabyte."""


def create(connection: Connection) -> None:
    """Creates the index of a new store."""
    statements = (_SQLITE,) if connection.dialect.name == "sqlite" else _POSTGRESQL
    for statement in statements:
        connection.execute(text(statement))


def normalize(content: str | None, most: int = _MOST[0]) -> str:
    """Returns the words of a text as they are indexed and searched: without diacritics, scripts without blanks split
    into characters, separated by single blanks. So both databases see the same words."""
    content = (content or "")[:most]
    if not content.isascii():
        content = unicodedata.normalize("NFKD", content)
        content = "".join(c for c in content if not unicodedata.combining(c))
        content = _SEPARATE.sub(r" \g<0> ", content)
    return " ".join(_WORD.findall(content))


def index_words(trace: int, query: str | None, answer: str | None, chunks: Sequence[str]) -> IndexedWords:
    """Returns the index entry of a trace."""
    parts = zip((query, answer, "\n".join(chunks)), _MOST, strict=True)
    return trace, *(normalize(part, most) for part, most in parts)  # type: ignore[return-value]


def index_row(row: Mapping[Any, Any]) -> IndexedWords:
    """Returns the index entry of a row of `contents` that is not encrypted."""
    documents = json.loads(row["documents"] or "[]")
    return index_words(row["trace"], row["query"], row["answer"], [str(d["content"]) for d in documents])


def add(connection: Connection, entries: Sequence[IndexedWords]) -> None:
    """Adds traces that are not indexed yet."""
    if not entries:
        return
    if connection.dialect.name == "sqlite":
        # Sorted: FTS5 starts a new segment whenever an id is smaller than the one before.
        connection.exec_driver_sql(
            "INSERT INTO search (rowid, query, answer, chunks) VALUES (?, ?, ?, ?)", sorted(entries)
        )
        return
    first, second, third = _MOST_BYTES
    cut = [(i, _cut(query, first), _cut(answer, second), _cut(chunks, third)) for i, query, answer, chunks in entries]
    # A lexeme that is not a word separates the three parts, so that no phrase spans two of them.
    apart = " || '''|'':1'::tsvector || "
    vector = apart.join(["to_tsvector('simple', %s)"] * 3)
    connection.exec_driver_sql(f"INSERT INTO search (trace, words) VALUES (%s, {vector})", sorted(cut))


def _cut(words: str, most: int) -> str:
    return words if 4 * len(words) <= most else words.encode()[:most].decode(errors="ignore")


def remove(connection: Connection, entries: Sequence[IndexedWords]) -> None:
    """Removes traces. On SQLite the entries must equal the indexed ones; on PostgreSQL a foreign key removes them."""
    if connection.dialect.name == "sqlite" and entries:
        connection.exec_driver_sql(
            "INSERT INTO search (search, rowid, query, answer, chunks) VALUES ('delete', ?, ?, ?, ?)", sorted(entries)
        )


def parse_phrases(query: str) -> list[list[str]]:
    """Parses a search: words and phrases in double quotes, all of which must occur. Nothing else is syntax. Returns the
    words of each phrase, at least one."""
    phrases = []
    for quoted, word in re.findall(r'"([^"]*)"?|([^\s"]+)', query):
        parts = normalize(quoted or word).split()
        if parts:
            phrases.append(parts)
    return phrases


def contains(entry: IndexedWords, phrases: Sequence[Sequence[str]]) -> bool:
    """Whether each phrase occurs in a part (query, answer, chunks) of an entry, as the databases' index decides it."""
    parts = [f" {part} ".lower() for part in entry[1:]]
    texts = [" {} ".format(" ".join(phrase)).lower() for phrase in phrases]
    return bool(texts) and all(any(text in part for part in parts) for text in texts)


def fts5_query(phrases: Sequence[Sequence[str]]) -> str:
    """Returns the query for FTS5. Every phrase is quoted, so that none of its characters is syntax."""
    return " ".join('"' + " ".join(phrase) + '"' for phrase in phrases)
