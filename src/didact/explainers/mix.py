"""Learned mixes (SMaT): component scores of the teacher, weighed so that students learn most from them.

Every mix scores a row in several ways, one per *component* (a head, a layer, another explainer). Component scores are
computed once and never change; their weights are learned (didact.learning.smat). Before learning, all are equal.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from didact.core.explainer import Batch, Explainer, Explanation, Row, Target, Teacher
from didact.core.feature_groups import feature_groups, share_among_positions
from didact.core.model import TokenMask, TokenScores, TokenVectors, eval_mode, require_model
from didact.core.needs import obstacle
from didact.core.normalise import share_over, softmax_over
from didact.core.simplex import NORMALISERS
from didact.errors import OptionError, UnsupportedError
from didact.explainers.attention import check_temperature, mean_attention_logits
from didact.explainers.autograd import frozen
from didact.explainers.learned import LearnedExplainer
from didact.registry import parse_spec, split_list
from didact.viz.weights_chart import WeightsView

# A unit to which a component gives 0 keeps this share of an even share, so that its logarithm is finite.
FLOOR_SHARE: Final = 1e-3
AUTO: Final = "auto"
_CANCELLATION: Final = 1e-4
ComponentLogits: TypeAlias = Float[Tensor, "batch component token"]


class ComponentMix(LearnedExplainer):
    """softmax(Σ λ · component / T) over the units, with λ = normaliser(coefficients); Fernandes et al. 2022, eq. 11.

    `normaliser` is sparsemax, softmax, entmax15 or none (coefficients as they are). `temperature` divides the logits;
    with `learn_temperature` it is the initial value.
    """

    def __init__(
        self, *, normaliser: str | None = "sparsemax", temperature: float = 1.0, learn_temperature: bool = False
    ) -> None:
        super().__init__()
        normaliser = "none" if normaliser is None else normaliser  # as in a spec
        if normaliser not in NORMALISERS:
            raise OptionError(f"Option 'normaliser' must be {' or '.join(map(repr, NORMALISERS))}, got {normaliser!r}.")
        self.normaliser, self.temperature = normaliser, check_temperature(temperature)
        self.learn_temperature = learn_temperature
        self.names: tuple[str, ...] = ()
        self.coefficients = nn.Parameter(torch.zeros(0))
        self.log_temperature = nn.Parameter(torch.zeros(()), requires_grad=learn_temperature)
        self.learned = {}

    @abstractmethod
    def component_names(self, teacher: Teacher, row: Row) -> tuple[str, ...]:
        """The names of this teacher's components, in order. Raises `UnsupportedError` if it has none."""

    @abstractmethod
    def components(self, teacher: Teacher, batch: Batch, target: Target) -> ComponentLogits:
        """The component scores as logits. They do not depend on learned parameters."""

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        names = self.component_names(teacher, rows[0])
        if not self.names:
            self.start(names)
            self.to(teacher.device)
        elif names != self.names:
            raise OptionError(
                f"This explainer weighs {len(self.names)} components ({_first_names(self.names)}), and "
                f"{teacher.name!r} has {len(names)} ({_first_names(names)}). It was learned for another one: "
                "learn it again (didact learn smat)."
            )

    @property
    def needs_background(self) -> bool:
        return False  # any row gives the names of the components

    def start(self, names: Sequence[str]) -> None:
        """Set equal weights for components of these names: where the paper starts."""
        self.restore(names, torch.full((len(names),), 1 / len(names)), torch.zeros(()))

    def restore(
        self, names: Sequence[str], coefficients: Float[Tensor, " component"], log_temperature: Float[Tensor, ""]
    ) -> None:
        """Set names, coefficients and log-temperature to learned values."""
        self.names = tuple(names)
        self.coefficients = nn.Parameter(coefficients)
        self.log_temperature = nn.Parameter(log_temperature, requires_grad=self.learn_temperature)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        with torch.no_grad():
            scores = self.mix_components(self.components(teacher, batch, target), batch.units)
        return Explanation(scores, batch.mask, batch.units, "distribution")

    def mix_components(self, components: ComponentLogits, units: TokenMask) -> TokenScores:
        """The explanation. Gradients flow to the learned parameters."""
        return softmax_over(self.logits(components), units)

    def logits(self, components: ComponentLogits) -> TokenScores:
        temperature = self.temperature * self.log_temperature.exp().to(components)
        return torch.einsum("c,bct->bt", self.weights.to(components), components) / temperature

    @property
    def current_temperature(self) -> float:
        """The temperature, learned or not."""
        return self.temperature * float(self.log_temperature.detach().exp())

    @property
    def weights(self) -> Float[Tensor, " component"]:
        """The weight of each component."""
        return NORMALISERS[self.normaliser](self.coefficients)

    def view(self, title: str = "") -> WeightsView:
        """The weights as a chart: `explainer.view().show()`."""
        return WeightsView(self.names, tuple(self.weights.detach().cpu().double().tolist()), title)

    # -- saving and loading -------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return bool(self.names)

    @property
    def shape(self) -> dict[str, object]:
        return {"names": list(self.names)}

    def learned_weights(self) -> dict[str, Tensor]:
        return {"coefficients": self.coefficients, "log_temperature": self.log_temperature}

    def load_learned(self, shape: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        names, coefficients = shape["names"], weights["coefficients"]
        if coefficients.shape != (len(names),) or not coefficients.isfinite().all():
            raise ValueError(
                f"{tuple(coefficients.shape)} weights for {len(names)} components, which must all be finite."
            )
        self.restore(names, coefficients, weights["log_temperature"])

    def description(self) -> str:
        weights = sorted(zip(self.weights.detach().tolist(), self.names, strict=True), reverse=True)
        rows = "".join(f"| {name} | {weight:.4f} |\n" for weight, name in weights if weight != 0)
        return (
            f"Weighs {len(self.names)} components so that students who see its explanations learn to predict the model."
            "\n\n"
            f"| component | weight |\n|---|---|\n{rows}"
        )


class AttentionMix(ComponentMix):
    """The attention logits of every head, averaged for each key over queries (Fernandes et al. 2022, section 4)."""

    def component_names(self, teacher: Teacher, row: Row) -> tuple[str, ...]:
        model = require_model(teacher, "attention_mix")
        layers, heads = mean_attention_logits(model, model.encode([row]).to(model.device)).shape[1:3]
        return tuple(f"{layer}.{head}" for layer in range(layers) for head in range(heads))

    def components(self, teacher: Teacher, batch: Batch, target: Target) -> ComponentLogits:  # noqa: ARG002
        return mean_attention_logits(require_model(teacher, "attention_mix"), batch).flatten(1, 2)


class GradientMix(ComponentMix):
    """Gradient × input at the input of the first layer and the output of each, as ln(|s| / Σ|s|).

    Future work in Fernandes et al. 2022. With all weight on one layer, the scores are that layer's |s| / Σ|s|.
    """

    def component_names(self, teacher: Teacher, row: Row) -> tuple[str, ...]:
        model = require_model(teacher, "gradient_mix")
        with eval_mode(model), torch.no_grad():
            hidden = model(model.encode([row]).to(model.device), listen=["hidden"]).hidden
        assert hidden is not None
        return ("embeddings", *(f"layer {number}" for number in range(len(hidden) - 1)))

    def components(self, teacher: Teacher, batch: Batch, target: Target) -> ComponentLogits:
        model = require_model(teacher, "gradient_mix")
        with frozen(model), torch.enable_grad():
            trace = model.run(model.embed(batch).detach().requires_grad_(), batch, listen=["hidden"])
            assert trace.hidden is not None
            gradients = torch.autograd.grad(target.of(trace.logits).sum(), trace.hidden, allow_unused=True)
        products = [
            torch.zeros_like(state[..., 0]) if gradient is None else _sum_unless_rounding(state.detach() * gradient)
            for state, gradient in zip(trace.hidden, gradients, strict=True)
        ]
        return log_shares(torch.stack([product.to(batch.device) for product in products], 1), batch.units)


class Blend(ComponentMix):
    """A mix of other explainers: a component is ln of a member's distribution. Works for black boxes, too.

    `members` are specs joined by "+": `"gradient_norm + lime(samples=200)"`. By default, those of attention_all,
    gradient_norm, gradient_input, integrated_gradients and occlusion that the teacher supports; for a black box
    occlusion, lime and kernel_shap. With all weight on one member, the scores are that member's distribution. A member
    with level=word divides each word's mass equally among its pieces.
    """

    version = 4  # 4: members that remove units replace them by the mask token

    def __init__(
        self,
        *,
        members: str = AUTO,
        normaliser: str | None = "sparsemax",
        temperature: float = 1.0,
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(normaliser=normaliser, temperature=temperature, learn_temperature=learn_temperature)
        self.members = members
        self._member_explainers: tuple[Explainer, ...] = ()

    def component_names(self, teacher: Teacher, row: Row) -> tuple[str, ...]:
        return member_specs(self.members, teacher, row)

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        super().prepare(teacher, rows)
        self._member_explainers = _build_members(self.names)
        for member in self._member_explainers:
            member.prepare(teacher, rows)

    @property
    def needs_background(self) -> bool:
        named = () if self.members == AUTO else split_list(self.members, "+")
        return any(member.needs_background for member in _build_members(self.names or named))

    def components(self, teacher: Teacher, batch: Batch, target: Target) -> ComponentLogits:
        word_groups = feature_groups(batch, level="word")
        distributions = []
        for member in self._member_explainers:
            mass = member(teacher, batch, target).as_distribution()
            # Word scores are on first pieces; other members score all pieces.
            distributions.append(
                share_among_positions(mass, word_groups) if getattr(member, "level", "token") == "word" else mass
            )
        return log_shares(torch.stack(distributions, 1), batch.units)


def _build_members(names: Sequence[str]) -> tuple[Explainer, ...]:
    from didact.explainers.build import build_explainer  # imported late, because it builds blends, too

    built = [build_explainer(name).explainer for name in names]
    return tuple(explainer for explainer in built if isinstance(explainer, Explainer))


def member_specs(members: str, teacher: Teacher, row: Row) -> tuple[str, ...]:
    """The specs of a blend's members, in canonical spelling and checked."""
    from didact.explainers.build import build_explainer

    if members == AUTO:
        if obstacle(teacher, "gradients") is not None:
            return ("occlusion", "lime", "kernel_shap")
        methods = ("gradient_norm", "gradient_input", "integrated_gradients", "occlusion")
        try:
            mean_attention_logits(require_model(teacher, "blend"), teacher.encode([row]).to(teacher.device))
        except UnsupportedError:
            return methods
        return ("attention_all", *methods)
    specs = [parse_spec(spec) for spec in split_list(members, "+")]
    names = tuple(str(spec) for spec in specs)
    if len(set(names)) < max(2, len(names)):
        raise OptionError(f"A blend needs at least two different members, joined by '+', got {members!r}.")
    for spec in specs:
        if spec.name == "blend":
            raise OptionError("A blend cannot be a member of a blend.")
        if getattr(build_explainer(str(spec)).explainer, "resample_per_seed", False):
            raise OptionError(f"{spec} is resampled for every student, so it cannot be weighed.")
    return names


def log_shares(scores: ComponentLogits, units: TokenMask) -> ComponentLogits:
    """ln of each component's shares |s| / Σ|s| over the units, at least a thousandth of an even share."""
    count = units.sum(-1)[:, None, None].clamp_min(1).to(scores.dtype)
    shares = share_over(scores, units[:, None], fill_empty=True)
    return torch.maximum(shares, FLOOR_SHARE / count).log().masked_fill(~units[:, None], 0.0)


def _sum_unless_rounding(terms: TokenVectors) -> TokenScores:
    """The sum over dimensions; 0 where the terms cancel to rounding error.

    The direct input of a LayerNorm has a gradient × input of 0. What remains is rounding, which must not be scaled up
    to a distribution.
    """
    sums = terms.sum(-1)
    return torch.where(sums.abs() > _CANCELLATION * terms.abs().sum(-1), sums, 0.0)


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
