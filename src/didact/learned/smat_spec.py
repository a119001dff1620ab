"""Parses specs of SMaT explainers, such as `smat(family=blend, outer=dev)`."""

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
# Ignored options of earlier versions. Their defaults stay in the key, so that a learner keeps its key.
_RETIRED: Final[Mapping[str, Any]] = {"memory": 2.0}
_SMAT: Final = tuple(field.name for field in fields(SmatOptions))


@dataclass(frozen=True)
class Learner:
    """A family of explainers to learn, with its options and those of learning (`smat`)."""

    spec: Spec
    family: str
    mix: Mapping[str, Any]
    smat: SmatOptions

    @property
    def label(self) -> str:
        return str(self.spec)

    def companion_label(self, role: str) -> str:
        """The label of a companion row: `smat(cotrained)`, `smat(outer=dev, cotrained)`."""
        return f"{NAME}({role})" if not self.spec.options else f"{self.label[:-1]}, {role})"

    def explainer(self) -> ComponentMix:
        """A new, untrained explainer of the family."""
        explainer = build_explainer(self.family, **self.mix).explainer
        assert isinstance(explainer, ComponentMix)
        return explainer

    def initial(self, names: Sequence[str]) -> ComponentMix:
        """The explainer before learning, at temperature 1. For attention_mix this is attention_all."""
        explainer = learner_of({"family": self.family}).explainer()
        explainer.start(names)
        return explainer

    def restored(self, learned: LearnedRecord) -> ComponentMix:
        """The explainer with the parameters that a cell learned."""
        explainer = self.explainer()
        explainer.restore(
            learned.names, torch.tensor(learned.coefficients), torch.tensor(learned.log_temperature or 0.0)
        )
        return explainer

    def identity(self) -> dict[str, object]:
        """All options and versions in effect, part of the key of a cell."""
        explainer = self.explainer()
        smat = asdict(self.smat) | {"choose": "fresh" if self.chooses else "learned", **_RETIRED}
        return {"family": self.family, "version": (explainer.version, VERSION), "mix": explainer.options, "smat": smat}

    @property
    def chooses(self) -> bool:
        """Whether the final explainer is chosen by training new students with it."""
        return self.smat.choose == "fresh" or (self.smat.choose == "auto" and self.family == "blend")


def is_learner(text: object) -> bool:
    """Whether the text is the spec of an explainer to learn."""
    return isinstance(text, str) and text.partition("(")[0].strip() == NAME


def parse_learner(text: str) -> Learner:
    """Parse `smat(option=value, …)` with the options of learning, of the family, and `family` itself.

    Raises:
        OptionError: a name, option or value is invalid.
    """
    spec = parse_spec(text)
    if spec.name != NAME:
        raise OptionError(unknown_name_message("learner", spec.name, [NAME]))
    return learner_of(spec.options)


def learner_of(options: Mapping[str, Any]) -> Learner:
    """Create the learner with these options; None leaves an option at its default."""
    entries = {**options, "normaliser": "none"} if options.get("normaliser", "") is None else options
    present = {name: value for name, value in entries.items() if value is not None and name not in _RETIRED}
    if "memory" in options:
        log.warning(
            "memory: no longer an option of %s, and ignored. If memory is short, choose route='difference'.", NAME
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
    learner.explainer()  # raises for values that the family does not accept
    return learner
