"""What is to be compared, as people write it: a TOML file, keyword arguments or flags. Faults are told all at once."""

import logging
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any, Final

import torch

from didact.core.explainer import Explainer
from didact.core.precision import SINGLE, check_precision, no_gradients
from didact.data import DATASETS
from didact.errors import DidactError, OptionError, PlanError
from didact.experiment.explain import COMMON, Asked
from didact.experiment.learner import is_learner, parse_learner
from didact.explainers import EXPLAINERS, is_learned
from didact.explainers.build import build_explainer, knows_option
from didact.learning.fit import Training
from didact.limits import MOST_LENGTH, MOST_ROWS, MOST_SEEDS, most_threads, shown
from didact.models import MODELS
from didact.models.load import named_device, usual_device
from didact.models.spread import AUTO
from didact.records.explanations import Explanations
from didact.registry import Spec, check_types, checked_options, parse_spec, plain, unknown
from didact.students import STRATEGIES
from didact.students.build import StudentSpec, alike, build_strategy, parse_student, strategy_options

log = logging.getLogger(__name__)

CONTROLS: Final = ("none", "random", "trivial", "human")
# What `tune` tries for every explainer alike where it is not told otherwise.
TUNED: Final[Mapping[str, Sequence[float]]] = {"temperature": (1.0, 0.5, 0.25), "beta": (1.0, 5.0)}
# The temperatures among which `attention_all(sharpened)` takes the best on dev.
SHARPNESS: Final = (1.0, 0.5, 0.2, 0.1)
# Rows that stand in a table by themselves, and may be left out of it where time is short.
SPARED: Final = ("trivial", "human", "flattened", "matched", "sharpened", "extra")
_TRAINING: Final = ("epochs", "batch_size", "rate", "weight_decay", "warmup", "clip", "schedule", "momentum")
TRUST: Final = "trust_remote_code"
# Entries of older plans, each with the reason why it is gone. They are accepted and ignored.
_CLOSED_FORM: Final = "Intervals and p-values have a closed form."  # docs/decisions/028-one-rule.md
RETIRED: Final[Mapping[str, str]] = {
    "test": _CLOSED_FORM,
    "replicates": _CLOSED_FORM,
    "together": "Every seed is trained by itself.",  # docs/decisions/023-seeds-together.md
}
# How an explainer may be given: by spec, as a file of explanations, as explanations, or as an object.
Method = str | Explainer | Explanations | Callable[..., Any]


