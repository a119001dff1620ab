"""The options of the commands that explain, evaluate and learn explainers: one class per command."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from didact.config import Config, DataOptions, Group, ModelOptions, Option, TrainingOptions
from didact.field_types import BatchSize, Count, Epochs, Integer, Name, Names, Positive, Seed, Switch, Threads
from didact.limits import MAX_ROWS
from didact.registry import parse_spec, split_list


def parse_options(text: str) -> dict[str, object]:
    """Parse `name=value,name=value`, as in the brackets of a spec."""
    return dict(parse_spec(f"options({text})").options)


class ExplainingOptions(Config):
    """Options of explaining that commands share. If unset, the preset or the method decides."""

    batch_size: Annotated[BatchSize | None, Option(Group.ADVANCED, "N")] = None
    """Perturbed rows per forward pass (default: 64)."""
    seed: Annotated[Seed | None, Option(Group.ADVANCED, "N")] = None
    """Seed of random draws and planted data (default: 0)."""


class ExplainConfig(ExplainingOptions, DataOptions, ModelOptions):
    """The options of `didact explain`. Options of methods have the names of the arguments of `didact.explain`."""

    texts: Annotated[tuple[str, ...], Option(Group.DATA, "TEXT", repeatable=True, is_argument=True)] = ()
    """Texts to explain; two per row for a model of pairs."""
    model: Annotated[Name, Option(Group.MODEL, "MODEL")]
    """Folder or hub name of the model (required)."""
    data: Annotated[Name | None, Option(Group.DATA, "DATA")] = None  # type: ignore[assignment]
    """A file, or a name from `didact data list`; with --stream also owner/name on the hub."""
    split: Annotated[Name | None, Option(Group.DATA, "SPLIT")] = None
    """teach, explain, train, dev, test, all, or a split on the hub (default: all rows of a file, else test)."""
    rows: Annotated[Count | None, Option(Group.DATA, "N")] = None
    """Use only the first N rows."""
    background: Annotated[Name | None, Option(Group.DATA, "DATA")] = None
    """Background rows of SHAP methods (default: --data)."""
    method: Annotated[Names, Option(Group.METHOD, "NAMES", split_list)] = ()
    """Names from `didact methods`, or folders of learned explainers (default: lrp if its scores add up, else
    integrated_gradients)."""
    target: Annotated[Name | None, Option(Group.METHOD, "TARGET")] = None
    """Answer to explain: predicted (default), gold, contrast, a class or all."""
    scale: Annotated[Name | None, Option(Group.METHOD, "SCALE")] = None
    """logit (default), probability or log_probability."""
    level: Annotated[Name | None, Option(Group.METHOD, "LEVEL")] = None
    """token or word (default: score tokens, show words)."""
    special: Annotated[Switch | None, Option(Group.METHOD, flag="--special/--no-special")] = None
    """Score special tokens (default: --no-special)."""
    absolute: Annotated[Switch | None, Option(Group.METHOD, flag="--absolute/--signed")] = None
    """Absolute scores, or scores with signs (default: --signed)."""
    normalise: Annotated[Name | None, Option(Group.METHOD, "HOW")] = None
    """raw (default), softmax(temperature=1) or top(k=0.1)."""
    preset: Annotated[Name | None, Option(Group.METHOD, "NAME")] = None
    """Settings of a paper: pruthi, smat, l2e or neely."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FILE")] = None
    """Write the scores to a Parquet file."""
    html: Annotated[Path | None, Option(Group.OUTPUT, "FILE")] = None
    """Write a page with heat maps."""
    overwrite: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Replace files that exist."""
    summary: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Print the words with the highest scores per class."""
    stream: Annotated[Switch, Option(Group.ADVANCED)] = False
    """Explain data larger than memory, shard by shard."""
    shard: Annotated[Count | None, Option(Group.ADVANCED, "N")] = None
    """Rows per shard with --stream (default: 256)."""
    workers: Annotated[Annotated[int, Integer(0, 10_000)] | None, Option(Group.ADVANCED, "N")] = None
    """Worker processes with --stream (default: 0)."""
    precision: Annotated[Name | None, Option(Group.ADVANCED, "NAME")] = None
    """single (default), bfloat16 or float16."""
    threads: Annotated[Threads | None, Option(Group.ADVANCED, "N")] = None
    """CPU threads (with --stream: per process, default 1). Another number changes the last digits."""

    def method_options(self) -> dict[str, Any]:
        """The options of the method that were set. A preset may set the others."""
        names = ("target", "scale", "level", "special", "absolute", "normalise", "batch_size", "seed", "precision")
        return {name: value for name, value in self.pick(*names).items() if value is not None}


