"""The pages of a study as an ASGI application for any server."""

from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from didact.errors import OptionError
from didact.study import organiser, participant, task
from didact.study.database import ErasedPersonError
from didact.study.links import is_root
from didact.study.request_context import (
    UNKNOWN,
    CodeError,
    Participant,
    ProblemError,
    RedirectError,
    Study,
    wants_json,
)
from didact.study.security_middleware import HEADERS, SecurityMiddleware, TooLargeError

_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADINGS: Final = {
    400: "This request cannot be read", 403: "You cannot do this", 404: "There is no such page",
    405: "There is no such page", 409: "Already answered", 410: "The study is closed", 413: "The request is too large",
    422: "Something is missing", 429: "Too many wrong codes",
}  # fmt: skip


def create_app(folder: Path | str, *, database: str | None = None, root: str = "", is_secure: bool = False) -> FastAPI:
    """The ASGI application for the study in `folder`.

    `root` is the path below which its pages are, such as /study. `is_secure` sends cookies over https only. `database`
    is the SQLAlchemy URL of the answers if they are not in the folder.
    """
    if not is_root(root):
        raise OptionError(f"root must be a plain path such as /study, got {root!r}.")
    study = Study(Path(folder), database=database, root=root.rstrip("/"), is_secure=is_secure)
    # redirect_slashes would redirect to http and to any host in the request. SecurityMiddleware drops the slash.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.study = study
    for pages in (participant, task, organiser):
        app.include_router(pages.router)
    _add_files(app, study)
    _add_problems(app, study)
    app.add_middleware(SecurityMiddleware, root=study.root)
    return app


def _add_files(app: FastAPI, study: Study) -> None:
    """Routes for styles, scripts and pictures. They serve listed names only, so that no path leaves the folder."""
    from didact.viz.page import shade_css

    static = {path.name: path for path in _STATIC.iterdir() if path.suffix in _TYPES}
    shade = shade_css("main")
    pictures = study.stimuli.pictures

    @app.get("/static/{name}")
    def file(name: str) -> Response:
        if name == "shades.css":
            return Response(shade, media_type="text/css", headers={"cache-control": "max-age=3600"})
        if name not in static:
            raise ProblemError(404, "There is no such file.")
        return FileResponse(static[name], media_type=_TYPES[static[name].suffix], headers={"cache-control": "no-cache"})

    @app.get("/image/{name}")
    def image(_: Participant, name: str) -> Response:
        if name not in pictures:
            raise ProblemError(404, "There is no such picture.")
        headers = {"cache-control": "private, max-age=86400, immutable"}
        return FileResponse(study.pictures / name, media_type="image/png", headers=headers)

    @app.get("/health")
    def health() -> Response:
        return PlainTextResponse("ok")


def _add_problems(app: FastAPI, study: Study) -> None:
    """Error handlers. Every error becomes a page or JSON that reveals nothing internal."""

    def respond(request: Request, status: int, message: str, next: str = "") -> Response:
        if wants_json(request):
            return JSONResponse({"detail": message, "next": next}, status_code=status)
        heading = _HEADINGS.get(status, "Something went wrong")
        return study.page("problem.html", status=status, heading=heading, message=message, next=next)

    @app.exception_handler(ProblemError)
    async def problem(request: Request, error: ProblemError) -> Response:
        if isinstance(error, CodeError) and not wants_json(request):
            return study.page("welcome.html", status=error.status, error=error.message)
        return respond(request, error.status, error.message, error.next)

    @app.exception_handler(ErasedPersonError)
    async def erased(request: Request, _: ErasedPersonError) -> Response:
        return respond(request, 403, UNKNOWN, f"{study.root}/")

    @app.exception_handler(RedirectError)
    async def redirected(_: Request, error: RedirectError) -> Response:
        return study.redirect(error.path)

    @app.exception_handler(TooLargeError)
    async def too_large(request: Request, _: TooLargeError) -> Response:
        return respond(request, 413, "The request is larger than any answer. Nothing was stored.")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        return respond(request, error.status_code, "Nothing was stored by this request.", f"{study.root}/")

    @app.exception_handler(Exception)
    async def failed(request: Request, _: Exception) -> Response:
        response = respond(
            request, 500, "This is our fault, and the error was logged. Nothing you saved is lost.", f"{study.root}/"
        )
        response.headers.update(HEADERS)  # this handler runs outside of SecurityMiddleware
        return response