@dataclass(frozen=True)
class Plan:
    """Teacher × explainers × students × sizes × seeds, and how students are trained.

    `model` and `data` are names here; objects are handed to `compare` beside the plan. `seeds` are the student seeds;
    a number stands for that many from 0. `tune` gives the values of the strategies' options among which the best on dev
    is taken, for every explainer alike; empty means that nothing is tuned. `training` changes what each kind of student
    is trained with. Explanations are computed with `length`, `truncate` and `task` as the teacher is loaded. So many
    rows of `test` as `measure` says are explained, too, and the explanations measured by all but teaching.
    `sharpness` are the temperatures that a sharpened row may take; with one alone, nothing is chosen. `leave_out` names
    rows that would stand in the table by themselves, and the table says so.
    `precision` is that in which students are trained; the teacher answers and is explained in single, unless
    an explainer's own option says otherwise. `device` is the teacher's and the students'; `auto` spreads the teacher.

    What is left out is chosen when teacher and data are known: `explainers` and `students` that suit the teacher,
    `sizes` that the rows allow, `measure` rows at a size that fits. `train_rows` limits the rows that students' subsets
    are drawn from, `dev_rows` and `test_rows` the rows held out (0: all). `balance` draws rows balanced by the
    teacher's answers; None does so where one answer dominates. `budget` is a ceiling in seconds to which all of this is
    fitted; a fitted plan says in `fitted_from` from which request, and in `left_out` what had to go. `columns` and
    `classes` tell how a file of the user's own is read.
    """

    model: str | None = None
    data: str | None = None
    explainers: tuple[str, ...] = ()
    students: tuple[StudentSpec, ...] = ()
    sizes: tuple[int, ...] = ()
    seeds: tuple[int, ...] = tuple(range(8))
    base: str | None = None
    soft: bool = False
    tune: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    device: str = "cpu"
    task: str | None = None
    length: int | None = None
    truncate: bool = False
    data_dir: str | None = None
    data_seed: int = 0
    revision: str | None = None
    trust_remote_code: bool = False
    measure: int | None = None
    sharpness: tuple[float, ...] = SHARPNESS
    leave_out: tuple[str, ...] = ()
    precision: str = SINGLE
    columns: Mapping[str, str | None] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    train_rows: int | None = None
    dev_rows: int | None = None
    test_rows: int | None = None
    balance: bool | None = None
    budget: float | None = None
    fitted_from: str | None = None
    left_out: tuple[str, ...] = ()

    @property
    def student_device(self) -> str:
        """Where students are: on one device, also where the teacher is spread. Cells and their keys tell this one."""
        return usual_device() if self.device == AUTO else self.device

    def trials(self, strategy: Spec) -> list[dict[str, Any]]:
        """What is tried with this strategy: one set of changes per trial; a single empty one where nothing is tuned."""
        known = strategy_options(strategy)
        grid = {name: values for name, values in self.tune.items() if name in known}
        found = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        return [{name: alike(value, known[name]) for name, value in one.items()} for one in found]

    def to_toml(self) -> str:
        """The plan as a file says it; what was not asked for is left out, and so is what no file may allow."""
        import tomli_w

        return tomli_w.dumps({name: value for name, value in self.entries().items() if name != TRUST})

    def request_text(self) -> str:
        """All entries as TOML: what a fitted plan is known by."""
        import tomli_w

        return tomli_w.dumps(self.entries())

    def entries(self) -> dict[str, Any]:
        """What was asked for, as TOML can hold it."""
        said = {name: value for name, value in asdict(self).items() if value not in (None, (), {})}
        unsaid = {"sharpness": SHARPNESS, "precision": SINGLE}
        said = {name: value for name, value in said.items() if name not in unsaid or value != unsaid[name]}
        if self.columns:  # TOML has no null
            said["columns"] = {role: column or "" for role, column in self.columns.items()}
        if self.students:
            said["students"] = [str(student) for student in self.students]
        said["tune"] = {name: list(values) for name, values in self.tune.items()}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in said.items() if v != {}}


def read_plan(path: Path, *, trust_remote_code: bool = False) -> dict[str, Any]:
    """What a plan file says, not yet checked.

    A file cannot allow code of a model to run: only the caller can, with `trust_remote_code`.
    """
    entries = _read_toml(path)
    if entries.pop(TRUST, False) is not False and not trust_remote_code:
        raise OptionError(
            f"The plan {str(path)!r} asks for trust_remote_code, which runs code that comes with a model. A file "
            "cannot allow that. Read that code; if you trust it, pass --trust-remote-code (trust_remote_code=True)."
        )
    return entries


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise OptionError(
            f"There is no plan {str(path)!r}. A plan is a TOML file; docs/compare.md shows one."
        ) from None
    except RecursionError:
        raise OptionError(f"The plan {str(path)!r} cannot be read as TOML: lists are nested too deeply.") from None
    except (OSError, ValueError) as error:
        raise OptionError(f"The plan {str(path)!r} cannot be read as TOML: {error}") from error


