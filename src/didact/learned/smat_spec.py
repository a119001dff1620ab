"""`smat(family=blend, outer=dev)`: what is to be learned and how, as people write it."""

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import torch

from didact.errors import OptionError
from didact.explainers import EXPLAINERS
from didact.explainers.build import build_explainer, knows_option
from didact.explainers.mix import ComponentMix
from didact.learning.smat_options import VERSION, SmatOptions
from didact.option_types import check_option_types
from didact.registry import Spec, parse_spec, unknown_name_message
from didact.results.training_record import LearnedRecord

log = logging.getLogger(__name__)

NAME: Final = "smat"
FAMILIES: Final = ("attention_mix", "gradient_mix", "blend")
# Options of earlier versions, ignored, with the default that keys have: the same learner has the same key as then.
_RETIRED: Final[Mapping[str, Any]] = {"memory": 2.0}
_SMAT: Final = tuple(field.name for field in fields(SmatOptions))


@dataclass(frozen=True)
class Learner:
    """A family of explainers with its options, and how it is learned."""

    spec: Spec
    family: str
    mix: Mapping[str, Any]
    smat: SmatOptions

    @property
    def label(self) -> str:
        return str(self.spec)

    def companion_label(self, role: str) -> str:
        """What a companion of this learner is called: `smat(cotrained)`, `smat(outer=dev, cotrained)`."""
        return f"{NAME}({role})" if not self.spec.options else f"{self.label[:-1]}, {role})"

    def explainer(self) -> ComponentMix:
        """The family's explainer, unlearned."""
        explainer = build_explainer(self.family, **self.mix).explainer
        assert isinstance(explainer, ComponentMix)
        return explainer

    def initial(self, names: Sequence[str]) -> ComponentMix:
        """Where learning starts, at temperature 1: of attention_mix this is attention_all."""
        explainer = learner_of({"family": self.family}).explainer()
        explainer.start(names)
        return explainer

    def restored(self, learned: LearnedRecord) -> ComponentMix:
        """The explainer with what a cell learned."""
        explainer = self.explainer()
        explainer.restore(
            learned.names, torch.tensor(learned.coefficients), torch.tensor(learned.log_temperature or 0.0)
        )
        return explainer

    def facts(self) -> dict[str, object]:
        """All options in force: part of a cell's key."""
        explainer = self.explainer()
        smat = asdict(self.smat) | {"choose": "fresh" if self.chooses else "learned", **_RETIRED}
        return {"family": self.family, "version": (explainer.version, VERSION), "mix": explainer.options, "smat": smat}

    @property
    def chooses(self) -> bool:
        """Whether new students decide what is kept."""
        return self.smat.choose == "fresh" or (self.smat.choose == "auto" and self.family == "blend")


def is_learner(text: object) -> bool:
    """Whether this is a spec of something to be learned."""
    return isinstance(text, str) and text.partition("(")[0].strip() == NAME


def parse_learner(text: str) -> Learner:
    """Read `smat(option=value, …)`. Options are those of learning, those of the family, and `family` itself."""
    spec = parse_spec(text)
    if spec.name != NAME:
        raise OptionError(unknown_name_message("learner", spec.name, [NAME]))
    return learner_of(spec.options)


def learner_of(options: Mapping[str, Any]) -> Learner:
    """The learner with these options."""
    entries = {**options, "normaliser": "none"} if options.get("normaliser", "") is None else options
    present = {name: value for name, value in entries.items() if value is not None and name not in _RETIRED}
    if "memory" in options:
        log.warning(
            "memory: no longer an option of %s, and ignored. Choose route='difference' where memory is short.", NAME
        )
    family = present.get("family", FAMILIES[0])
    if family not in FAMILIES:
        raise OptionError(unknown_name_message("family of explainers that can be learned", str(family), list(FAMILIES)))
    smat_options = {name: value for name, value in present.items() if name in _SMAT}
    mix = {name: value for name, value in present.items() if name not in (*_SMAT, "family")}
    for name in mix:
        if not knows_option(family, name):
            option_names = [*_SMAT, "family", *inspect.signature(EXPLAINERS.load(family)).parameters]
            raise OptionError(unknown_name_message(f"option of {NAME} with family {family!r}", name, option_names))
    check_option_types(smat_options, SmatOptions, of=NAME)
    learner = Learner(Spec(NAME, present), family, mix, SmatOptions(**smat_options))
    learner.explainer()  # refuses values that its family does not take
    return learner