class MetricsConfig(DataOptions, ModelOptions):
    """The options of `didact metrics`. Options of metrics have the names of the arguments of `didact.evaluate`."""

    RENAMED: ClassVar[Mapping[str, str]] = {"remove": "replace"}

    files: Annotated[tuple[Path, ...], Option(Group.DATA, "FILE", repeatable=True, is_argument=True)] = ()
    """Files of explanations (other tools: with --data)."""
    explanations: Annotated[tuple[Path, ...], Option(Group.DATA, "FILE", repeatable=True)] = ()
    """The same as FILE (repeatable)."""
    model: Annotated[Name | None, Option(Group.MODEL, "MODEL")] = None  # type: ignore[assignment]
    """Folder or hub name of the model, for faithfulness."""
    data: Annotated[Name | None, Option(Group.DATA, "DATA")] = None  # type: ignore[assignment]
    """The explained data, for plausibility."""
    split: Annotated[Name | None, Option(Group.DATA, "SPLIT")] = None
    """Split of the data, if ids occur in several splits."""
    metrics: Annotated[Names, Option(Group.METHOD, "NAMES", split_list)] = ()
    """Comma-separated names (default: all cheap ones that apply)."""
    replace: Annotated[Name | None, Option(Group.METHOD, "HOW")] = None
    """Replace units by mask (default), delete, pad or zero."""
    preset: Annotated[Name | None, Option(Group.METHOD, "NAME")] = None
    """Replacement of a paper: eraser (delete), l2e (mask)."""
    level: Annotated[Name | None, Option(Group.METHOD, "LEVEL")] = None
    """token, or word to join pieces of words first (default: as in the files)."""
    encoder: Annotated[Name | None, Option(Group.METHOD, "MODEL")] = None
    """Model to find similar rows with (default: --model)."""
    control: Annotated[Switch, Option(Group.METHOD, flag="--control/--no-control")] = True
    """Add random scores as a control."""
    tests: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Also test the difference of each pair of methods."""
    seed: Annotated[Seed, Option(Group.ADVANCED, "N")] = 0
    """Seed of control and planted data."""
    batch_size: Annotated[BatchSize, Option(Group.ADVANCED, "N")] = 64
    """Perturbed rows per forward pass."""


class AgreeConfig(ExplainingOptions, DataOptions, ModelOptions):
    """The options of `didact agree`."""

    files: Annotated[tuple[Path, ...], Option(Group.DATA, "FILE", repeatable=True, is_argument=True)] = ()
    """Files of explanations (other tools: with --data)."""
    measure: Annotated[Names, Option(Group.STATISTICS, "NAMES", split_list)] = ("kendall",)
    """kendall (default), spearman, pearson, weighted_tau, top_overlap(k=0.1), top_tau(k=0.1), sign,
    or (with --model) prediction(k=0.3, replace=mask)."""
    by: Annotated[Name, Option(Group.STATISTICS, "WHAT")] = "auto"
    """Scores to compare: size (absolute), signed, or auto: as usual for the measure (default)."""
    level: Annotated[Name | None, Option(Group.STATISTICS, "LEVEL")] = None
    """token, or word to join pieces of words first (default: as in the files)."""
    each: Annotated[Name | None, Option(Group.STATISTICS, "PART")] = None
    """Also show agreement by task, group (teacher) or length."""
    together: Annotated[Switch, Option(Group.STATISTICS)] = False
    """Compare explanations of different teachers, too."""
    model: Annotated[Name | None, Option(Group.MODEL, "MODEL")] = None  # type: ignore[assignment]
    """Model to explain with --methods, or for prediction."""
    data: Annotated[Name | None, Option(Group.DATA, "DATA")] = None  # type: ignore[assignment]
    """Data to explain, or that files of other tools explain."""
    split: Annotated[Name | None, Option(Group.DATA, "SPLIT")] = None
    """teach, explain, train, dev, test or all (default with --methods: all rows of a file, else test)."""
    rows: Annotated[Count | None, Option(Group.DATA, "N")] = None
    """Use only the first N rows."""
    methods: Annotated[Names, Option(Group.METHOD, "NAMES", split_list)] = ()
    """Methods to explain with; see `didact methods`."""
    preset: Annotated[Name | None, Option(Group.METHOD, "NAME")] = None
    """Settings of a paper: pruthi, smat, l2e or neely."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FILE")] = None
    """Draw a heat map: .png, .svg or .html."""
    overwrite: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Replace files that exist."""


class SanityConfig(DataOptions, ModelOptions):
    """The options of `didact sanity`, with the names of the arguments of `didact.sanity`."""

    split: Annotated[Name, Option(Group.DATA, "SPLIT")] = "test"
    """teach, explain, train, dev or test."""
    rows: Annotated[Annotated[int, Integer(2, MAX_ROWS)], Option(Group.DATA, "N")] = 100
    """Use only the first N rows."""
    methods: Annotated[
        Names,
        Option(
            Group.METHOD, "NAMES", split_list, default="gradient_input, integrated_gradients, occlusion, attention_all"
        ),
    ] = ("gradient_input", "integrated_gradients", "occlusion", "attention_all")
    """Names from `didact methods`."""
    checks: Annotated[Names, Option(Group.METHOD, "NAMES", split_list)] = ()
    """weights, trivial, labels (default: all but labels)."""
    epochs: Annotated[Epochs | None, Option(Group.ADVANCED, "N")] = None
    """Epochs of the model trained on shuffled labels."""
    seed: Annotated[Seed, Option(Group.ADVANCED, "N")] = 0
    """Seed of random draws and planted data."""


class CostConfig(DataOptions, ModelOptions):
    """The options of `didact cost`."""

    split: Annotated[Name | None, Option(Group.DATA, "SPLIT")] = None
    """teach, explain, train, dev, test or all (default: all rows of a file, else test)."""
    rows: Annotated[Count, Option(Group.DATA, "N")] = 32
    """Use only the first N rows."""
    methods: Annotated[
        Names,
        Option(
            Group.METHOD,
            "NAMES",
            split_list,
            default="gradient_input, integrated_gradients, occlusion, lime, kernel_shap",
        ),
    ] = ("gradient_input", "integrated_gradients", "occlusion", "lime", "kernel_shap")
    """Names from `didact methods`."""
    batch_size: Annotated[BatchSize | None, Option(Group.ADVANCED, "N")] = None
    """Perturbed rows per forward pass (default: 64)."""
    seed: Annotated[Seed, Option(Group.ADVANCED, "N")] = 0
    """Seed of planted data."""


class LearnOptions(TrainingOptions, DataOptions, ModelOptions):
    """Options that both learned explainers share."""

    data_seed: Annotated[Seed, Option(Group.DATA, "N")] = 0
    """Seed of planted data."""
    device: Annotated[Name | None, Option(Group.MODEL, "DEVICE")] = None
    """cpu (default), cuda, mps, or auto (training uses one GPU)."""
    seed: Annotated[Seed, Option(Group.TRAINING, "N")] = 0
    """Seed of rows, weights and order."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Folder for the explainer; subclasses name the default."""
    overwrite: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Replace the folder if didact made it."""
    threads: Annotated[Threads | None, Option(Group.ADVANCED, "N")] = None
    """CPU threads (another number changes the weights)."""


class SmatConfig(LearnOptions):
    """The options of `didact learn smat`, with the names of the arguments of `didact.learn_smat`."""

    family: Annotated[Name, Option(Group.METHOD, "NAME")] = "attention_mix"
    """attention_mix (default), gradient_mix or blend."""
    options: Annotated[dict[str, Any], Option(Group.METHOD, "NAME=VALUE", parse_options)] = {}  # noqa: RUF012
    """Other options of the explainer: normaliser=softmax or members='lime + occlusion'."""
    student: Annotated[Name | None, Option(Group.TRAINING, "NAME")] = None
    """architecture/attention (default: suits the model)."""
    base: Annotated[Name | None, Option(Group.TRAINING, "MODEL")] = None
    """Pretrained model that students start from."""
    size: Annotated[Count, Option(Group.TRAINING, "N")] = 500
    """Number of rows to learn from."""
    epochs: Annotated[Epochs | None, Option(Group.TRAINING, "N")] = None
    """Epochs of a student."""
    learning_rate: Annotated[Positive | None, Option(Group.TRAINING, "RATE")] = None
    """Learning rate of a student."""
    outer: Annotated[Name, Option(Group.TRAINING, "SPLIT")] = "train"
    """Split of the outer loss: train or dev."""
    outer_rate: Annotated[float | None, Option(Group.TRAINING, "RATE")] = None
    """Learning rate of the explainer (default: 0.04 divided by the number of components)."""
    outer_batch: Annotated[int | None, Option(Group.TRAINING, "N")] = None
    """Rows in each outer step (default: --batch-size)."""
    pilot: Annotated[Switch, Option(Group.TRAINING, flag="--pilot/--no-pilot")] = True
    """Use the paper's look-ahead step."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Folder for the explainer (default: runs/smat-DATA)."""

    def learner(self) -> dict[str, Any]:
        """The family and the options that differ from their defaults. `options` may override the family."""
        names = ("outer", "outer_rate", "outer_batch", "pilot")
        changed = {name: value for name, value in self.pick(*names).items() if value != self.default(name)}
        return {"family": self.family, **self.options, **changed}


