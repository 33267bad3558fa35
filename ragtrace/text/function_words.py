"""English words that carry no meaning of their own."""

from __future__ import annotations

_LISTED = """
a an the and or but if then than so as at by for from in into of on onto to with without within is are was were be been
being am do does did have has had will would can could may might must shall should it its this that these those he she
they them his her their i we you our your my me us which who whom whose what when where why how not no nor also there
here s t re ve d ll m more most such other some any each both all up out over about
"""
FUNCTION_WORDS = frozenset(_LISTED.split())
