"""The organiser's page, reached by the organiser's link: progress, times, odd answers, exports."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from didact.study.export import FORMATS, export_answers
from didact.study.progress import overview
from didact.study.request_context import CurrentStudy, Fields, ProblemError, address_of

router = APIRouter()


async def _cookie(request: Request, study: CurrentStudy) -> str:
    cookie = request.cookies.get(study.organiser, "")
    if study.keys.cookie_owner(cookie) != "organiser":
        raise ProblemError(403, "This page is for the organiser. Use the organiser's link.")
    return cookie


Cookie = Annotated[str, Depends(_cookie)]


@router.get("/o/{code}")
def door(request: Request, study: CurrentStudy, code: str) -> Response:
    if not study.keys.is_organiser(code):
        raise ProblemError(study.wrong_code(address_of(request)), "This is not the organiser's link.")
    return study.redirect_with_cookie(study.organiser, "organiser")


@router.get("/organiser")
def organiser(study: CurrentStudy, cookie: Cookie) -> Response:
    exports = [{"name": name, "url": f"{study.root}/organiser/answers.{name}"} for name in ("csv", "json")]
    return study.page(
        "organiser.html", cookie, **overview(study.design, study.answers), is_closed=study.answers.is_closed,
        exports=exports,
    )  # fmt: skip


@router.get("/organiser/answers.{kind}")
def export(study: CurrentStudy, _: Cookie, kind: str) -> Response:
    if kind not in ("csv", "json"):
        raise ProblemError(404, "Answers are exported as csv or json.", f"{study.root}/organiser")
    content = export_answers(study.design, study.answers.read(), kind)
    headers = {"content-disposition": f'attachment; filename="answers.{kind}"'}
    return Response(content, media_type=FORMATS[kind], headers=headers)


@router.post("/organiser/{action}")
def change(study: CurrentStudy, fields: Fields, cookie: Cookie, action: str) -> Response:
    study.check_form(fields, cookie)
    if action not in ("close", "open"):
        raise ProblemError(404, "A study can only be closed or opened.", f"{study.root}/organiser")
    study.answers.set_closed(action == "close")
    return study.redirect("/organiser")
