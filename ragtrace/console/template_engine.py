"""Templates. Everything that is put into one is escaped."""

from functools import cache
from pathlib import Path

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse

FOLDER = Path(__file__).parent


@cache
def environment() -> jinja2.Environment:
    """The one environment; `environment().globals` and `.filters` take what the pages need."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip


def render(request: Request, template: str, /, *, status_code: int = 200, **context: object) -> HTMLResponse:
    """A page. Every template also has `request`, and what the application's `state.page_context` says of it (see
    `ragtrace.console.access.page_context`)."""
    context = {"request": request, **request.app.state.page_context(request), **context}
    return HTMLResponse(environment().get_template(template).render(context), status_code)
