"""The API, under /api. Routes say what they need; what they all share stands here."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from ragtrace.console import access

router = APIRouter(prefix="/api", dependencies=[Depends(access.known)])


@router.get("/me")
def me(known: access.Known) -> dict[str, object]:
    """Who asks."""
    return {"name": known.user.name, "role": known.user.role, "via": known.via}
