"""A new study: rows are chosen, what is shown is frozen, people are invited."""

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from didact.errors import DataError, OptionError, ShapeError
from didact.files.atomic import check_new_folder, new_folder
from didact.registry import unknown
from didact.study.about import TITLE, default_about
from didact.study.database import open_answers
from didact.study.design import KINDS, QUESTIONS, Design, Item, check_text
from didact.study.example import example_for
from didact.study.guard import new_keys, write_private
from didact.study.invitations import INVITES, invitations, listed
from didact.study.items import chosen, chosen_for_simulation
from didact.study.stimuli import Stimuli, frozen

if TYPE_CHECKING:
    from didact.core.dataset import Dataset
    from didact.core.row import Row
    from didact.results.explanations import Explanations

_LOG = logging.getLogger(__name__)
MOST: Final = 26  # methods of a ranking: each has a letter on the page
SIGNS: Final = ("auto", "show", "hide")
CONSENT: Final = (
    "You are invited to take part in a study about explanations of a machine learning model.",
    "Taking part is voluntary. You can stop at any time, without giving a reason.",
    "We store your answers and how long each page was open, under a code and without your name. "
    "They are used for research and may be published in this form.",
    "You can ask for your answers to be deleted; tell us your code name, which the overview shows.",
)


def new_study(
    explanations: "Sequence[Explanations]",
    data: "Dataset",
    *,
    out: Path | str,
    kind: str = "ranking",
    items: int = 60,
    annotators: int = 3,
    learn: int | None = None,
    errors: float = 0.5,
    points: int = 5,
    pause: int = 20,
    signs: str = "auto",
    title: str = "",
    question: str = "",
    about: str = "",
    consent: Sequence[str] = (),
    contact: str = "",
    seed: int = 0,
    url: str = "http://127.0.0.1:8000",
    database: str | None = None,
    classes: Sequence[str] | None = None,
) -> Path:
    """Write the folder of a study about how people judge `explanations`: one set for each method, of the same rows.

    `annotators` are the people who are invited; in a simulation so many for each method and for the control `none`. Of
    a simulation's `items` two thirds are to learn from (`learn`), and a share `errors` of all are rows that the model
    has wrong. Colours tell for from against (`signs`) only if every method does: else colours would tell the methods
    apart. `about` tells participants what the model does; by default its task and classes. `url` is where the study
    will be served, for the links. Labels are matched to the model's classes by name; `classes` names the data's
    classes in the model's order, where the names differ.
    """
    folder = Path(out)
    if folder.exists():
        raise OptionError(f"{folder} exists already, and might hold people's answers. Choose another folder.")
    check_new_folder(folder)
    _check_options(kind, items, annotators, errors, points, pause, signs)
    for name, text in {"title": title, "question": question, "about": about, "contact": contact, "url": url}.items():
        check_text(name, text)
    check_text("consent", *consent)
    named = _named(explanations)
    if kind == "ranking" and not 2 <= len(named) <= MOST:
        raise OptionError(
            f"A ranking orders 2 to {MOST} methods on a page, and {len(named)} "
            f"{'was' if len(named) == 1 else 'were'} given. Give others, or ask for marks (--kind rating)."
        )
    rows = _rows(data, next(iter(named.values())).classes, classes, required=kind == "simulation")
    candidates = _candidates(named, rows, data.classes)
    if kind == "simulation":
        _check_simulation(named, candidates)
        learned = round(items * 2 / 3) if learn is None else learn
        picked = chosen_for_simulation(candidates, count=items, learn=learned, errors=errors, seed=seed)
    else:
        picked = chosen(candidates, count=items, seed=seed)
    first = next(iter(named.values()))
    design = Design(
        kind=kind,
        title=title or TITLE,
        question=question or QUESTIONS[kind],
        task=first.task,
        classes=tuple(first.classes or data.classes or ()),
        methods=tuple(named),
        items=tuple(picked),
        people=annotators,
        seed=seed,
        points=points,
        pause=pause,
        signs=signs == "show" or (signs == "auto" and all(maps.kind == "signed" for maps in named.values())),
        contact=contact,
        consent=tuple(consent) or CONSENT,
        about=about.strip() or default_about(first.task, first.classes or data.classes),
        facts={
            "data": data.name,
            "teacher": first.teacher,
            "methods": {name: {"kind": maps.kind, "options": dict(maps.options)} for name, maps in named.items()},
            "candidates": len(candidates),
            "url": url,
        },
    )
    with new_folder(folder) as draft:
        draft.chmod(0o700)  # people's answers are nobody else's
        design.save(draft)
        _freeze(design, named, rows, data, draft)
        keys = new_keys(draft)
        answers = open_answers(draft, design, database, is_new=True)
        try:
            invited = invitations(design, keys, range(1, annotators * len(design.cohorts) + 1))
            answers.invite(design, [(one.number, one.code) for one in invited])
        finally:
            answers.close()
        write_private(draft / INVITES, listed(invited, url))
    return folder


def _check_options(kind: str, items: int, annotators: int, errors: float, points: int, pause: int, signs: str) -> None:
    """All that is wrong with the numbers, before anything is read."""
    faults = []
    if kind not in KINDS:
        raise OptionError(unknown("kind of study", kind, KINDS))
    if signs not in SIGNS:
        faults.append(unknown("choice of signs", signs, SIGNS))
    if items < 1 or annotators < 1:
        faults.append(f"A study has at least 1 item and 1 annotator, not {items} and {annotators}.")
    if not 0 <= errors <= 1:
        faults.append(f"errors is the share of rows that the model has wrong, between 0 and 1, not {errors}.")
    if not 2 <= points <= 9:
        faults.append(f"A rating has 2 to 9 points, not {points}.")
    if pause < 0:
        faults.append(f"A break comes after so many answers, or never with 0, not after {pause}.")
    if faults:
        raise OptionError(" ".join(faults))


