"""Check digits by python-stdnum, which is imported when the first number is checked."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any


@cache
def _module(name: str) -> Any:
    return import_module(f"stdnum.{name}")


def is_valid(text: str, modules: str) -> bool:
    """Whether one of these modules of python-stdnum (separated by blanks, e.g. `de.idnr`) accepts a number.

    True where none is named: the form is all that can be checked. Never raises.
    """
    compact = re.sub(r"[ ./-]", "", text)
    return not modules or any(_accepts(_module(name), each) for name in modules.split(" ") for each in (text, compact))


def _accepts(module: Any, text: str) -> bool:
    try:
        return bool(module.is_valid(text))
    except Exception:  # noqa: BLE001 some modules raise on letters and digits of other scripts
        return False
