"""The study's pages: `create_app(folder)` is an ASGI application for any server."""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from didact.errors import OptionError
from didact.study.address import is_root
from didact.study.auth import KEPT, Keys, Limiter, read_keys
from didact.study.database import Answers, GoneError, Person, RepeatedError, open_answers
from didact.study.design import Design, read_design
from didact.study.export import FORMATS, exported
from didact.study.forms import FormError, draft_in, given_in, is_touched, seconds_in, whole_number
from didact.study.page_context import example_of, sheet_of
from didact.study.progress import overview
from didact.study.schedule import Step, steps_of
from didact.study.security_middleware import HEADERS, TooLargeError, Wall, is_too_large
from didact.study.stimuli import PICTURES, Stimuli, read_stimuli

ESTIMATE: Final = {"ranking": 40.0, "simulation": 25.0, "rating": 20.0}  # seconds a page, before anybody's are known
UNKNOWN: Final = "We do not know who you are. Use the link that you were sent."
_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADINGS: Final = {
    400: "This request cannot be read", 403: "This is not yours to do", 404: "There is no such page",
    405: "There is no such page", 409: "Already answered", 410: "The study is closed", 413: "That is too much",
    422: "Something is missing", 429: "Too many wrong codes",
}  # fmt: skip


class ProblemError(Exception):
    """A request that ends with a message: `status`, what to say, and where to go on."""

    def __init__(self, status: int, message: str, next: str = "") -> None:
        self.status, self.message, self.next = status, message, next


class CodeError(ProblemError):
    """A code that lets nobody in; the page that asks for one says so."""


class ElsewhereError(Exception):
    """A request that belongs to another page."""

    def __init__(self, path: str) -> None:
        self.path = path


