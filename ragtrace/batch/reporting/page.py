"""Writes pages that need no other file: no script, no request, and no text of a row becomes markup."""

import base64
import hashlib
import os
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from ragtrace.batch.reporting.files import replacing
from ragtrace.batch.reporting.formats import clip
from ragtrace.errors import package

# HTML allows no control characters, and UTF-8 no lone surrogates.
_UNPRINTABLE = dict.fromkeys((*range(9), 11, *range(14, 32), *range(127, 160), *range(55296, 57344)), "�")


def render(template: str, filters: Mapping[str, Callable[..., Any]], content: Mapping[str, Any]) -> str:
    """The page that a template makes of `content`. Its policy allows only our style sheet, by its digest: markup that
    got in could not even change a colour. Raises MissingExtraError without jinja2."""
    jinja2 = package("jinja2", "eval", "The report")
    markup = package("markupsafe", "eval", "The report").Markup
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=lambda value: value.translate(_UNPRINTABLE) if type(value) is str else value,
    )  # fmt: skip
    environment.filters |= {"clip": clip, "markup": markup, **filters}
    css = _read("report.css")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    page = environment.get_template(template).render(content, css=markup(css), css_hash=markup(f"sha256-{digest}"))
    return str(page)


def write(page: str, path: str | os.PathLike[str]) -> Path:
    """Write a page and return its path. The folder is created if it is missing; the file appears complete or not at
    all. Raises DataError or OSError if it cannot be written."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as part:
        part.write_text(page, encoding="utf-8")
    return target


def _read(name: str) -> str:
    return resources.files(__package__ or "ragtrace.batch.reporting").joinpath(name).read_text(encoding="utf-8")
