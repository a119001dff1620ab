"""L2E: a small network that imitates another explainer in one forward pass (Situ et al. 2021).

It reads what the teacher reads, with the explained label at both ends, and scores every unit. Training is in
didact.learning.l2e; docs/l2e.md lists the differences from the paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from didact.core.explanation import Explanation, Kind
from didact.core.feature_groups import LEVELS, feature_groups, first_positions
from didact.core.model import Batch, Outputs, Row, TokenMask, TokenScores, eval_mode
from didact.core.needs import require
from didact.core.normalise import positive, softmax_over
from didact.core.target import Target
from didact.core.teacher import Differentiable, Teacher
from didact.errors import OptionError, UnsupportedError
from didact.explainers.l2e_network import L2ENetwork
from didact.explainers.l2e_spec import NetworkSpec, frequent_words, teacher_embeddings
from didact.explainers.learned import LearnedExplainer

FORMULATIONS: Final = ("labelling", "ranking", "regression")
LABELS: Final = ("high negative", "low negative", "neutral", "low positive", "high positive")


class L2E(LearnedExplainer):
    """Imitates a slow explainer in one pass. Learn one with `didact learn l2e`.

    `formulation` is what it learns to imitate: labels (`labelling`: each unit high or low, positive or negative, or
    neutral; a score is the expected value of the label), the order of the units (`ranking`: of |w|, or of w itself if
    `signed`), or the weights (`regression`). `level` is what is scored, token or word. With `positions` the network
    sees the position of each unit. `embeddings` are the teacher's (frozen, projected) or its own. If the teacher
    answers with a score, the explained label is one of `buckets` of equally many rows.
    """

    def __init__(
        self,
        *,
        formulation: str = "labelling",
        signed: bool = False,
        level: str = "token",
        width: int = 128,
        layers: int = 4,
        heads: int = 4,
        dropout: float = 0.2,
        positions: bool = True,
        embeddings: str = "teacher",
        buckets: int = 5,
    ) -> None:
        super().__init__()
        faults = [
            f"{name} must be {condition}, got {value!r}"
            for name, value, is_valid, condition in (
                ("formulation", formulation, formulation in FORMULATIONS, " or ".join(map(repr, FORMULATIONS))),
                ("level", level, level in LEVELS, "'token' or 'word'"),
                ("embeddings", embeddings, embeddings in ("teacher", "own"), "'teacher' or 'own'"),
                ("heads", heads, heads >= 1, "at least 1"),
                ("width", width, width >= 1 and heads >= 1 and width % heads == 0, "a multiple of heads"),
                ("layers", layers, layers >= 1, "at least 1"),
                ("dropout", dropout, 0 <= dropout < 1, "at least 0 and below 1"),
                ("buckets", buckets, buckets >= 1, "at least 1"),
            )
            if not is_valid
        ]
        if faults:
            raise OptionError("Options of 'l2e': " + "; ".join(faults) + ".")
        self.formulation, self.signed, self.level = formulation, signed, level
        self.width, self.layers, self.heads, self.dropout = width, layers, heads, dropout
        self.positions, self.embeddings, self.buckets = positions, embeddings, buckets
        self.learned = {}
        self._network: L2ENetwork | None = None
        self._network_spec: NetworkSpec | None = None

    @property
    def network(self) -> L2ENetwork:
        return self._require_network()[0]

    @property
    def network_spec(self) -> NetworkSpec:
        return self._require_network()[1]

    def _require_network(self) -> tuple[L2ENetwork, NetworkSpec]:
        if self._network is None or self._network_spec is None:
            raise OptionError(
                "The explainer 'l2e' must be learned before it can explain: run `didact learn l2e` or "
                "didact.learn_l2e, and pass its folder."
            )
        return self._network, self._network_spec

    # -- explaining ---------------------------------------------------------------------------------------------------

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:  # noqa: ARG002 - it was learned before
        self.network_spec.check(teacher)
        self.to(teacher.device)

    @property
    def needs_background(self) -> bool:
        return False

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        with torch.no_grad(), eval_mode(self):
            outputs = self.network_outputs(teacher, batch, self.label_ids(teacher, batch, target))
        scored = scored_units(batch, self.level)
        scores = self.scores(outputs, scored)
        return Explanation(scores, batch.mask, batch.units, self.kind)

    def network_outputs(
        self, teacher: Teacher, batch: Batch, labels: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch token imitated out"]:
        """The outputs of the network at every position, for each imitated explainer."""
        inputs = self.network_spec.inputs(teacher, batch)
        if inputs.is_floating_point():
            inputs = inputs.to(self.network.head.weight.dtype)
        outputs: Tensor = self.network(inputs, batch.segments, batch.mask, labels)
        return outputs.unflatten(-1, (len(self.network_spec.imitates), -1))

    def scores(self, outputs: Float[Tensor, "batch token imitated out"], scored: TokenMask) -> TokenScores:
        """Scores from the outputs: for several imitated explainers the mean, each scaled to a maximum of 1."""
        if self.formulation == "labelling":
            values = torch.tensor(self.network_spec.values, dtype=outputs.dtype, device=outputs.device)
            scores = (outputs.softmax(-1) * values).sum(-1)
        elif self.formulation == "ranking" and not self.signed:
            # The worth of a unit in the Bradley-Terry model, which the ranking loss fits.
            scores = softmax_over(outputs[..., 0], scored[..., None], dim=1)
        else:
            scores = outputs[..., 0] if self.is_signed else outputs[..., 0].clamp_min(0)
        scores = scores * scored[..., None]
        if scores.shape[-1] > 1:
            scores = scores / positive(scores.abs().amax(1, keepdim=True))
        return scores.mean(-1)

    @property
    def is_signed(self) -> bool:
        """Whether scores are signed: not if the imitated explainers are unsigned, or if the order is that of |w|."""
        return self.network_spec.is_signed and (self.formulation != "ranking" or self.signed)

    @property
    def kind(self) -> Kind:
        return "signed" if self.is_signed else "magnitude"

    def label_ids(self, teacher: Teacher, batch: Batch, target: Target) -> Int[Tensor, " batch"]:
        """The label of each row: the explained class, or the bucket of the teacher's score."""
        if target.kind == "label" and target.first is not None:
            return target.first
        if target.kind != "value":
            raise UnsupportedError(
                f"The explainer 'l2e' explains a class or a score, and the target is a {target.kind}. "
                "Choose another target, or the explainer it imitates."
            )
        return self.bucket(teacher.answers(batch.rows or (), batch)[0][:, 0]).to(batch.device)

    def bucket(self, answers: Float[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """The bucket of each regression score."""
        return torch.bucketize(
            answers.contiguous(),
            torch.tensor(self.network_spec.edges, dtype=answers.dtype, device=answers.device),
        )

    # -- before learning ----------------------------------------------------------------------------------------------

    def start(
        self,
        teacher: Teacher,
        rows: Sequence[Row],
        *,
        imitates: Sequence[str],
        is_signed: bool,
        outputs: Outputs | None = None,
    ) -> None:
        """Build a new network for this teacher, which will learn from these rows. torch's generator seeds its weights.

        `outputs` are the teacher's answers to the rows; by default the teacher is run where they matter.
        """
        edges: list[float] = []
        check_teacher(teacher)
        if not teacher.task.has_classes:
            answers = torch.from_numpy((outputs or teacher.predict(rows)).values[:, 0])
            shares = torch.arange(1, self.buckets, dtype=answers.dtype) / self.buckets
            edges = answers.quantile(shares).unique().tolist()
        batch = teacher.encode(rows[:1]).to(teacher.device)
        vocabulary: tuple[Any, ...] | None = None
        if not isinstance(teacher, Differentiable) or (self.embeddings == "own" and batch.pixels is None):
            vocabulary = tuple(frequent_words(teacher, rows))
        spec = NetworkSpec(
            classes=teacher.classes,
            edges=tuple(edges),
            vocabulary=vocabulary,
            dim=None if vocabulary is not None else teacher_embeddings(teacher, batch).shape[-1],
            imitates=tuple(imitates),
            is_signed=is_signed,
        )
        self._build(spec)
        self.to(teacher.device)
        if isinstance(teacher, Differentiable) and teacher.dtype == torch.float64:
            self.double()

    def _build(self, spec: NetworkSpec) -> None:
        outputs_per_explainer = 1
        if self.formulation == "labelling":
            outputs_per_explainer = len(LABELS) if spec.is_signed else 3
        self._network_spec = spec
        self._network = L2ENetwork(
            vocabulary=None if spec.vocabulary is None else len(spec.vocabulary) + 1,
            dim=spec.dim,
            labels=spec.labels,
            out=outputs_per_explainer * len(spec.imitates),
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            dropout=self.dropout,
            positions=self.positions,
        )

    def set_values(self, values: Float[Tensor, "imitated label"]) -> None:
        """Set the value of each label, by imitated explainer."""
        self._network_spec = replace(self.network_spec, values=tuple(map(tuple, values.tolist())))

    # -- saving and loading -------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return self._network_spec is not None

    @property
    def shape(self) -> dict[str, object]:
        return {"reads": self.network_spec.as_plain()}

    def learned_weights(self) -> dict[str, Tensor]:
        return {name: tensor.float() for name, tensor in self.network.state_dict().items()}

    def load_learned(self, shape: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        self._build(NetworkSpec.from_plain(shape["reads"]))
        self.network.load_state_dict(dict(weights))
        if not all(tensor.isfinite().all() for tensor in weights.values()):
            raise ValueError("some weights are NaN or infinite.")

    def description(self) -> str:
        count = sum(parameter.numel() for parameter in self.network.parameters())
        imitated = ", ".join(self.network_spec.imitates)
        return f"Imitates {imitated} in one pass ({self.formulation}), with {count:,} weights.\n"


def check_teacher(teacher: Teacher) -> None:
    """Raise if an L2E network cannot explain this teacher's answers."""
    advice = "Choose a model as the teacher, or the explainer it would imitate."
    require(teacher, "a class or a score", "The explainer 'l2e'", advice=advice)
    if not teacher.task.is_text:
        require(teacher, "embeddings", "The explainer 'l2e'", advice=advice)


def scored_units(batch: Batch, level: str) -> TokenMask:
    """The positions that carry scores: every unit, or the first piece of every word."""
    return first_positions(feature_groups(batch, level=level))