def make_plan(said: Mapping[str, Any], *, objects: Sequence[str] = (), faults: Sequence[str] = ()) -> Plan:
    """A plan of what was said, all of it checked; nothing is loaded.

    `objects` are the entries (model, data) that are handed over beside; `faults` were found elsewhere and are
    reported with those of the plan.
    """
    faults = list(faults)
    known = [one.name for one in fields(Plan)]
    said = _without_retired(_with_training(said))
    for name in said:
        if name not in known:
            faults.append(unknown("entry of a plan", name, known))
    given = {name: plain(value) for name, value in said.items() if name in known and value is not None}
    checks: dict[str, Callable[[Any], Any]] = {
        "explainers": _explainers, "students": _students, "sizes": _sizes, "seeds": _seeds, "tune": _tune,
        "training": _training, "data": _data, "data_seed": _seed,
        **dict.fromkeys(("model", "base", "task", "data_dir", "revision"), _word), "device": _device,
        **dict.fromkeys(("soft", "truncate", "trust_remote_code"), _switch),
        "threads": lambda value: _whole(value, most=most_threads()),
        "length": lambda value: _whole(value, most=MOST_LENGTH),
        **dict.fromkeys(("train_rows", "dev_rows", "measure"), _row_count), "test_rows": _test_rows,
        "sharpness": _sharpness, "leave_out": _leave_out, "precision": _precision, "columns": _columns,
        "classes": lambda value: _each(value, _word, "classes"), "balance": _switch, "budget": _budget,
        "fitted_from": _word, "left_out": lambda value: _each(value, _word, "sentences"),
    }  # fmt: skip
    kept: dict[str, Any] = {}
    for name, value in given.items():
        try:
            kept[name] = checks[name](value) if name in checks else value
        except PlanError as error:
            faults += [f"{name}: {fault}" for fault in error.faults]
        except DidactError as error:
            faults.append(f"{name}: {error}")
    options = [strategy_options(student.strategy) for student in kept.get("students", ())]
    for name in kept.get("tune", {}):
        if options and not any(name in known_here for known_here in options):
            faults.append(f"tune: {name!r} is an option of none of the students' strategies.")
    faults += _too_coarse(kept)
    faults += _unused_base(kept)
    wanted = {"model": "a folder or hub name", "data": "a data set or file"}
    for name, what in wanted.items():
        if said.get(name) is None and name not in objects:
            faults.append(f"{name}: missing; give {what} (--{name}).")
    if faults:
        raise PlanError(f"The plan has {len(faults)} fault{'s' * (len(faults) > 1)}; nothing was loaded:", faults)
    return Plan(**kept)


def _without_retired(said: Mapping[str, Any]) -> dict[str, Any]:
    retired = [name for name in RETIRED if said.get(name) is not None]
    for reason in dict.fromkeys(RETIRED[name] for name in retired):
        names = ", ".join(name for name in retired if RETIRED[name] == reason)
        log.warning("%s: no longer an option of a comparison, and ignored. %s", names, reason)
    return {name: value for name, value in said.items() if name not in RETIRED}


