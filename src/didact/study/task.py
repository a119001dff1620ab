"""The pages of the steps. Each is answered once, in order."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from didact.study.database import RepeatedError
from didact.study.forms import FormError, is_touched, parse_answer, parse_draft, parse_seconds, whole_number
from didact.study.page_context import task_page
from didact.study.request_context import CurrentStudy, Fields, Participant, ProblemError, Visit, wants_json
from didact.study.schedule import Step

router = APIRouter()


@router.get("/task")
def current(study: CurrentStudy, visit: Participant) -> Response:
    done = visit.done
    return study.redirect("/thanks" if done >= len(visit.steps) else f"/task/{done + 1}")


@router.get("/task/{page}")
def task(study: CurrentStudy, visit: Participant, page: str) -> Response:
    step, done, number = _step(visit, page), visit.done, visit.person.number
    if step.number > done + 1:
        return study.redirect("/task")
    response = study.answers.response(number, step.number)
    if step.phase == "learning" and _is_tested(visit):
        raise ProblemError(403, "The learning part is over. Continue with the test.", f"{study.root}/task")
    if response is None:
        if study.answers.is_closed:
            raise ProblemError(410, "The study takes no more answers. Thank you for those you gave.", f"{study.root}/")
        study.answers.record_view(number, step.number)
    return _shown(visit, step, response=response, next="" if response is None else visit.after(done))


@router.post("/task/{page}")
def answer(request: Request, study: CurrentStudy, fields: Fields, visit: Participant, page: str) -> Response:
    study.check_form(fields, visit.cookie)
    step, done = _step(visit, page), visit.done
    if step.number <= done:
        raise _repeated(visit, step)
    if step.number > done + 1:
        raise ProblemError(403, "This page comes later. Continue where you stopped.", f"{study.root}/task")
    if study.answers.is_closed:
        raise ProblemError(410, "The study takes no more answers. This one came too late.", f"{study.root}/")
    try:
        response, seconds = parse_answer(study.design, step, fields), parse_seconds(fields)
    except FormError as error:
        if wants_json(request):
            raise ProblemError(422, str(error)) from None
        return _shown(visit, step, error=str(error), fields=fields)
    try:
        study.answers.add(visit.person.number, step, response, seconds=seconds, is_touched=is_touched(fields))
    except RepeatedError:
        raise _repeated(visit, step) from None
    next = f"{study.root}/task/{step.number}" if step.phase == "learning" else visit.after(step.number)
    return JSONResponse({"next": next}) if wants_json(request) else RedirectResponse(next, status_code=303)


def _shown(
    visit: Visit,
    step: Step,
    *,
    response: dict[str, Any] | None = None,
    next: str = "",
    error: str = "",
    fields: Mapping[str, str] | None = None,
) -> Response:
    study = visit.study
    stimulus = study.stimuli.items[step.item.id]
    page = task_page(study.design, step, stimulus, len(visit.steps), root=study.root, response=response)
    page |= {"next": next, "error": error}
    if fields is not None:
        page["answer"] = parse_draft(study.design, step, fields)
    return visit.page(f"{study.design.kind}.html", status=422 if error else 200, page=page)


def _step(visit: Visit, page: str) -> Step:
    number = whole_number(page)
    if number is None or not 1 <= number <= len(visit.steps):
        raise ProblemError(404, "You have no such page.", f"{visit.study.root}/task")
    return visit.steps[number - 1]


def _is_tested(visit: Visit) -> bool:
    """True if the person has seen a page of the test. From then on, no explanations are shown."""
    first = next((step.number for step in visit.steps if step.phase == "test"), None)
    return first is not None and visit.study.answers.was_viewed(visit.person.number, first)


def _repeated(visit: Visit, step: Step) -> ProblemError:
    """The error for a second answer. The first answer is kept, and the browser continues."""
    path = f"/task/{step.number}" if step.phase == "learning" else "/task"
    message = "You have answered this page before. That answer is stored; this one is not."
    return ProblemError(409, message, f"{visit.study.root}{path}")
