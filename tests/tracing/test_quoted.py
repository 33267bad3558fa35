"""Texts as JSON strings."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from ragtrace.capture.content import quoted

ORDINARY = "The pump is covered for 24 months. “Really?” Yes, and in Köln it is, too. "


@given(st.text(), st.lists(st.sampled_from(['"', "\\", "\n", "\r", "\t", "\0", "\x1f", "\b", "\x7f", "”", "\ud800"])))
@example("", ['"', "\\", "\n", '\\"'])
def test_a_text_as_a_json_string(text: str, special: list[str]) -> None:
    for whole in (text, "".join(special), ORDINARY * 20 + text + "".join(special), (text + "".join(special)) * 40):
        assert quoted(whole) == json.dumps(whole, ensure_ascii=False)
