"""Label values: bounded in number and length, and safe to print."""

from dataclasses import dataclass, field, fields

OTHER = "other"
_MAX_CHARS = 100
_MAX_ORIGIN = 20
"""Models, and prompt versions, that have a series of their own."""

Origin = tuple[str, str]
"""Model and prompt version as labels; "" where unknown."""


def clean(value: object) -> str:
    """Any object as a label value: at most 100 characters, each one printable; others become `_`. Never raises."""
    if not isinstance(value, str):
        try:
            value = str(value)
        except Exception:  # noqa: BLE001 an application's __str__
            value = type(value).__name__
    text = value[:_MAX_CHARS]
    if text.isprintable():  # no line ends, no NUL and no lone surrogates, which UTF-8 cannot encode
        return text
    return "".join(c if c.isprintable() else "_" for c in text)


class LabelCap:
    """Passes the first `limit` values of a label and turns the rest into `other`. Not thread-safe."""

    def __init__(self, limit: int = 50, empty: str = "unknown") -> None:
        """`empty` replaces the empty value, and does not count against the limit."""
        self._limit = limit
        self._empty = empty
        self._values: set[str] = set()
        self.overflows = 0
        """How often a value was turned into `other`."""

    def __call__(self, value: object) -> str:
        """The value as a label, or `other`."""
        if isinstance(value, str) and value in self._values:
            return value
        text = clean(value)
        if not text:
            return self._empty
        if text not in self._values:
            if len(self._values) >= self._limit:
                self.overflows += 1
                return OTHER
            self._values.add(text)
        return text


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of one sink."""

    evaluator: LabelCap = field(default_factory=lambda: LabelCap(100))
    reason: LabelCap = field(default_factory=lambda: LabelCap(50))
    stratum: LabelCap = field(default_factory=lambda: LabelCap(20))
    category: LabelCap = field(default_factory=lambda: LabelCap(20))
    model: LabelCap = field(default_factory=lambda: LabelCap(_MAX_ORIGIN, empty=""))
    prompt_version: LabelCap = field(default_factory=lambda: LabelCap(_MAX_ORIGIN, empty=""))
    tenant: LabelCap = field(default_factory=lambda: LabelCap(_MAX_ORIGIN, empty=""))

    def overflows(self) -> int:
        """How often a value of any label was turned into `other`."""
        return sum(getattr(self, cap.name).overflows for cap in fields(self))

    def origin(self, model: object, version: object) -> Origin:
        """The model and the prompt version of a request, as labels."""
        return ("" if model is None else self.model(model), "" if version is None else self.prompt_version(version))