class Study:
    """What the pages of one study share."""

    def __init__(self, folder: Path, *, database: str | None, root: str, is_secure: bool) -> None:
        self.design: Design = read_design(folder)
        self.stimuli: Stimuli = read_stimuli(folder)
        self.keys: Keys = read_keys(folder)
        self.answers: Answers = open_answers(folder, self.design, database)
        self.answers.check_keys(self.keys)
        self.cookie, self.organiser = self.keys.cookie_name("person"), self.keys.cookie_name("organiser")
        self.pictures = folder / PICTURES
        self.root, self.is_secure = root, is_secure
        self.limiter = Limiter()
        self._steps: dict[int, list[Step]] = {}
        self._pages = Environment(
            loader=PackageLoader("didact.study", "pages"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip

    def steps(self, person: Person) -> list[Step]:
        if person.number not in self._steps:
            self._steps[person.number] = steps_of(self.design, person.number)
        return self._steps[person.number]

    def page(self, name: str, cookie: str = "", *, status: int = 200, **values: Any) -> HTMLResponse:
        csrf = self.keys.form_token(cookie) if cookie else ""
        design = self.design
        page = self._pages.get_template(name)
        shown = page.render(root=self.root, title=design.title, about=design.about, csrf=csrf, **values)
        return HTMLResponse(shown, status_code=status)

    def goto(self, path: str) -> RedirectResponse:
        return RedirectResponse(f"{self.root}{path}", status_code=303)

    def with_cookie(self, name: str, who: int | str) -> RedirectResponse:
        found = self.goto("/organiser" if name == self.organiser else "/")
        found.set_cookie(
            name, self.keys.cookie(who), max_age=KEPT, path=f"{self.root}/", httponly=True, samesite="lax",
            secure=self.is_secure,
        )  # fmt: skip
        return found

    def enter(self, code: str, address: str) -> RedirectResponse:
        """Let a participant in by their code."""
        person = self.answers.person_with(code) if len(code) <= 100 else None
        if person is None:
            raise CodeError(
                self.wrong_code(address), "This invitation is not known. Use the whole link that you were sent."
            )
        return self.with_cookie(self.cookie, person.number)

    def wrong_code(self, address: str) -> int:
        """The status of a wrong code: 403, and 429 after ten from one address.

        A right code is never refused, because many people can share one address: a proxy, an office, a mobile network.
        Refusing it would protect nothing. Codes have 130 random bits: a million guesses per second for a year hit one
        of 1,000 codes with a probability of 2e-23.
        """
        is_blocked = self.limiter.is_blocked(address)
        self.limiter.count(address)
        return 429 if is_blocked else 403

    def person(self, request: Request) -> Person:
        """Whose request this is; who is not known is asked for a code."""
        who = self.keys.who(request.cookies.get(self.cookie))
        person = self.answers.person(who) if isinstance(who, int) else None
        if person is None:
            raise ProblemError(403, UNKNOWN, f"{self.root}/")
        return person

    def participant(self, request: Request) -> Person:
        """The same, of somebody who has agreed to take part."""
        person = self.person(request)
        if person.consented is None:
            if request.method == "GET":
                raise ElsewhereError("/")
            raise ProblemError(403, "You have not agreed to take part yet.", f"{self.root}/")
        return person

    def check_form(self, request: Request, fields: dict[str, str], cookie: str) -> None:
        held = request.cookies.get(cookie, "")
        if not held or not self.keys.is_form_token(fields.get("csrf", ""), held):
            raise ProblemError(
                403, "This form is outdated, or not from this study. Load the page again.", f"{self.root}/"
            )

    def check_organiser(self, request: Request) -> None:
        if self.keys.who(request.cookies.get(self.organiser)) != "organiser":
            raise ProblemError(403, "This page is for the organiser. Use the organiser's link.")

    def after(self, person: Person, done: int) -> str:
        """Where to go on after so many answers."""
        total = len(self.steps(person))
        if done >= total:
            return f"{self.root}/thanks"
        is_pause = self.design.pause and done % self.design.pause == 0 and done > 0
        return f"{self.root}/{'break' if is_pause else 'task'}"

    def minutes(self, steps: int, seconds: list[float]) -> int:
        each = statistics.median(seconds) if len(seconds) >= 5 else ESTIMATE[self.design.kind]
        return max(1, round(steps * each / 60))


async def _fields(request: Request) -> dict[str, str]:
    """The fields of a form, each once."""
    if is_too_large(request.headers):
        raise TooLargeError
    # Pages send this type alone. A multipart form may name its character set, and some give text that has no UTF-8.
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise ProblemError(400, "This is not a form of the study. Load the page again.")
    try:
        async with request.form(max_fields=60) as form:
            pairs = list(form.multi_items())
    except (HTTPException, ClientDisconnect) as error:
        raise ProblemError(400, "This form cannot be read. Load the page again.") from error
    found = {name: value for name, value in pairs if isinstance(value, str)}
    if len(found) != len(pairs):
        raise ProblemError(400, "This form holds something twice. Load the page again.")
    return found


Fields = Annotated[dict[str, str], Depends(_fields)]


def create_app(folder: Path | str, *, database: str | None = None, root: str = "", is_secure: bool = False) -> FastAPI:
    """The pages of the study in `folder`. `root` is a path before all others; `is_secure` keeps cookies to https."""
    if not is_root(root):
        raise OptionError(f"root must be a plain path such as /study, got {root!r}.")
    study = Study(Path(folder), database=database, root=root.rstrip("/"), is_secure=is_secure)
    # redirect_slashes would redirect to http, and to whatever host the request names. The wall drops the slash instead.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.study = study
    _add_doors(app, study)
    _add_tasks(app, study)
    _add_organiser(app, study)
    _add_files(app, study)
    _add_problems(app, study)
    app.add_middleware(Wall, root=study.root)
    return app


def _add_doors(app: FastAPI, study: Study) -> None:
    """Invitation, consent, instructions, dashboard, thanks."""

    @app.get("/")
    def home(request: Request) -> Response:
        cookie = request.cookies.get(study.cookie)
        who = study.keys.who(cookie)
        person = study.answers.person(who) if isinstance(who, int) else None
        if person is None or cookie is None:
            return study.page("welcome.html", error="")
        steps = study.steps(person)
        if person.consented is None:
            return study.page(
                "consent.html", cookie, paragraphs=study.design.consent, pages=len(steps),
                minutes=study.minutes(len(steps), []), contact=study.design.contact,
            )  # fmt: skip
        done = study.answers.done(person.number)
        if done >= len(steps):
            return study.goto("/thanks")
        return study.page(
            "dashboard.html", cookie, phases=_phases(steps, done), done=done, total=len(steps),
            minutes_left=study.minutes(len(steps) - done, study.answers.seconds(person.number)),
            is_closed=study.answers.is_closed, person=person.id,
        )  # fmt: skip

    @app.get("/i/{code}")
    def invited(request: Request, code: str) -> Response:
        return study.enter(code, _address(request))

    @app.post("/enter")
    def enter(request: Request, fields: Fields) -> Response:
        origin = request.headers.get("origin")
        scheme = "https" if study.is_secure else request.scope["scheme"]
        if origin is not None and origin != f"{scheme}://{request.headers.get('host')}":
            raise ProblemError(403, _foreign_form(origin, scheme, request.headers.get("host")), f"{study.root}/")
        return study.enter(fields.get("code", "").strip().rsplit("/", 1)[-1], _address(request))

    @app.post("/consent")
    def consent(request: Request, fields: Fields) -> Response:
        person = study.person(request)
        study.check_form(request, fields, study.cookie)
        if fields.get("agree") != "yes":
            raise ProblemError(422, "You can take part only if you agree.", f"{study.root}/")
        study.answers.consent(person.number)
        return study.goto("/instructions")

    @app.get("/instructions")
    def instructions(request: Request) -> Response:
        person = study.participant(request)
        example = example_of(study.design, study.stimuli.example, root=study.root, cohort=person.cohort)
        design = study.design
        return study.page(
            "instructions.html", request.cookies[study.cookie], kind=design.kind, question=design.question,
            example=example, pause=design.pause, keys=_keys(design),
        )  # fmt: skip

    @app.get("/break")
    def pause(request: Request) -> Response:
        person = study.participant(request)
        done, total = study.answers.done(person.number), len(study.steps(person))
        return study.page("break.html", done=done, total=total, next=f"{study.root}/task")

    @app.get("/thanks")
    def thanks(request: Request) -> Response:
        person = study.participant(request)
        done, total = study.answers.done(person.number), len(study.steps(person))
        if done < total:
            return study.goto("/")
        return study.page("thanks.html", done=done, total=total, contact=study.design.contact, person=person.id)


def _keys(design: Design) -> int:
    """How many answers the number keys choose from on a page of this study."""
    return len(design.classes) if design.kind == "simulation" else design.points


def _add_tasks(app: FastAPI, study: Study) -> None:
    """One page for each step, answered in order and once."""

    @app.get("/task")
    def current(request: Request) -> Response:
        person = study.participant(request)
        done = study.answers.done(person.number)
        return study.goto("/thanks" if done >= len(study.steps(person)) else f"/task/{done + 1}")

    @app.get("/task/{page}")
    def task(request: Request, page: str) -> Response:
        person = study.participant(request)
        step = _step(study, person, page)
        number = step.number
        done = study.answers.done(person.number)
        if number > done + 1:
            return study.goto("/task")
        given = study.answers.given(person.number, number)
        if step.phase == "learning" and _is_tested(study, person):
            raise ProblemError(403, "The learning part is over. Go on with the test.", f"{study.root}/task")
        if given is None:
            if study.answers.is_closed:
                raise ProblemError(410, "No more answers are taken. Thank you for those you gave.", f"{study.root}/")
            study.answers.see(person.number, number)
        return _shown(study, request, person, step, given, done)

    @app.post("/task/{page}")
    def answer(request: Request, page: str, fields: Fields) -> Response:
        person = study.participant(request)
        study.check_form(request, fields, study.cookie)
        step = _step(study, person, page)
        number = step.number
        done = study.answers.done(person.number)
        if number <= done:
            raise _repeated(study, step)
        if number > done + 1:
            raise ProblemError(403, "This page comes later. Go on where you are.", f"{study.root}/task")
        if study.answers.is_closed:
            raise ProblemError(410, "No more answers are taken. This one came too late.", f"{study.root}/")
        try:
            given, seconds = given_in(study.design, step, fields), seconds_in(fields)
        except FormError as error:
            if _wants_json(request):
                raise ProblemError(422, str(error)) from None
            return _shown(study, request, person, step, None, done, error=str(error), fields=fields)
        try:
            study.answers.add(person.number, step, given, seconds=seconds, is_touched=is_touched(fields))
        except RepeatedError:
            raise _repeated(study, step) from None
        next = f"{study.root}/task/{number}" if step.phase == "learning" else study.after(person, number)
        return JSONResponse({"next": next}) if _wants_json(request) else RedirectResponse(next, status_code=303)


def _add_organiser(app: FastAPI, study: Study) -> None:
    """Progress, times, doubts, exports; by the organiser's link."""

    @app.get("/o/{code}")
    def door(request: Request, code: str) -> Response:
        if not study.keys.is_organiser(code):
            raise ProblemError(study.wrong_code(_address(request)), "This is not the organiser's link.")
        return study.with_cookie(study.organiser, "organiser")

    @app.get("/organiser")
    def organiser(request: Request) -> Response:
        study.check_organiser(request)
        exports = [{"name": name, "url": f"{study.root}/organiser/answers.{name}"} for name in ("csv", "json")]
        return study.page(
            "organiser.html", request.cookies[study.organiser], **overview(study.design, study.answers),
            is_closed=study.answers.is_closed, exports=exports,
        )  # fmt: skip

    @app.get("/organiser/answers.{kind}")
    def export(request: Request, kind: str) -> Response:
        study.check_organiser(request)
        if kind not in ("csv", "json"):
            raise ProblemError(404, "Answers are exported as csv or json.", f"{study.root}/organiser")
        content = exported(study.design, study.answers.read(), kind)
        headers = {"content-disposition": f'attachment; filename="answers.{kind}"'}
        return Response(content, media_type=FORMATS[kind], headers=headers)

    @app.post("/organiser/{action}")
    def change(request: Request, action: str, fields: Fields) -> Response:
        study.check_organiser(request)
        study.check_form(request, fields, study.organiser)
        if action not in ("close", "open"):
            raise ProblemError(404, "A study can be closed and opened.", f"{study.root}/organiser")
        study.answers.set_closed(action == "close")
        return study.goto("/organiser")


def _add_files(app: FastAPI, study: Study) -> None:
    """Styles, scripts and pictures: each by a name from a list, so that no path leads elsewhere."""
    from didact.render.page import shades

    static = {path.name: path for path in _STATIC.iterdir() if path.suffix in _TYPES}
    shade = shades("main")
    pictures = study.stimuli.pictures

    @app.get("/static/{name}")
    def file(name: str) -> Response:
        if name == "shades.css":
            return Response(shade, media_type="text/css", headers={"cache-control": "max-age=3600"})
        if name not in static:
            raise ProblemError(404, "There is no such file.")
        return FileResponse(static[name], media_type=_TYPES[static[name].suffix], headers={"cache-control": "no-cache"})

    @app.get("/image/{name}")
    def image(request: Request, name: str) -> Response:
        study.participant(request)
        if name not in pictures:
            raise ProblemError(404, "There is no such picture.")
        headers = {"cache-control": "private, max-age=86400, immutable"}
        return FileResponse(study.pictures / name, media_type="image/png", headers=headers)

    @app.get("/health")
    def health() -> Response:
        return PlainTextResponse("ok")


def _add_problems(app: FastAPI, study: Study) -> None:
    """Every error is a page or a line of JSON with nothing of the inside in it."""

    def told(request: Request, status: int, message: str, next: str = "") -> Response:
        if _wants_json(request):
            return JSONResponse({"detail": message, "next": next}, status_code=status)
        heading = _HEADINGS.get(status, "Something went wrong")
        return study.page("problem.html", status=status, heading=heading, message=message, next=next)

    @app.exception_handler(ProblemError)
    async def problem(request: Request, error: ProblemError) -> Response:
        if isinstance(error, CodeError) and not _wants_json(request):
            return study.page("welcome.html", status=error.status, error=error.message)
        return told(request, error.status, error.message, error.next)

    @app.exception_handler(GoneError)
    async def gone(request: Request, _: GoneError) -> Response:
        return told(request, 403, UNKNOWN, f"{study.root}/")

    @app.exception_handler(ElsewhereError)
    async def elsewhere(_: Request, error: ElsewhereError) -> Response:
        return study.goto(error.path)

    @app.exception_handler(TooLargeError)
    async def too_large(request: Request, _: TooLargeError) -> Response:
        return told(request, 413, "More was sent than any answer holds. Nothing of it was stored.")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        return told(request, error.status_code, "Nothing was stored by this request.", f"{study.root}/")

    @app.exception_handler(Exception)
    async def failed(request: Request, _: Exception) -> Response:
        found = told(request, 500, "This is our fault, and was noted. Nothing you saved is lost.", f"{study.root}/")
        found.headers.update(HEADERS)  # the wall lies inside of what catches everything
        return found


def _shown(
    study: Study,
    request: Request,
    person: Person,
    step: Step,
    given: dict[str, Any] | None,
    done: int,
    *,
    error: str = "",
    fields: Mapping[str, str] | None = None,
) -> Response:
    stimulus = study.stimuli.items[step.item.id]
    page = sheet_of(study.design, step, stimulus, len(study.steps(person)), root=study.root, given=given)
    page["next"] = study.after(person, done) if given is not None else ""
    page["error"] = error
    if fields is not None:
        page["answer"] = draft_in(study.design, step, fields)
    status = 422 if error else 200
    return study.page(f"{study.design.kind}.html", request.cookies[study.cookie], status=status, page=page)


def _step(study: Study, person: Person, page: str) -> Step:
    steps = study.steps(person)
    number = whole_number(page)
    if number is None or not 1 <= number <= len(steps):
        raise ProblemError(404, "You have no such page.", f"{study.root}/task")
    return steps[number - 1]


def _is_tested(study: Study, person: Person) -> bool:
    """Whether the person has seen a page of the test: from then on no explanation is shown."""
    first = next((step.number for step in study.steps(person) if step.phase == "test"), None)
    return first is not None and study.answers.is_seen(person.number, first)


def _repeated(study: Study, step: Step) -> ProblemError:
    """An answer that came twice. What was stored stands; the browser simply goes on."""
    next = f"{study.root}/task/{step.number}" if step.phase == "learning" else f"{study.root}/task"
    return ProblemError(409, "You have answered this page before. That answer is stored; this one is not.", next)


def _phases(steps: list[Step], done: int) -> list[dict[str, Any]]:
    names = list(dict.fromkeys(step.phase for step in steps))
    return [
        {
            "name": name,
            "done": sum(step.phase == name and step.number <= done for step in steps),
            "total": sum(step.phase == name for step in steps),
        }
        for name in names
    ]


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _foreign_form(origin: str, scheme: str, host: str | None) -> str:
    """Why a form with this Origin is refused by a study at `scheme` and `host`. The Origin itself is never shown."""
    if (origin, scheme) == (f"https://{host}", "http"):
        return (
            "You use https, and the study was started for http. Organiser: behind a server with https, start it with "
            "--https, that is `didact study serve STUDY --proxy HOST --https`."
        )
    if (origin, scheme) == (f"http://{host}", "https"):
        return "You use http, and the study is served by https. Open its address with https:// in front."
    return "This form is not from this study."


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else "unknown"
