"""Names and addresses in a text: Rampart, a small BERT for personal data, quantised to four bits.

Model by National Design Studio (CC-BY-4.0, redistributed unmodified; see data/licenses). It knows English best. What
has digits and a checkable form (cards, phones, addresses of the net) is left to `ragtrace.text.privacy.find`."""

from typing import NamedTuple

from ragtrace.base.lazy import Lazy
from ragtrace.errors import package
from ragtrace.evaluate.models import model_file
from ragtrace.evaluate.models.encoder import open_session
from ragtrace.text.redaction import mask_pii, replace_spans

_LABEL_NAMES = """
GIVEN_NAME SURNAME EMAIL PHONE URL TAX_ID BANK_ACCOUNT ROUTING_NUMBER GOVERNMENT_ID PASSPORT DRIVERS_LICENSE
BUILDING_NUMBER STREET_NAME SECONDARY_ADDRESS CITY STATE ZIP_CODE
"""
_LABELS = _LABEL_NAMES.split()
"""Label 0 is no entity; label 2k + 1 begins _LABELS[k], 2k + 2 continues it."""
_NAMES = frozenset({"GIVEN_NAME", "SURNAME"})
_STREET = frozenset({"STREET_NAME", "SECONDARY_ADDRESS"})
_PLACE = frozenset({"BUILDING_NUMBER", "CITY", "STATE", "ZIP_CODE"})
_SURE = 0.8
"""Probability from which a piece counts: one caption in forty has a false name, at 0.5 one in fourteen."""
_WINDOW = 480
"""Characters that are read together: what the model was made for. Windows overlap by _OVERLAP."""
_OVERLAP = 64
_LETTERS = 0.2
"""Least share of letters in a window that is read. Prose has 0.8, a table of names and numbers 0.4."""
_MAX_CHARS = 20_000
_MAX_PIECES = 8_000
"""Prose of 20,000 characters has 5,000; code and other scripts have up to one for each character."""
_CLS, _SEP = 2, 3


class Named(NamedTuple):
    """A name or an address and its place in the text, end exclusive."""

    kind: str
    """`person` or `address`."""
    start: int
    end: int


class NameModel:
    """The model and its tokenizer."""

    def __init__(self) -> None:
        """Raises MissingExtraError or ModelError where a part cannot be loaded."""
        tokenizers = package("tokenizers", "models", "The model of names")
        self._tokenizer = tokenizers.BertWordPieceTokenizer(str(model_file("names_vocabulary")), lowercase=True)
        self._session = open_session(model_file("names"))
        self._inputs = [i.name for i in self._session.get_inputs()]

    def find(self, text: str) -> list[Named]:
        """The names and addresses of a text's first 20,000 characters, or 8,000 word pieces if it has more.

        In order, and not overlapping."""
        text = text[:_MAX_CHARS]
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")
        pieces: dict[tuple[int, int], tuple[str, float]] = {}
        left = _MAX_PIECES
        for begin in range(0, max(1, len(text)), _WINDOW - _OVERLAP):
            if left <= 0:
                break
            count, labels = self._read(text[begin : begin + _WINDOW])
            left -= count
            for start, end, label, probability in labels:
                place = (begin + start, begin + end)
                if place not in pieces or pieces[place][1] < probability:
                    pieces[place] = (label, probability)
        return _joined(text, [(*place, label) for place, (label, p) in sorted(pieces.items()) if p >= _SURE])

    def _read(self, text: str) -> tuple[int, list[tuple[int, int, str, float]]]:
        """The number of word pieces that were read, and those with a label: start, end, label, probability."""
        import numpy as np

        if sum(map(str.isalpha, text)) < _LETTERS * len(text):
            return 0, []  # digits and marks: no name, and many pieces to read
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        ids = np.array([[_CLS, *encoding.ids[:510], _SEP]], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        logits = self._session.run(None, {name: feed[name] for name in self._inputs})[0][0, 1:-1]
        raised = np.exp(logits - logits.max(1, keepdims=True))
        raised /= raised.sum(1, keepdims=True)
        labels = []
        for (start, end), row in zip(encoding.offsets, raised, strict=False):
            best = int(row.argmax())
            if best:
                k = (best - 1) // 2
                labels.append((start, end, _LABELS[k], float(row[2 * k + 1] + row[2 * k + 2])))
        return len(encoding.ids), labels


def _joined(text: str, pieces: list[tuple[int, int, str]]) -> list[Named]:
    """Neighbouring pieces of a kind as one; an address needs a street: a city alone is no address."""
    spans: list[Named] = []
    group: list[tuple[int, int, str]] = []

    def close() -> None:
        labels = {label for _, _, label in group}
        if labels & _NAMES:
            if any(text[a:b][:1].isupper() for a, b, _ in group):
                spans.append(Named("person", group[0][0], group[-1][1]))
        elif labels & _STREET:
            spans.append(Named("address", group[0][0], group[-1][1]))
        group.clear()

    for piece in pieces:
        kind = _NAMES if piece[2] in _NAMES else _STREET | _PLACE if piece[2] in _STREET | _PLACE else None
        if group:
            gap = text[group[-1][1] : piece[0]]
            room = 1 if group[0][2] in _NAMES else 3
            if kind is None or group[0][2] not in kind or len(gap) > room or gap.strip(" ,.\n'-"):
                close()
        if kind is not None:
            group.append(piece)
    if group:
        close()
    return spans


_model = Lazy(NameModel)


def names(text: str) -> list[Named]:
    """The names and addresses of a text, by the process's model, which is loaded on first use."""
    return _model.get().find(text)


def mask_names(text: str) -> str:
    """The text with `[name]` in the place of each person's name and `[address]` in that of each street address, and
    with what `mask_pii` masks. Raises MissingExtraError or ModelError where the model cannot be loaded."""
    pieces = (text[at : at + _MAX_CHARS] for at in range(0, len(text), _MAX_CHARS))
    # The names first: the model reads the text as it was written.
    masked = (replace_spans(p, [(one.start, one.end, _PLACEHOLDERS[one.kind]) for one in names(p)]) for p in pieces)
    return mask_pii("".join(masked))


_PLACEHOLDERS = {"person": "[name]", "address": "[address]"}
