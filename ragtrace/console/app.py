"""The application, put together."""

from fastapi import Depends, FastAPI, Request
from sqlalchemy import select
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from ragtrace._version import __version__
from ragtrace.console import access, api, audit, guards, login, oidc, pages, problems, template_engine
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.options import ConsoleSettings


def create_app(store: Store, settings: ConsoleSettings | None = None) -> FastAPI:
    """The console over that store, as an ASGI application. The caller closes the store."""
    settings = settings or ConsoleSettings()
    app = FastAPI(
        title="ragtrace",
        version=__version__,
        description="Chat logs for review: traces, scores, reviews, calibration.",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        middleware=_guards(store, settings),
        telemetry={"tracing": False, "metrics": False, "logs": False},  # requests here quote chat logs
    )
    app.state.store, app.state.settings, app.state.page_context = store, settings, access.page_context
    problems.install(app)
    app.add_api_route("/healthz", _healthz, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/api/openapi.json", _openapi, methods=["GET"], include_in_schema=False)
    app.include_router(login.router)
    app.include_router(oidc.router)
    app.include_router(api.router)
    app.include_router(pages.router, dependencies=[Depends(access.known)], include_in_schema=False)
    app.mount("/static", StaticFiles(directory=template_engine.FOLDER / "static", check_dir=False), "static")
    return app


def _guards(store: Store, settings: ConsoleSettings) -> list[Middleware]:
    return [  # the outermost first
        Middleware(guards.HeadersAndLog),
        Middleware(problems.Catching),
        Middleware(guards.HostCheck, settings=settings),
        Middleware(guards.OriginCheck, settings=settings),
        Middleware(guards.BodyLimit, longer=("/api/labels",)),
        Middleware(audit.Auditing, store=store),
    ]


def _healthz(request: Request) -> Response:
    """Health check. Gives no information about what is stored."""
    access.store_of(request).scalar(select(schema.users.c.id).limit(1))
    return JSONResponse({"status": "ok"})


def _openapi(request: Request) -> Response:
    return JSONResponse(api.described(request.app))