def _named(explanations: "Sequence[Explanations]") -> "dict[str, Explanations]":
    """Each set under its method's name, with the options in which namesakes differ. All are of one model's answers."""
    from didact.results.views import labels

    if not explanations:
        raise OptionError("A study is about explanations: give at least one file (didact explain … --out FILE).")
    tasks = {maps.task for maps in explanations}
    if len(tasks) > 1:
        raise ShapeError(f"The explanations are of different tasks ({', '.join(sorted(tasks))}). A study has one.")
    names = labels(explanations)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise OptionError(f"The same method is given twice: {', '.join(twice)}. People would rank it against itself.")
    if "none" in names:
        raise OptionError("A method is called 'none', which is the name of the control. Rename it (method=…).")
    return dict(zip(names, explanations, strict=True))


def _rows(
    data: "Dataset", model: tuple[str, ...] | None, classes: Sequence[str] | None, *, required: bool
) -> "dict[str, Row]":
    """Rows by id, with labels as indices of the model's classes. Labels that do not fit count only in a simulation."""
    from didact.core.classes import align_rows
    from didact.core.dataset import Split

    aligned, note = align_rows(
        Split("all", list(data.every_row()), data.classes), model, classes=classes, required=required
    )
    if note is not None:
        _LOG.warning(note)
    found: dict[str, Row] = {}
    for row in aligned:
        found.setdefault(row.id, row)
    return found


def _candidates(
    named: "Mapping[str, Explanations]", rows: "Mapping[str, Row]", classes: tuple[str, ...] | None
) -> list[Item]:
    """The different rows that every method explains, with the model's answer; all must explain the same answer."""
    places = {name: {id: place for place, id in enumerate(maps.ids)} for name, maps in named.items()}
    first, *others = named
    shared = [id for id in named[first].ids if all(id in places[name] for name in others)]
    if not shared:
        sizes = ", ".join(f"{name}: {len(maps)}" for name, maps in named.items())
        raise DataError(f"No row is explained by every method ({sizes} rows). Explain the same rows with each.")
    faults = []
    found, seen = [], set()
    for id in shared:
        told = {name: _facts(maps, places[name][id]) for name, maps in named.items()}
        row = rows.get(id)
        if len(set(told.values())) > 1:
            faults.append(f"row {id!r}: {'; '.join(f'{name} explains {what}' for name, what in told.items())}")
        elif row is None or row.texts != named[first].texts[places[first][id]]:
            faults.append(f"row {id!r}: the data have {'no such row' if row is None else 'another text'}")
        elif row.content not in seen:
            seen.add(row.content)
            maps = named[first]
            found.append(Item(id, maps.predictions[places[first][id]], _label(row, maps.classes or classes)))
    if faults:
        raise DataError("The explanations are not of the same answers to these data:", faults)
    return found


def _facts(maps: "Explanations", place: int) -> str:
    target, prediction = maps.targets[place], maps.predictions[place]
    return f"{target!r} where the model says {prediction!r}"


def _label(row: "Row", classes: tuple[str, ...] | None) -> str | None:
    """The right answer in the model's words."""
    if not isinstance(row.label, int) or isinstance(row.label, bool):
        return None
    return classes[row.label] if classes is not None and row.label < len(classes) else None


def _check_simulation(named: "Mapping[str, Explanations]", candidates: Sequence[Item]) -> None:
    first = next(iter(named.values()))
    if first.classes is None:
        raise OptionError(
            f"A simulation study asks people which class the model chooses, and a model of task {first.task!r} has "
            "none. Use a ranking or a rating."
        )
    strange = sorted({item.prediction for item in candidates} - set(first.classes))
    if strange:
        raise DataError(f"The model's answers {', '.join(map(repr, strange[:5]))} are none of its classes.")


def _freeze(
    design: Design, named: "Mapping[str, Explanations]", rows: "Mapping[str, Row]", data: "Dataset", folder: Path
) -> None:
    names = data.segments or data.task.segments
    places = {name: {id: place for place, id in enumerate(maps.ids)} for name, maps in named.items()}
    is_text = data.task.is_text
    shown = {
        name: (picked.words() if is_text else picked)
        for name, maps in named.items()
        for picked in [maps.select([places[name][item.id] for item in design.items])]
    }
    items = {}
    for place, item in enumerate(design.items):
        row = rows[item.id]
        views = {name: maps[place] for name, maps in shown.items()}
        items[item.id] = frozen(views, row.image, names, folder, signs=design.signs)
    Stimuli(items, example_for(design.task, folder)).save(folder)


def facts_of(folder: Path, design: Design) -> dict[str, Any]:
    """What `didact study new` tells: the study in numbers."""
    errors = Counter(item.is_error for item in design.items)
    return {
        "out": str(folder),
        "kind": design.kind,
        "methods": list(design.methods),
        "items": len(design.items),
        "answers": dict(Counter(item.prediction for item in design.items)) if design.classes else None,
        "errors": errors[True] if None not in errors else None,
        "people": design.people * len(design.cohorts),
        "cohorts": [cohort for cohort in design.cohorts if cohort],
        "invites": str(folder / INVITES),
        "signs": design.signs,
        "about": design.about,
        "seed": design.seed,
        "facts": json.loads(json.dumps(dict(design.facts))),
    }
