"""The values that the templates show. They have letters instead of the names of methods."""

from string import ascii_lowercase
from typing import Any, Final

from didact.core.task import task_named
from didact.study.design import CONTROL, Design
from didact.study.example import GOOD, WEAK
from didact.study.forms import methods_by_code
from didact.study.schedule import Step
from didact.study.stimuli import Stimulus, View

_LEGEND_LEVELS: Final = (1, 4, 7, 10)
_SCALE_LABELS: Final = ("not at all", "completely")


def task_page(
    design: Design, step: Step, stimulus: Stimulus, total: int, *, root: str, response: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The values of a step's page. With a `response`, it is shown; in the learning phase, so is the model's answer."""
    codes = methods_by_code(step)
    is_learning = step.phase == "learning"
    views = [] if is_learning else [_view(stimulus, stimulus.views[method], code) for code, method in codes.items()]
    return {
        **_page_values(design, stimulus, views, root=root),
        "number": step.number,
        "total": total,
        "phase": step.phase,
        "target": "" if design.kind == "simulation" else _target_text(step.item.prediction),
        "is_answered": response is not None,
        "answer": None if response is None else _form_value(design, step, response),
        "feedback": None if response is None or not is_learning else _feedback(step, stimulus, response),
    }


def example_page(design: Design, example: Stimulus, *, root: str, cohort: str = "") -> dict[str, Any]:
    """The values of the example in the instructions. The control cohort sees no explanation there."""
    names = [GOOD] if design.kind == "rating" else [WEAK, GOOD]
    views = [_view(example, example.views[name], code) for name, code in zip(names, ascii_lowercase, strict=False)]
    good = None if cohort == CONTROL else views[-1]
    is_simulation = design.kind == "simulation"
    first, second = task_named(design.task).example
    return {
        **_page_values(design, example, [] if is_simulation else views, root=root, signs=False),
        "phase": {"simulation": "learning"}.get(design.kind, design.kind),
        "target": "" if is_simulation else _target_text(first),
        "choices": [{"value": str(index), "label": name} for index, name in enumerate((first, second))],
        "is_answered": True,
        "answer": {"ranking": {"a": 2, "b": 1}, "simulation": "0", "rating": design.points - 1}[design.kind],
        "feedback": {"model": first, "chosen": first, "is_right": True, "view": good} if is_simulation else None,
    }


def _page_values(
    design: Design, stimulus: Stimulus, views: list[dict[str, Any]], *, root: str, signs: bool | None = None
) -> dict[str, Any]:
    picture = stimulus.picture
    return {
        "number": 1,
        "total": 1,
        "next": f"{root}/task",
        "error": "",
        "question": design.question,
        "texts": [{"name": name, "text": text} for name, text in zip(stimulus.names, stimulus.texts, strict=True)],
        "image": "" if picture is None else f"{root}/image/{picture.file}",
        "alt": "" if picture is None else "The picture that the model was shown",
        "width": 0 if picture is None else picture.width,
        "height": 0 if picture is None else picture.height,
        "views": views,
        "legend": _legend(design.signs if signs is None else signs),
        "choices": [{"value": str(index), "label": name} for index, name in enumerate(design.classes)],
        "points": list(range(1, design.points + 1)),
        "low": _SCALE_LABELS[0],
        "high": _SCALE_LABELS[1],
    }


def _view(stimulus: Stimulus, view: View, code: str) -> dict[str, Any]:
    names = ("x", "y", "width", "height", "look", "opacity")
    return {
        "letter": code.upper(),
        "code": code,
        "texts": [
            {"name": name, "parts": [list(stretch) for stretch in parts]}
            for name, parts in zip(stimulus.names, view.texts, strict=True)
        ],
        "patches": [dict(zip(names, patch, strict=True)) for patch in view.patches],
    }


def _form_value(design: Design, step: Step, response: dict[str, Any]) -> Any:
    if design.kind == "ranking":
        return {code: response["ranks"][method] for code, method in methods_by_code(step).items()}
    return str(design.classes.index(response["choice"])) if design.kind == "simulation" else response["rating"]


def _feedback(step: Step, stimulus: Stimulus, response: dict[str, Any]) -> dict[str, Any]:
    views = [_view(stimulus, stimulus.views[method], code) for code, method in methods_by_code(step).items()]
    return {
        "model": step.item.prediction,
        "chosen": response["choice"],
        "is_right": response["choice"] == step.item.prediction,
        "view": views[0] if views else None,
    }


def _legend(signs: bool) -> list[dict[str, Any]]:
    if not signs:
        return [
            {
                "look": [f"strength{step}" for step in _LEGEND_LEVELS],
                "before": "less important",
                "after": "more important",
            }
        ]
    looks = [f"against{step}" for step in reversed(_LEGEND_LEVELS)] + [f"for{step}" for step in _LEGEND_LEVELS]
    return [{"look": looks, "before": "against the answer", "after": "for the answer"}]


def _target_text(prediction: str) -> str:
    return f"the answer “{prediction}”" if prediction else ""
