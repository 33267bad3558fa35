"""The OpenAPI document: what FastAPI finds out by itself, and what holds for all routes."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi

from ragtrace.console.problems import Problem

_PROBLEM = {
    "title": "Problem",
    "description": "Problem details, RFC 9457.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, and what to do."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"where": {"type": "string"}, "why": {"type": "string"}},
                "required": ["where", "why"],
            },
        },
    },
}
_ERRORS = {
    400: "The request cannot be read", 401: "The request has no valid session or token",
    403: "Not for this role, or not with this token", 404: "There is no such thing", 408: "The body came too slowly",
    409: "It does not fit what is there", 413: "The body is too long", 422: "The values are not what is expected",
    500: "Something went wrong here", 503: "The database is away, or there is too much to do",
}  # fmt: skip
_SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API token, made with `ragtrace token add`."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "ragtrace",
        "description": "A browser's session (over https the cookie is `__Host-ragtrace`). What changes something also "
        "needs its CSRF token in the header X-CSRF-Token.",
    },
}


def described(app: FastAPI) -> dict[str, Any]:
    """The document of the routes under /api, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        reference = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        errors = {str(status): {"description": reason, "content": reference} for status, reason in _ERRORS.items()}
        for methods in schema["paths"].values():
            for operation in methods.values():
                operation["responses"].update(errors)
        parts = schema.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = _PROBLEM
        for name in ("HTTPValidationError", "ValidationError"):
            parts["schemas"].pop(name, None)
        parts["securitySchemes"] = _SECURITY
        schema["security"] = [{name: []} for name in _SECURITY]
        app.openapi_schema = schema
    return app.openapi_schema


async def only_known_parameters(request: Request) -> None:
    """A parameter that is not known is refused: a misspelt filter that is ignored would show everything."""
    paths = described(request.app)["paths"] if request.query_params else {}
    operation = paths.get(getattr(request.scope.get("route"), "path_format", ""), {}).get(request.method.lower(), {})
    parameters = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    if unknown := sorted(set(request.query_params) - parameters):
        names = ", ".join(sorted(parameters)) or "none"
        raise Problem(
            422, "The request is invalid", f"There is no parameter {unknown[0][:60]!r}. The parameters are: {names}."
        )
