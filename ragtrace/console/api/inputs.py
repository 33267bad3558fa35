"""What is let in: every text has a longest length and no NUL, every number its bounds."""

from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.datastructures import ImmutableMultiDict

_NO_NUL = r"^[^\x00]*$"
Short = Annotated[str, StringConstraints(max_length=200, pattern=_NO_NUL)]
"""Of a label of the application: app, model, version."""
Words = Annotated[str, StringConstraints(max_length=500, pattern=_NO_NUL)]
"""A search."""
Long = Annotated[str, StringConstraints(max_length=100_000, pattern=_NO_NUL)]
"""An answer, a comment."""
Evaluator = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_NO_NUL)]
Unix = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
"""Seconds since 1970."""
Value = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]
Thumbs = Annotated[int, Field(ge=-1, le=1)]
Id = Annotated[int, Field(ge=1, le=2**53 - 1)]
Role = Literal["viewer", "reviewer", "admin"]
Scope = Literal["read", "feedback", "review", "admin"]
TraceId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
TracePath = Annotated[
    str, Path(pattern=r"^([0-9a-f]{32}|[1-9][0-9]{0,15})$", description="32 hexadecimal digits, or the id here")
]


class Body(BaseModel):
    """What a client sends. A field that is not known is a mistake, not a wish."""

    model_config = ConfigDict(extra="forbid")


Form = ImmutableMultiDict[str, str]
"""The fields of a form that a page sent, without files."""


def form_of(most: int) -> Any:
    """A dependency: the form that a page sent, of at most so many fields."""

    async def read(request: Request) -> Form:
        fields = (await request.form(max_fields=most, max_files=0)).multi_items()
        return ImmutableMultiDict([(name, value) for name, value in fields if isinstance(value, str)])

    return Depends(read)
