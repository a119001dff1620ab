"""`didact demo`: from data to a comparison of explanations, in steps that a command can tell about one by one."""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch

from didact import __version__
from didact.core.dataset import Dataset, Split
from didact.core.model import Model, TooLongError
from didact.core.row import Row, fingerprint_of
from didact.core.teacher import Teacher
from didact.data.load import load_data
from didact.errors import DidactError, OptionError
from didact.experiment.compare import compare
from didact.experiment.comparison import Comparison
from didact.experiment.defaults import default_student
from didact.experiment.distil import learn_l2e
from didact.experiment.explain import explain
from didact.experiment.explained import teacher_fingerprint
from didact.experiment.learner import is_learner, parse_learner
from didact.experiment.measure import read_measured
from didact.experiment.subset import subset
from didact.explainers import is_learned
from didact.explainers.l2e import L2E
from didact.explainers.learned import load_explainer
from didact.learning.fit import Training
from didact.learning.l2e import DEFAULTS
from didact.learning.train import train_teacher
from didact.models.load import RECORD, checked_device, load_teacher, read_record
from didact.models.spread import AUTO
from didact.records.explanations import Explanations

log = logging.getLogger(__name__)

FOLDER: Final = Path("runs/demo")
DATA: Final = "planted/sentiment(teach=8000, explain=1000, train=600, dev=200, test=1000)"
TEACHER: Final = "native(layers=2, width=64, heads=4)"
# Verified with seeds 0 to 3. Twelve thousand rows with patience take 45 s, this takes 16 s.
EPOCHS: Final = 4
# How much of somebody's own data is used: a demo is for looking, not for the last digit.
MOST: Final[Mapping[str, int]] = {"explain": 2000, "train": 2000, "dev": 200, "test": 1000}
# Rows below which SMaT has too few to learn from: a batch to teach with, and another to judge by.
_SMAT_ROWS: Final = 64
_SEEDS: Final = 2**24  # of a demo; students' seeds are multiples of it


@dataclass(frozen=True)
class Size:
    """How much a demo does. `students` and their `training` are those of planted data; others get what serves them.

    L2E imitates `imitate` on `imitated` rows; `sharpness` are the temperatures of the row `attention_all(sharpened)`.
    """

    name: str
    explainers: tuple[str, ...]
    students: tuple[str, ...] = ("same/attention",)
    rows: int = 250
    seeds: int = 3
    measured: int = 100
    leave_out: tuple[str, ...] = ()
    sharpness: tuple[float, ...] = (0.5,)
    imitate: str | None = None
    imitated: int = 400
    network: Mapping[str, Any] = field(default_factory=lambda: {"layers": 2, "width": 64})
    l2e: Mapping[str, Any] = field(default_factory=lambda: {"epochs": 10, "learning_rate": 2e-3})
    training: Mapping[str, Any] = field(default_factory=dict)


_FEW: Final = ("gradient_norm", "integrated_gradients", "lime(samples=100)", "attention_all", "smat")
_SHORT: Final = {"epochs": 10}  # instead of 12: on dev most students are at their best by then
SIZES: Final[dict[str, Size]] = {
    "quick": Size(
        "quick", ("gradient_norm", "attention_all"), seeds=1, measured=50, leave_out=("trivial",),
        training=_SHORT,
    ),
    "default": Size(
        "default", _FEW, leave_out=("flattened", "matched"), imitate="lime(samples=100)", training=_SHORT
    ),
    "full": Size(
        "full",
        (
            "gradient_norm", "gradient_input", "integrated_gradients", "lrp", "occlusion", "lime(samples=100)",
            "kernel_shap(samples=200)", "attention_all", "attention_rollout", "smat", "smat(outer=dev)",
        ),
        students=("same/attention", "bilstm_attention/attention"), seeds=8, measured=200,
        sharpness=(1.0, 0.5, 0.2, 0.1), imitate="lime(samples=100)", imitated=1000, network={}, l2e={},
    ),
}  # fmt: skip