class L2eConfig(LearnOptions):
    """The options of `didact learn l2e`, with the names of the arguments of `didact.learn_l2e`."""

    imitate: Annotated[Names, Option(Group.METHOD, "NAMES", split_list, default="kernel_shap")] = ("kernel_shap",)
    """Methods, folders or files."""
    formulation: Annotated[Name, Option(Group.METHOD, "NAME")] = "labelling"
    """labelling, ranking or regression."""
    combine: Annotated[Name, Option(Group.METHOD, "HOW")] = "ranks"
    """Several methods: ranks (mean rank; default) or heads."""
    preset: Annotated[Name, Option(Group.METHOD, "NAME", default="-")] = "default"
    """default, or paper: train like the code of the paper."""
    options: Annotated[dict[str, Any], Option(Group.METHOD, "NAME=VALUE", parse_options)] = {}  # noqa: RUF012
    """Network options: width=256,positions=false,level=word."""
    size: Annotated[Annotated[int, Integer(2, MAX_ROWS)] | None, Option(Group.TRAINING, "N")] = None
    """Number of rows to learn from (default: all)."""
    initialisations: Annotated[Count, Option(Group.TRAINING, "N")] = 3
    """Networks to train; the best one is saved."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Folder for the explainer (default: runs/l2e-DATA)."""
