"""What the templates have beside their values: filters for texts, figures and times; addresses of assets."""

import hashlib
import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from urllib.parse import quote, urlsplit
from urllib.parse import urlencode as encoded

from markupsafe import Markup

from ragtrace.console import template_engine
from ragtrace.console.pages.evidence import SIGNS
from ragtrace.console.pages.trace_view import seconds
from ragtrace.console.safe_text import clip, link, printable, visible
from ragtrace.statistics.differences import signed_points

NONE = "\N{EN DASH}"
render = template_engine.render


@cache
def static(name: str) -> str:
    """The address of an asset, which changes with its content: browsers may keep it."""
    content = (template_engine.FOLDER / "static" / name).read_bytes()
    return f"/static/{name}?{hashlib.sha256(content).hexdigest()[:12]}"


def moment(value: float | None) -> str:
    """A Unix time for people, in UTC."""
    return _date(value, "%Y-%m-%d %H:%M")


def iso(value: float | None) -> str:
    """A Unix time for machines."""
    return _date(value, "%Y-%m-%dT%H:%M:%SZ")


def when(value: float | None) -> Markup:
    """A Unix time in UTC, of which a script shows the reader's local time beside it."""
    return Markup('<time datetime="{}">{}</time>').format(iso(value), moment(value))


def local_time(value: float) -> str:
    """A Unix time as a field of the type `datetime-local` has it, in UTC."""
    return _date(value, "%Y-%m-%dT%H:%M")


def clock(value: float) -> str:
    """A time of today, in UTC."""
    return _date(value, "%H:%M UTC")


def _date(value: float | None, form: str) -> str:
    try:
        return NONE if value is None else datetime.fromtimestamp(value, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return NONE


def ago(value: float | None) -> str:
    """How long ago, roughly; the date where it is more than a month."""
    if value is None or not math.isfinite(value):
        return NONE
    past = time.time() - value
    for limit, length, unit in ((90, 1, "s"), (5_400, 60, "min"), (172_800, 3_600, "h"), (2_592_000, 86_400, "d")):
        if 0 <= past < limit:
            return f"{past / length:.0f} {unit} ago"
    return _date(value, "%Y-%m-%d")


def percent(value: float | None, places: int = 1) -> str:
    """A share in [0, 1]; 0 and 100 only where it is exactly that."""
    if value is None:
        return NONE
    text = f"{100 * value:.{places}f}"
    if 0 < value < 1 and float(text) in (0.0, 100.0):
        text = f"{'<' if value < 0.5 else '>'}{10**-places if value < 0.5 else 100 - 10**-places:.{places}f}"
    return f"{text} %"


def range_percent(interval: tuple[float, float] | None) -> str:
    """An interval of shares."""
    return NONE if interval is None else f"{100 * interval[0]:.1f}\N{EN DASH}{100 * interval[1]:.1f} %"


def points(value: float | None) -> str:
    """A difference of shares in percentage points, with its sign."""
    return NONE if value is None else signed_points(100 * value)


def present(values: Mapping[str, object]) -> dict[str, object]:
    """The values that are not empty."""
    return {name: value for name, value in values.items() if value}


def figure(value: float | None) -> str:
    """A score."""
    if value is None:
        return NONE
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def count(value: float | None) -> str:
    """A number of things, short where it is large."""
    if value is None:
        return NONE
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{value:,.0f}"


def size(value: float | None) -> str:
    """Bytes."""
    if value is None:
        return NONE
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def words(name: str) -> str:
    """A name with underscores, for people."""
    return clip(name.replace("_", " "), 60)


def sentence(text: str) -> str:
    """The first sentence of a description that may have been cut off."""
    whole = clip(text, 600)
    match = re.match(r"(.{20,}?[.:])(\s|$)", whole)
    return match[1].rstrip(":") if match else whole if whole.endswith(".") or not whole else f"{whole} …"


def urlencode(value: object) -> str:
    """Jinja's filter of that name for texts that UTF-8 may not be able to say; a path's part keeps no slash."""
    if isinstance(value, Mapping):
        return encoded({str(key): printable(str(inner)) for key, inner in value.items()})
    return quote(printable(str(value)), safe="")


def _finalize(value: object) -> object:
    """The last sieve: nothing unseen in any text, nothing that UTF-8 cannot say. Markup has been through `visible`."""
    return printable(value) if type(value) is str else value


# What the templates need, before the first one is loaded.
environment = template_engine.environment()
environment.finalize = _finalize
environment.filters |= {
    "visible": visible, "clip": clip, "link": link, "moment": moment, "when": when, "iso": iso, "clock": clock,
    "ago": ago, "percent": percent, "range_percent": range_percent, "figure": figure, "count": count, "size": size,
    "words": words, "urlencode": urlencode, "sentence": sentence, "seconds": seconds, "svg": Markup,
    "points": points, "present": present,
    "host": lambda url: urlsplit(url).hostname or "",
}  # fmt: skip
environment.globals |= {"static": static, "signs": SIGNS}