def _with_training(said: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to `training` (epochs, batch_size, …) put there, if it was given beside it, as the flags are."""
    loose = {name: value for name, value in said.items() if name in _TRAINING}
    rest = {name: value for name, value in said.items() if name not in _TRAINING}
    table = rest.get("training") or {}
    return {**rest, "training": {**table, **loose}} if loose and isinstance(table, Mapping) else dict(said)


def check_method(text: str) -> str:
    """The spec of an explainer in its one spelling, if name and options exist; files and folders as they are."""
    if text.endswith(".parquet"):
        if not Path(text).is_file():
            raise OptionError(f"There is no file {text!r} with explanations.")
        return text
    if is_learned(text):
        build_explainer(text)
        return text
    if is_learner(text):
        return parse_learner(text).label
    spec = parse_spec(text)
    EXPLAINERS[spec.name]
    common = {name: value for name, value in spec.options.items() if name in COMMON}
    own = {name: value for name, value in spec.options.items() if name not in COMMON}
    if "level" in common and knows_option(spec.name, "level"):
        own["level"] = common["level"]
    check_types(common, Asked, of="every method")
    precision = Asked(**common).precision
    if precision != SINGLE and EXPLAINERS[spec.name].needs == "gradients":
        raise no_gradients(spec.name, precision)
    build_explainer(spec.name, **own)
    return str(spec)


def _each(values: Any, check: Callable[[Any], Any], kind: str) -> tuple[Any, ...]:
    """Every part checked, every fault told."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise OptionError(f"a list of {kind} is wanted, not {values!r}.")
    found, faults = [], []
    for value in values:
        try:
            found.append(check(plain(value)))
        except DidactError as error:
            faults.append(str(error))
    twice = sorted(name for name, count in Counter(map(str, found)).items() if count > 1)
    faults += [f"{one} is there twice." for one in twice]
    if faults:
        raise PlanError("", faults)
    return tuple(found)


def _explainers(values: Any) -> tuple[str, ...]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise OptionError(f"an explainer is written as its name, not {value!r}.")
        return "none" if value.strip() == "none" else check_method(value)

    return _each(values, check, "explainers")


def _students(values: Any) -> tuple[StudentSpec, ...]:
    def check(value: Any) -> StudentSpec:
        if not isinstance(value, str):
            raise OptionError(f"a student is written architecture/strategy, not {value!r}.")
        student = parse_student(value)
        build_strategy(student.strategy)
        name = student.architecture.partition("(")[0].strip()
        if "(" in student.architecture and name not in MODELS:
            raise OptionError(unknown("architecture with options", name, [*MODELS]))
        if "(" in student.architecture:
            spec = parse_spec(student.architecture)
            own = {option: value for option, value in spec.options.items() if option != "patch"}  # of images
            checked_options(own, MODELS.load(name), of=f"model {name!r}")
        return student

    found = _each(values, check, "students")
    if not found:
        raise OptionError("name at least one, e.g. same/attention.")
    return found


def _sizes(values: Any) -> tuple[int, ...]:
    values = [values] if isinstance(values, int) else values
    found = _each(values, lambda value: _whole(value, most=MOST_ROWS), "sizes")
    if not found:
        raise OptionError("at least one size is needed.")
    return tuple(sorted(found))


def _seeds(values: Any) -> tuple[int, ...]:
    if isinstance(values, int) and not isinstance(values, bool):
        return tuple(range(_whole(values, most=MOST_SEEDS)))
    if isinstance(values, Sequence) and len(values) > MOST_SEEDS:
        raise OptionError(f"at most {MOST_SEEDS:,} seeds are possible, got {len(values):,}.")
    found = _each(values, _seed, "seeds")
    if not found:
        raise OptionError("at least one seed is needed.")
    return found


def _seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise OptionError(f"a seed is a whole number from 0 to 2^31, not {value!r}.")
    return value


def _sharpness(values: Any) -> tuple[float, ...]:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise OptionError(f"a temperature is a number above 0, not {value!r}.")
        return float(value)

    found = _each(values, check, "temperatures")
    if not found:
        raise OptionError("at least one temperature is needed.")
    return found


def _leave_out(values: Any) -> tuple[str, ...]:
    def check(value: Any) -> str:
        if value not in SPARED:
            raise OptionError(unknown("row that can be left out", str(value), list(SPARED)))
        return str(value)

    return _each(values, check, "rows")


def _tune(values: Any) -> dict[str, tuple[Any, ...]]:
    if values is True:
        values = TUNED
    if not values:
        return {}
    if not isinstance(values, Mapping):
        raise OptionError(
            f"a table of options and their values is wanted, e.g. temperature = [1.0, 0.5], not {values!r}."
        )
    faults = []
    known = {name for strategy in STRATEGIES for name in strategy_options(Spec(strategy))}
    for name, choices in values.items():
        if name not in known:
            faults.append(unknown("option of a strategy", name, sorted(known)))
        elif isinstance(choices, str) or not isinstance(choices, Sequence) or not choices:
            faults.append(f"{name} needs a list of values to try, not {choices!r}.")
        else:
            for choice in choices:
                faults += _bad_choice(name, choice)
    if faults:
        raise PlanError("", faults)
    return {name: tuple(choices) for name, choices in values.items()}


def _bad_choice(name: str, value: Any) -> list[str]:
    if _is_endless(value):
        return [f"{name} is tried with numbers, and {value!r} is none."]
    for strategy in STRATEGIES:
        if name in strategy_options(Spec(strategy)):
            try:
                build_strategy(Spec(strategy), **{name: value})
            except DidactError as error:
                return [str(error)]
    return []


def _training(values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise OptionError(f"a table is wanted, e.g. epochs = 12, not {values!r}.")
    faults = [unknown("entry of training", name, list(_TRAINING)) for name in values if name not in _TRAINING]
    given = {name: value for name, value in values.items() if name in _TRAINING and value is not None}
    faults += [f"{name} is a number, and {value!r} is none." for name, value in given.items() if _is_endless(value)]
    good = {}
    for name, value in given.items():
        try:
            check_types({name: value}, Training, of="training")
            good[name] = value
        except DidactError as error:
            faults.append(str(error))
    try:
        Training(**good)
    except DidactError as error:
        faults.append(str(error))
    if faults:
        raise PlanError("", faults)
    return given


def _data(value: Any) -> str:
    name = _word(value)
    if name.partition("(")[0].strip() in DATASETS:
        spec = parse_spec(name)
        checked_options(spec.options, DATASETS.load(spec.name), of=spec.name)
    elif not Path(name).exists() and Path(name).suffix:
        raise OptionError(f"There is no file or folder {name!r}.")
    elif not Path(name).exists():
        raise OptionError(f"{unknown('data set', name, list(DATASETS))} No file or folder of that name exists either.")
    return name


def _word(value: Any) -> str:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise OptionError(f"a name is wanted, not {value!r}.")
    return str(value)


def _device(value: Any) -> str:
    """A device by name, or all there are; whether it is here is asked when the work begins."""
    name = _word(str(value) if isinstance(value, torch.device) else value)
    return name if name == AUTO else str(named_device(name))


def _precision(value: Any) -> str:
    return check_precision(_word(value))


def _too_coarse(kept: Mapping[str, Any]) -> list[str]:
    """What needs single precision, where students are to be trained in another."""
    precision = kept.get("precision", SINGLE)
    if precision == SINGLE:
        return []
    learned = [one for one in kept.get("explainers", ()) if is_learner(one)]
    if not learned:
        return []
    return [f"precision: {', '.join(learned)} is learned through second derivatives, in single alone."]


def _unused_base(kept: Mapping[str, Any]) -> list[str]:
    """A base that no student would start from. Which one is chosen by default is known with the teacher."""
    students = kept.get("students", ())
    if "base" not in kept or not students:
        return []
    if any(one.architecture == "same" or "embeddings" in one.architecture for one in students):
        return []
    names = ", ".join(sorted({one.architecture for one in students}))
    return [
        f"base: no student starts from {kept['base']!r}: {names} is trained from scratch or from weights of its own. "
        f"Leave base out, or name the student same/…, or {kept['base']}/…."
    ]


_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _budget(value: Any) -> float:
    """Seconds from `20m`, `2h`, `90s`, or a number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", str(value).strip().lower())
        written = "".join(number + unit for number, unit in parts)
        if not parts or written != re.sub(r"\s", "", str(value).lower()) or any(u not in _UNITS for _, u in parts):
            raise OptionError(f"a time is written 20m, 2h, 1h30m or 90s, not {value!r}.")
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 1 <= seconds < math.inf:
        raise OptionError(f"a budget is at least a second, not {value!r}.")
    return seconds


def _columns(value: Any) -> dict[str, str | None]:
    if not isinstance(value, Mapping):
        raise OptionError(f'a table of roles and columns is wanted, e.g. text = "comment", not {value!r}.')
    return {str(role): None if column in (None, "") else str(column) for role, column in value.items()}


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"true or false is wanted, not {value!r}.")
    return value


def _is_endless(value: Any) -> bool:
    """inf and nan, which TOML can write and no key can hold."""
    return isinstance(value, float) and not math.isfinite(value)


def _whole(value: Any, *, least: int = 1, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise OptionError(f"must be an integer from {least} to {most:,}, got {shown(value)}.")
    return value


def _row_count(value: Any) -> int:
    """A number of rows; 0 means all or none, as the entry says."""
    return _whole(value, least=0, most=MOST_ROWS)


def _test_rows(value: Any) -> int:
    if value == 1 and not isinstance(value, bool):
        raise OptionError("one test row gives no interval: choose at least 2, or 0 for all.")
    return _row_count(value)