class Demo:
    """One demo in its folder. Its steps are `data`, `teacher`, `distil`, `compare`; each uses those before it.

    Without `model` and `data` both are planted. `left_out` tells, by method, why this teacher or this data cannot have
    it. A demo that was stopped goes on when it is called again: what is whole, and of the same seed and version, is
    kept.
    """

    def __init__(
        self,
        size: str = "default",
        *,
        out: str | Path | None = None,
        seed: int = 0,
        model: str | Path | None = None,
        data: str | Path | None = None,
        data_dir: str | Path | None = None,
        task: str | None = None,
        length: int | None = None,
        truncate: bool = False,
        revision: str | None = None,
        trust_remote_code: bool = False,
        device: str | None = None,
        workers: int | None = None,
        progress: bool = False,
    ) -> None:
        self.size, self.seed, self.device, self.workers, self.progress = SIZES[size], seed, device, workers, progress
        self.model, self.source, self.data_dir = model, data, data_dir
        self.reading: dict[str, Any] = {
            "task": task, "max_length": length, "truncate": truncate, "revision": revision,
            "trust_remote_code": trust_remote_code,
        }  # fmt: skip
        self._check()
        self.is_own = model is not None
        self.home = Path(out) if out is not None else _home(data)
        # The report of a plain demo lies where people look for it; the others have folders of their own beside.
        self.folder = self.home if size == "default" else self.home / size
        self.left_out: dict[str, str] = {}
        self.notes: list[str] = []
        self.is_kept = False  # whether the teacher is that of an earlier call

    def _check(self) -> None:
        if (self.model is None) != (self.source is None):
            has, lacks = ("data", "model") if self.model is None else ("model", "data")
            raise OptionError(
                f"--{has} was given without --{lacks}: a demo of your own needs both. Train a model with `didact train "
                "--data D --out T` and give --model T --data D; or leave both out."
            )
        if str(self.model) == "human":
            raise OptionError("The teacher 'human' computes nothing that could be explained. Give a model.")
        if self.model is None and any(self.reading.values()):
            asked = ", ".join(
                f"--{name.replace('max_', '').replace('_', '-')}" for name, value in self.reading.items() if value
            )
            raise OptionError(f"{asked} is about a model of your own: give --model and --data, too.")
        if not 0 <= self.seed < _SEEDS:
            raise OptionError(f"The seed of a demo is from 0 to {_SEEDS:,}, not {self.seed}.")
        if self.device is not None and (self.device != AUTO or self.model is None):  # one's own may be spread
            checked_device(self.device)

    # -- data and teacher ---------------------------------------------------------------------------------------------

    @cached_property
    def data(self) -> Dataset:
        """Planted data, or one's own, of which large splits are cut down."""
        if not self.is_own:
            return load_data(DATA, seed=self.seed)
        loaded = load_data(self.source, data_dir=self.data_dir, seed=self.seed)
        for name in ("train", "dev", "test"):
            if name not in loaded or not len(loaded[name]):
                raise OptionError(f"{loaded.name!r} has no rows in {name!r}, which students need (docs/data.md).")
        cut = {name: _cut(split, MOST.get(name)) for name, split in loaded.items()}
        told = [
            f"{len(cut[name]):,} of {len(loaded[name]):,} in {name!r}"
            for name in cut if name in MOST and len(cut[name]) < len(loaded[name])
        ]  # fmt: skip
        if told:
            self.notes.append(f"Of the rows a demo uses {', '.join(told)}.")
        return replace(loaded, splits=cut)

    @cached_property
    def teacher(self) -> Teacher:
        """One's own model; else the planted teacher, trained now unless this very one lies in the folder."""
        if self.is_own:
            return self._own_teacher()
        folder = self.home / "teacher"
        if self._is_made(folder):
            self.is_kept = True
        else:
            train_teacher(
                self.data, TEACHER, out=folder, overwrite=True, seed=self.seed, epochs=EPOCHS, device=self.device,
                progress=self.progress,
            )  # fmt: skip
        return load_teacher(folder, device=self.device)

    def _own_teacher(self) -> Teacher:
        assert self.model is not None
        found = load_teacher(self.model, device=self.device, **self.reading)
        if found.task != self.data.task:
            raise OptionError(
                f"The data {self.data.name!r} is {self.data.task}, and the model does {found.task}. Give data that fit "
                "it, or say what it does, e.g. --task pair."
            )
        found.predict(self.data["train"].rows[:2])  # what it cannot read is told now
        return found

    def _is_made(self, folder: Path) -> bool:
        """Whether the folder holds this demo's teacher. What no demo made is never overwritten."""
        if not folder.exists():
            return False
        record = read_record(folder) if (folder / RECORD).is_file() else {}
        trained: Mapping[str, Any] = record.get("training") or {}
        about: Mapping[str, Any] = record.get("data") or {}
        if about.get("name") != self.data.name:
            raise OptionError(f"{folder} holds something that no demo made. Choose another folder (--out).")
        wanted = (__version__, TEACHER, self.data.fingerprint, self.seed, EPOCHS)
        made = (record["didact"], record["base"], about["fingerprint"], trained.get("seed"), trained.get("epochs"))
        return wanted == made

    # -- explainers ---------------------------------------------------------------------------------------------------

    @cached_property
    def explainers(self) -> list[str]:
        """The methods that this teacher and this data can have; the others are in `left_out`."""
        if not all(row.rationale is not None for row in self.data["train"]):
            self.left_out["human"] = "not every row has marks of people (rationales)."
        return [method for method in self.size.explainers if not self.is_own or self._is_possible(method)]

    def _is_possible(self, method: str) -> bool:
        rows = self.data["train"].rows[:2]
        if is_learner(method):
            from_dev = parse_learner(method).smat.outer == "dev"
            if self.rows < _SMAT_ROWS or (from_dev and len(self.data["dev"]) < _SMAT_ROWS // 2):
                self.left_out[method] = (
                    f"students see {self.rows} rows, and 'dev' has {len(self.data['dev'])}: too few to learn from."
                )
                return False
        try:
            explain(
                self.teacher, rows, parse_learner(method).explainer() if is_learner(method) else method,
                background_rows=rows,
            )  # fmt: skip
        except TooLongError:
            raise
        except DidactError as error:
            self.left_out[method] = str(error)
            return False
        return True

    @property
    def rows(self) -> int:
        """How many rows a student sees."""
        return min(self.size.rows, len(self.data["train"]))

    def distil(self) -> L2E | None:
        """A fast imitation of a slow method; None where none is wanted, or where it cannot be learned."""
        if self.size.imitate is None:
            return None
        folder = self._l2e
        pool = self._imitated()
        size = min(self.size.imitated, len(pool))
        if folder.exists() and not is_learned(folder):
            raise OptionError(f"{folder} holds something that no demo made. Choose another folder (--out).")
        kept = self._kept_l2e(pool, size)
        if kept is not None:
            return kept
        try:
            return learn_l2e(
                self.teacher, self.data, imitate=self.size.imitate, size=size, seed=self.seed,
                initialisations=1, training=self.size.l2e, out=folder, overwrite=True, progress=self.progress,
                **self.size.network,
            )  # fmt: skip
        except TooLongError:
            raise
        except DidactError as error:
            self.left_out["l2e"] = str(error)
            return None

    @property
    def _l2e(self) -> Path:
        return self.folder / "l2e"

    def _imitated(self) -> Sequence[Row]:
        """The rows that L2E learns from: the split that `learn_l2e` takes."""
        has_own = "explain" in self.data and len(self.data["explain"])
        return self.data["explain" if has_own else "train"].rows

    def _kept_l2e(self, pool: Sequence[Row], size: int) -> L2E | None:
        """What an earlier call learned, if it learned the same."""
        try:
            found = load_explainer(self._l2e)
        except DidactError:
            return None
        rows = [pool[place] for place in subset([row.id for row in pool], size=size, seed=self.seed)]
        training = Training(**{**DEFAULTS, **self.size.l2e}, seed=self.seed).facts()
        wanted = {
            "teacher_fingerprint": teacher_fingerprint(self.teacher, rows), "imitates": [self.size.imitate],
            "rows": [fingerprint_of([row]) for row in rows], "training": training,
        }  # fmt: skip
        if not isinstance(found, L2E) or any(found.learned.get(name) != value for name, value in wanted.items()):
            return None
        return found if all(found.options.get(name) == value for name, value in self.size.network.items()) else None

    # -- the comparison -----------------------------------------------------------------------------------------------

    @property
    def seeds(self) -> list[int]:
        """Those of the students: no two seeds of a demo share one."""
        return list(range(self.seed * self.size.seeds, (self.seed + 1) * self.size.seeds))

    def students(self) -> list[str] | None:
        """Who is taught; None for what `compare` takes."""
        if not self.is_own:
            return list(self.size.students)
        if not self.data.task.is_text:
            return None
        first = default_student(self.teacher, self.data.task, None)
        # Without attention a student of the teacher's kind could not be taught by it.
        is_deaf = first.architecture == "same" and "attention_all" in self.left_out
        others = () if self.data.task.name == "reading" else self.size.students[1:]  # they cannot mark spans
        return list(dict.fromkeys(["native/attention" if is_deaf else str(first), *others]))

    def compare(self) -> Comparison:
        """Students taught with each of the explanations, and the explanations measured by all else."""
        began = time.monotonic()
        methods: list[str | Path] = [*self.explainers]
        if self.size.imitate is not None and "l2e" not in self.left_out:
            methods.append(self._l2e)
        if not methods:
            told = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
            raise OptionError(f"None of the demo's methods can explain this model on these rows. {told}")
        options: dict[str, Any] = {} if self.device is None else {"device": self.device}
        named: dict[str, Any] = {"teacher": self.teacher, "data": self.data}
        if not self.is_own:  # names can be read in the plan, and given to `didact compare`
            named = {"teacher": self.home / "teacher", "data": DATA}
            options |= {"data_seed": self.seed, "training": dict(self.size.training)}
        found = compare(
            **named, explainers=methods, students=self.students(), train_sizes=[self.rows], seeds=self.seeds,
            out=self.folder, workers=self.workers, progress=self.progress, eval_rows=self.size.measured,
            skip_controls=list(self.size.leave_out), temperatures=list(self.size.sharpness), **options,
        )  # fmt: skip
        log.info("compared in %.1f s", time.monotonic() - began)
        return found

    def shown(self, most: int) -> list[Explanations]:
        """The measured explanations of the first rows, one set per method, by their names in the table."""
        document = read_measured(self.folder) or {}
        found = []
        for one in document.get("methods", ()):
            maps = Explanations.load(self.folder / one["file"])
            found.append(replace(maps[:most], method=one["label"], options={}))
        return found


def one_thread(demo: Demo) -> None:
    """Small models are quickest on one thread, and two threads on a busy machine can be ten times slower."""
    if not demo.is_own:
        torch.set_num_threads(1)


def _home(data: str | Path | None) -> Path:
    """Where a demo lives: one's own beside the planted one."""
    if data is None:
        return FOLDER
    name = re.sub(r"[^\w.]+", "-", Path(str(data).partition("(")[0]).name).strip("-.")
    return FOLDER.with_name(f"{FOLDER.name}-{name or 'own'}")


def _cut(split: Split, most: int | None) -> Split:
    """At most so many rows, drawn at random, in their order."""
    if most is None or len(split) <= most:
        return split
    return split.select(sorted(subset(split.ids, size=most, seed=0).tolist()))


def is_verified(teacher: Teacher) -> bool | None:
    """Whether a planted teacher was proven to read the marked words; None where that is not known."""
    record: Mapping[str, Any] = teacher.record if isinstance(teacher, Model) else {}
    found = (record.get("metrics") or {}).get("verified")
    return None if found is None else bool(found)
