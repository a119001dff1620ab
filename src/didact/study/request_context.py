"""Shared by all pages: the study, who sent a request, its form, and errors that end the request."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from didact.study.auth import COOKIE_LIFETIME, Keys, Limiter, read_keys
from didact.study.database import AnswerStore, Person, open_answers
from didact.study.design import Design, read_design
from didact.study.schedule import Step, steps_of
from didact.study.security_middleware import TooLargeError, is_too_large
from didact.study.stimuli import PICTURES, Stimuli, read_stimuli

ESTIMATE: Final = {"ranking": 40.0, "simulation": 25.0, "rating": 20.0}  # seconds per page, until times are measured
UNKNOWN: Final = "We do not know who you are. Use the link that you were sent."


class ProblemError(Exception):
    """Ends a request with a message. `next` is the address of the button "Continue"."""

    def __init__(self, status: int, message: str, next: str = "") -> None:
        self.status, self.message, self.next = status, message, next


class CodeError(ProblemError):
    """A wrong invitation code. The page that asks for a code shows the message."""


class RedirectError(Exception):
    """Redirects a request to another page."""

    def __init__(self, path: str) -> None:
        self.path = path


class Study:
    """One served study: its design, stimuli, keys, answers and templates."""

    def __init__(self, folder: Path, *, database: str | None, root: str, is_secure: bool) -> None:
        self.design: Design = read_design(folder)
        self.stimuli: Stimuli = read_stimuli(folder)
        self.keys: Keys = read_keys(folder)
        self.answers: AnswerStore = open_answers(folder, self.design, database)
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
        common = {"root": self.root, "title": self.design.title, "about": self.design.about, "csrf": csrf}
        return HTMLResponse(self._pages.get_template(name).render(**common, **values), status_code=status)

    def redirect(self, path: str) -> RedirectResponse:
        return RedirectResponse(f"{self.root}{path}", status_code=303)

    def redirect_with_cookie(self, name: str, cookie_owner: int | str) -> RedirectResponse:
        response = self.redirect("/organiser" if name == self.organiser else "/")
        response.set_cookie(
            name,
            self.keys.cookie(cookie_owner),
            max_age=COOKIE_LIFETIME,
            path=f"{self.root}/",
            httponly=True,
            samesite="lax",
            secure=self.is_secure,
        )
        return response

    def enter(self, code: str, address: str) -> RedirectResponse:
        """Log a participant in by code."""
        person = self.answers.person_with(code) if len(code) <= 100 else None
        if person is None:
            raise CodeError(
                self.wrong_code(address), "This invitation is unknown. Use the whole link that you were sent."
            )
        return self.redirect_with_cookie(self.cookie, person.number)

    def wrong_code(self, address: str) -> int:
        """The HTTP status of a wrong code: 403, or 429 after ten from one address.

        A right code is never refused, because many people can share one address: a proxy, an office, a mobile network.
        Refusing it would protect nothing. Codes have 130 random bits: a million guesses per second for a year hit one
        of 1,000 codes with a probability of 2e-23.
        """
        is_blocked = self.limiter.is_blocked(address)
        self.limiter.count(address)
        return 429 if is_blocked else 403

    def check_form(self, fields: dict[str, str], cookie: str) -> None:
        """Raise if the form was not made for the owner of this cookie."""
        if not cookie or not self.keys.is_form_token(fields.get("csrf", ""), cookie):
            raise ProblemError(
                403, "This form is outdated, or not from this study. Load the page again.", f"{self.root}/"
            )

    def minutes(self, steps: int, seconds: list[float]) -> int:
        each = statistics.median(seconds) if len(seconds) >= 5 else ESTIMATE[self.design.kind]
        return max(1, round(steps * each / 60))


async def _fields(request: Request) -> dict[str, str]:
    """The fields of a submitted form, each of which may occur once."""
    if is_too_large(request.headers):
        raise TooLargeError
    # Pages send only this type. A multipart form may name its character set, and some sets yield text without UTF-8.
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise ProblemError(400, "This is not a form of the study. Load the page again.")
    try:
        async with request.form(max_fields=60) as form:
            pairs = list(form.multi_items())
    except (HTTPException, ClientDisconnect) as error:
        raise ProblemError(400, "This form cannot be read. Load the page again.") from error
    fields = {name: value for name, value in pairs if isinstance(value, str)}
    if len(fields) != len(pairs):
        raise ProblemError(400, "This form has a field twice. Load the page again.")
    return fields


Fields = Annotated[dict[str, str], Depends(_fields)]


async def _study(request: Request) -> Study:
    study: Study = request.app.state.study
    return study


CurrentStudy = Annotated[Study, Depends(_study)]


@dataclass(frozen=True)
class Visit:
    """A request by an invited person, with what their pages need."""

    study: Study
    person: Person
    cookie: str

    @property
    def steps(self) -> list[Step]:
        return self.study.steps(self.person)

    @property
    def done(self) -> int:
        return self.study.answers.done(self.person.number)

    def page(self, name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        return self.study.page(name, self.cookie, status=status, **values)

    def after(self, done: int) -> str:
        """The address of the next page after `done` answers."""
        if done >= len(self.steps):
            return f"{self.study.root}/thanks"
        pause = self.study.design.pause
        return f"{self.study.root}/{'break' if pause and done % pause == 0 and done > 0 else 'task'}"


def visit_of(request: Request, study: Study) -> Visit | None:
    """The visit that a request belongs to; None without a valid cookie."""
    cookie = request.cookies.get(study.cookie, "")
    cookie_owner = study.keys.cookie_owner(cookie)
    person = study.answers.person(cookie_owner) if isinstance(cookie_owner, int) else None
    return None if person is None else Visit(study, person, cookie)


def _invited(request: Request, study: CurrentStudy) -> Visit:
    visit = visit_of(request, study)
    if visit is None:
        raise ProblemError(403, UNKNOWN, f"{study.root}/")
    return visit


Invited = Annotated[Visit, Depends(_invited)]


async def _participant(request: Request, visit: Invited) -> Visit:
    if visit.person.consented is None:
        if request.method == "GET":
            raise RedirectError("/")
        raise ProblemError(403, "You have not agreed to take part yet.", f"{visit.study.root}/")
    return visit


Participant = Annotated[Visit, Depends(_participant)]  # the visit of a person who has agreed to take part


def wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else "unknown"
