"""What `didact demo` compares, and what it reuses from earlier calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from didact import __version__
from didact.core.dataset import Dataset
from didact.core.model import TooLongError
from didact.core.row import Row, fingerprint_of
from didact.core.teacher import Teacher
from didact.errors import DidactError, OptionError
from didact.explainers.l2e import L2E
from didact.explainers.learned import load_explainer
from didact.explaining.explain import explain
from didact.learned.l2e import learn_l2e
from didact.learned.smat_spec import is_learner, parse_learner
from didact.models.load import RECORD, read_record

DATA: Final = "planted/sentiment(teach=8000, explain=1000, train=600, dev=200, test=1000)"
TEACHER: Final = "native(layers=2, width=64, heads=4)"
EPOCHS: Final = 4  # takes 16 s; the teacher is verified with seeds 0 to 3
STUDENT: Final[Mapping[str, Any]] = {"epochs": 10}  # instead of 12: most students reach their best dev score earlier
IMITATED: Final = "lime(samples=100)"  # by L2E
# The rows of the user's own data: a demo favours speed over precision.
LIMITS: Final[Mapping[str, int]] = {"train_rows": 2000, "dev_rows": 200, "test_rows": 1000}
_NETWORK: Final[Mapping[str, Any]] = {"layers": 2, "width": 64}  # of L2E
_L2E_TRAINING: Final[Mapping[str, Any]] = {"epochs": 10, "learning_rate": 2e-3}
_SMAT_ROWS: Final = 64  # SMaT needs one batch for the student and another for the outer loss


@dataclass(frozen=True)
class DemoSize:
    """What a demo compares. `students` are for planted data only; L2E learns from `imitated` rows, if any."""

    name: str
    explainers: tuple[str, ...]
    students: tuple[str, ...] = ("same/attention",)
    rows: int = 250
    seeds: int = 3
    eval_rows: int = 100
    skip_controls: tuple[str, ...] = ()
    temperatures: tuple[float, ...] = (0.5,)
    imitated: int = 400


_FEW: Final = ("gradient_norm", "integrated_gradients", IMITATED, "attention_all", "smat")
_MORE: Final = ("gradient_input", "lrp", "occlusion", "kernel_shap(samples=200)", "attention_rollout")
_BOTH: Final = ("same/attention", "bilstm_attention/attention")
SIZES: Final[dict[str, DemoSize]] = {
    "quick": DemoSize("quick", _FEW[:1] + _FEW[3:4], seeds=1, eval_rows=50, skip_controls=("trivial",), imitated=0),
    "default": DemoSize("default", _FEW, skip_controls=("flattened", "matched")),
    "full": DemoSize(
        "full", (*_FEW, *_MORE, "smat(outer=dev)"), _BOTH, seeds=8, eval_rows=200, temperatures=(1.0, 0.5, 0.2, 0.1)
    ),
}


def is_trained(folder: Path, data: Dataset, seed: int) -> bool:
    """True if the folder holds the teacher of this demo. Raises `OptionError` if no demo wrote the folder."""
    if not folder.exists():
        return False
    record = read_record(folder) if (folder / RECORD).is_file() else {}
    training, trained_data = record.get("training") or {}, record.get("data") or {}
    if trained_data.get("name") != data.name:
        raise OptionError(f"{folder} was not written by a demo. Choose another folder (--out).")
    trained_with = (
        record["didact"],
        record["base"],
        trained_data["fingerprint"],
        training.get("seed"),
        training.get("epochs"),
    )
    return trained_with == (__version__, TEACHER, data.fingerprint, seed, EPOCHS)


def possible_methods(
    teacher: Teacher, data: Dataset, methods: Sequence[str], count: int
) -> tuple[list[str], dict[str, str]]:
    """Methods that can explain two rows, for students with `count` rows; and the reason for each of the others."""
    rows, dev = data["train"].rows[:2], len(data["dev"])
    possible: list[str] = []
    left_out: dict[str, str] = {}
    if not all(row.rationale is not None for row in data["train"]):
        left_out["human"] = "not every row has a rationale."
    for method in methods:
        learner = parse_learner(method) if is_learner(method) else None
        needs_dev = learner is not None and learner.smat.outer == "dev"
        if learner is not None and (count < _SMAT_ROWS or (needs_dev and dev < _SMAT_ROWS // 2)):
            left_out[method] = f"students see {count} rows and 'dev' has {dev}, which is too few to learn from."
            continue
        try:
            explain(teacher, rows, method if learner is None else learner.explainer(), background_rows=rows)
            possible.append(method)
        except TooLongError:
            raise
        except DidactError as error:
            left_out[method] = str(error)
    return possible, left_out


def learn_imitation(teacher: Teacher, data: Dataset, folder: Path, size: DemoSize, seed: int) -> L2E:
    """A fast imitation of a slow method: learned now, or by an earlier call with the same teacher, seed and data."""
    rows = (data["explain"] if data.get("explain") else data["train"]).rows
    count = min(size.imitated, len(rows))
    return _load_earlier(folder, teacher, rows, count, seed) or learn_l2e(
        teacher, data, imitate=IMITATED, size=count, seed=seed, initialisations=1, training=_L2E_TRAINING, out=folder,
        overwrite=True, progress=True, **_NETWORK,
    )  # fmt: skip


def _load_earlier(folder: Path, teacher: Teacher, rows: Sequence[Row], count: int, seed: int) -> L2E | None:
    try:
        saved = load_explainer(folder)
    except DidactError:
        return None
    learned = saved.learned
    is_same = (
        learned.get("teacher_fingerprint") == teacher.fingerprint(rows[:1])
        and learned["training"]["seed"] == seed
        and len(learned["rows"]) == count
        and set(learned["rows"]) <= {fingerprint_of([row]) for row in rows}
    )
    return saved if is_same and isinstance(saved, L2E) else None
