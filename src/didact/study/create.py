"""Create a study: choose rows, freeze what people see, invite people."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from didact.errors import DataError, OptionError, ShapeError
from didact.files.atomic import atomic_folder, check_new_folder
from didact.results.documents import plain
from didact.study.about import TITLE, default_about
from didact.study.auth import new_keys, write_private
from didact.study.config import StudyFields, StudyOptions
from didact.study.database import open_answers
from didact.study.design import QUESTIONS, Design, Item
from didact.study.example import example_for
from didact.study.item_sampling import sample_items, sample_simulation_items
from didact.study.links import INVITES, invitations, invitations_csv
from didact.study.stimuli import Stimuli, freeze_stimulus

if TYPE_CHECKING:
    from didact.core.dataset import Dataset
    from didact.core.row import Row
    from didact.results.explanations import Explanations

_LOG = logging.getLogger(__name__)
MAX_RANKED_METHODS: Final = 26  # methods of a ranking: each has a letter on the page
CONSENT: Final = (
    "You are invited to take part in a study about explanations of a machine learning model.",
    "Taking part is voluntary. You can stop at any time, without giving a reason.",
    "We store your answers and how long each page was open, under a code and without your name. "
    "They are used for research and may be published in this form.",
    "You can ask us to delete your answers; send us your code name, which the overview shows.",
)


def new_study(
    explanations: "Sequence[Explanations]",
    data: "Dataset",
    *,
    classes: Sequence[str] | None = None,
    **fields: Unpack[StudyFields],
) -> Path:
    """Write the folder of a study in which people judge or use explanations.

    Args:
        explanations: One set for each method, all of the same rows.
        data: The data set that the rows come from.
        classes: The data's class names in the model's order, if the names differ. Labels are matched by name.
        **fields: The fields of `StudyOptions` (docs/reference/config.md); `out` is required. `kind` is ranking,
            simulation or rating. `annotators` people are invited; in a simulation, that many for each method and for
            the control `none`. Of a simulation's `items`, two thirds are for learning (`learn`), and a share `errors`
            of all are rows that the model gets wrong. `signs` shows colours for and against only if every method has
            signs, because colours would reveal the method otherwise. `about` says what the model does (default: its
            task and classes), and `url` is the address of the study, for the links.

    Returns:
        The folder and what participants will see.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        sets = [didact.explain(teacher, data["test"], name) for name in ("gradient_norm", "gradient_input")]
        didact.new_study(sets, data, kind="ranking", items=4, annotators=2, out="runs/study")
        ```
    """
    return create_study(explanations, data, StudyOptions.of(fields), classes)


def create_study(
    explanations: "Sequence[Explanations]", data: "Dataset", config: StudyOptions, classes: Sequence[str] | None = None
) -> Path:
    """As `new_study`, with validated options: choose rows, write what people see, invite people."""
    if config.out.exists():
        raise OptionError(f"{config.out} exists already, and might hold people's answers. Choose another folder.")
    check_new_folder(config.out)
    methods = _by_method(explanations, config.kind)
    rows = _rows_by_id(data, next(iter(methods.values())).classes, classes, required=config.kind == "simulation")
    candidates = _candidate_items(methods, rows, data.classes)
    design = _design(config, methods, data, candidates)
    with atomic_folder(config.out) as draft:
        draft.chmod(0o700)  # only the owner may read people's answers
        design.save(draft)
        _freeze(design, methods, rows, data, draft)
        _invite(design, config, draft)
    return config.out


def _design(
    config: StudyOptions, methods: "Mapping[str, Explanations]", data: "Dataset", candidates: Sequence[Item]
) -> Design:
    """The design of the study, with items drawn from the candidates."""
    first = next(iter(methods.values()))
    classes = first.classes or data.classes
    is_signed = all(explanation_set.kind == "signed" for explanation_set in methods.values())
    return Design(
        **config.pick("kind", "seed", "points", "pause", "contact"),
        title=config.title or TITLE,
        question=config.question or QUESTIONS[config.kind],
        task=first.task,
        classes=tuple(classes or ()),
        methods=tuple(methods),
        items=tuple(_sample(config, first, candidates)),
        people=config.annotators,
        signs=config.signs == "show" or (config.signs == "auto" and is_signed),
        consent=config.consent or CONSENT,
        about=config.about.strip() or default_about(first.task, classes),
        facts={
            "data": data.name,
            "teacher": first.teacher,
            "methods": {
                name: {"kind": explanation_set.kind, "options": dict(explanation_set.options)}
                for name, explanation_set in methods.items()
            },
            "candidates": len(candidates),
            "url": config.url,
        },
    )


def _sample(config: StudyOptions, first: "Explanations", candidates: Sequence[Item]) -> list[Item]:
    if config.kind != "simulation":
        return sample_items(candidates, count=config.items, seed=config.seed)
    _check_simulation(first, candidates)
    learn = round(config.items * 2 / 3) if config.learn is None else config.learn
    return sample_simulation_items(candidates, count=config.items, learn=learn, **config.pick("errors", "seed"))


def _invite(design: Design, config: StudyOptions, folder: Path) -> None:
    invited = invitations(new_keys(folder), range(1, design.people * len(design.cohorts) + 1))
    with closing(open_answers(folder, design, config.database, is_new=True)) as answers:
        answers.invite(design, invited)
    write_private(folder / INVITES, invitations_csv(invited, config.url))


def _by_method(explanations: "Sequence[Explanations]", kind: str) -> "dict[str, Explanations]":
    """The sets by method name, with options where names repeat. Raises if they cannot form a study."""
    from didact.results.views import method_labels

    if not explanations:
        raise OptionError("A study needs explanations: give at least one file (didact explain … --out FILE).")
    tasks = {explanation_set.task for explanation_set in explanations}
    if len(tasks) > 1:
        raise ShapeError(f"The explanations are of different tasks ({', '.join(sorted(tasks))}). A study has one.")
    names = method_labels(explanations)
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise OptionError(
            f"The same method is given twice: {', '.join(duplicates)}. People would rank it against itself."
        )
    if "none" in names:
        raise OptionError("A method is called 'none', which is the name of the control. Rename it (method=…).")
    if kind == "ranking" and not 2 <= len(names) <= MAX_RANKED_METHODS:
        raise OptionError(
            f"A ranking orders 2 to {MAX_RANKED_METHODS} methods on a page, and {len(names)} "
            f"{'was' if len(names) == 1 else 'were'} given. Give others, or use --kind rating."
        )
    return dict(zip(names, explanations, strict=True))


def _rows_by_id(
    data: "Dataset", model: tuple[str, ...] | None, classes: Sequence[str] | None, *, required: bool
) -> "dict[str, Row]":
    """Rows by id, with labels as indices of the model's classes. Labels that do not fit raise if `required`."""
    from didact.core.classes import align_rows
    from didact.core.dataset import Split

    aligned, note = align_rows(
        Split("all", list(data.iter_rows()), data.classes), model, classes=classes, required=required
    )
    if note is not None:
        _LOG.warning(note)
    rows_by_id: dict[str, Row] = {}
    for row in aligned:
        rows_by_id.setdefault(row.id, row)
    return rows_by_id


def _candidate_items(
    methods: "Mapping[str, Explanations]", rows: "Mapping[str, Row]", classes: tuple[str, ...] | None
) -> list[Item]:
    """Items for the distinct rows that every method explains. Raises if methods explain different answers."""
    indices_by_method = {name: _row_indices(explanation_set) for name, explanation_set in methods.items()}
    first = next(iter(methods.values()))
    shared = [id for id in first.ids if all(id in index_by_id for index_by_id in indices_by_method.values())]
    if not shared:
        sizes = ", ".join(f"{name}: {len(explanation_set)}" for name, explanation_set in methods.items())
        raise DataError(f"No row is explained by every method ({sizes} rows). Explain the same rows with each.")
    first_index_by_id = next(iter(indices_by_method.values()))
    faults: list[str] = []
    items: dict[bytes, Item] = {}  # by content
    for id in shared:
        answers = {
            name: _explained_answer(explanation_set, indices_by_method[name][id])
            for name, explanation_set in methods.items()
        }
        row, index = rows.get(id), first_index_by_id[id]
        if len(set(answers.values())) > 1:
            faults.append(
                f"row {id!r}: {'; '.join(f'{name} explains {explained}' for name, explained in answers.items())}"
            )
        elif row is None or row.texts != first.texts[index]:
            faults.append(f"row {id!r}: the data have {'no such row' if row is None else 'another text'}")
        elif row.content not in items:
            items[row.content] = Item(id, first.predictions[index], _label(row, first.classes or classes))
    if faults:
        raise DataError("The explanations are not of the same answers to these data:", faults)
    return list(items.values())


def _row_indices(explanation_set: "Explanations") -> dict[str, int]:
    return {id: index for index, id in enumerate(explanation_set.ids)}


def _explained_answer(explanation_set: "Explanations", index: int) -> str:
    return f"{explanation_set.targets[index]!r} where the model says {explanation_set.predictions[index]!r}"


def _label(row: "Row", classes: tuple[str, ...] | None) -> str | None:
    """The right answer as a class name of the model."""
    if not isinstance(row.label, int) or isinstance(row.label, bool):
        return None
    return classes[row.label] if classes is not None and row.label < len(classes) else None


def _check_simulation(first: "Explanations", candidates: Sequence[Item]) -> None:
    if first.classes is None:
        raise OptionError(
            f"A simulation study asks people which class the model chooses, but a model of task {first.task!r} "
            "has no classes. Use a ranking or a rating."
        )
    unknown = sorted({item.prediction for item in candidates} - set(first.classes))
    if unknown:
        raise DataError(f"The model's answers {', '.join(map(repr, unknown[:5]))} are not among its classes.")


def _freeze(
    design: Design, methods: "Mapping[str, Explanations]", rows: "Mapping[str, Row]", data: "Dataset", folder: Path
) -> None:
    """Write what people see: `stimuli.json` and pictures."""
    shown_sets = {}
    for name, explanation_set in methods.items():
        index_by_id = _row_indices(explanation_set)
        picked = explanation_set.select([index_by_id[item.id] for item in design.items])
        shown_sets[name] = picked.words() if data.task.is_text else picked
    names = data.segments or data.task.segments
    items = {}
    for index, item in enumerate(design.items):
        views = {name: explanation_set[index] for name, explanation_set in shown_sets.items()}
        items[item.id] = freeze_stimulus(views, rows[item.id].image, names, folder, signs=design.signs)
    Stimuli(items, example_for(design.task, folder)).save(folder)


def study_summary(folder: Path, design: Design) -> dict[str, Any]:
    """The summary that `didact study new` prints."""
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
        "facts": plain(design.facts),
    }
