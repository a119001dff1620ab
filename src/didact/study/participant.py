"""The participants' pages around the tasks: invitation, consent, instructions, overview, breaks, thanks."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from didact.study.page_context import example_page
from didact.study.request_context import (
    CurrentStudy,
    Fields,
    Invited,
    Participant,
    ProblemError,
    address_of,
    visit_of,
)
from didact.study.schedule import Step

router = APIRouter()


@router.get("/")
def home(request: Request, study: CurrentStudy) -> Response:
    visit = visit_of(request, study)
    if visit is None:
        return study.page("welcome.html", error="")
    steps, person, design = visit.steps, visit.person, study.design
    if person.consented is None:
        return visit.page(
            "consent.html", paragraphs=design.consent, pages=len(steps), minutes=study.minutes(len(steps), []),
            contact=design.contact,
        )  # fmt: skip
    done = visit.done
    if done >= len(steps):
        return study.redirect("/thanks")
    return visit.page(
        "dashboard.html", phases=_phases(steps, done), done=done, total=len(steps),
        minutes_left=study.minutes(len(steps) - done, study.answers.seconds(person.number)),
        is_closed=study.answers.is_closed, person=person.id,
    )  # fmt: skip


@router.get("/i/{code}")
def invited(request: Request, study: CurrentStudy, code: str) -> Response:
    return study.enter(code, address_of(request))


@router.post("/enter")
def enter(request: Request, study: CurrentStudy, fields: Fields) -> Response:
    origin = request.headers.get("origin")
    scheme = "https" if study.is_secure else request.scope["scheme"]
    if origin is not None and origin != f"{scheme}://{request.headers.get('host')}":
        raise ProblemError(403, _foreign_form(origin, scheme, request.headers.get("host")), f"{study.root}/")
    return study.enter(fields.get("code", "").strip().rsplit("/", 1)[-1], address_of(request))


@router.post("/consent")
def consent(study: CurrentStudy, fields: Fields, visit: Invited) -> Response:
    study.check_form(fields, visit.cookie)
    if fields.get("agree") != "yes":
        raise ProblemError(422, "You can take part only if you agree.", f"{study.root}/")
    study.answers.consent(visit.person.number)
    return study.redirect("/instructions")


@router.get("/instructions")
def instructions(study: CurrentStudy, visit: Participant) -> Response:
    design = study.design
    keys = len(design.classes) if design.kind == "simulation" else design.points  # answers that number keys choose from
    return visit.page(
        "instructions.html", kind=design.kind, question=design.question, pause=design.pause, keys=keys,
        example=example_page(design, study.stimuli.example, root=study.root, cohort=visit.person.cohort),
    )  # fmt: skip


@router.get("/break")
def pause(study: CurrentStudy, visit: Participant) -> Response:
    return study.page("break.html", done=visit.done, total=len(visit.steps), next=f"{study.root}/task")


@router.get("/thanks")
def thanks(study: CurrentStudy, visit: Participant) -> Response:
    done, total = visit.done, len(visit.steps)
    if done < total:
        return study.redirect("/")
    return study.page("thanks.html", done=done, total=total, contact=study.design.contact, person=visit.person.id)


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


def _foreign_form(origin: str, scheme: str, host: str | None) -> str:
    """Why a study at `scheme` and `host` refuses a form with this Origin. The text never contains the Origin."""
    if (origin, scheme) == (f"https://{host}", "http"):
        return (
            "You use https, but the study was started for http. Organiser: behind a server with https, start it with "
            "`didact study serve STUDY --proxy HOST --https`."
        )
    if (origin, scheme) == (f"http://{host}", "https"):
        return "You use http, but the study is served by https. Open its address with https:// in front."
    return "This form is not from this study."
