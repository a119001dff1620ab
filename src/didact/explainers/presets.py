"""Options of the four papers, as far as they are known: target, scale, gradient level, baseline, signs, units.

`docs/explainers.md` has the table, and what options cannot express. Options of the caller override a preset.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from didact.errors import OptionError, UnknownNameError
from didact.registry import unknown_name_message


@dataclass(frozen=True)
class Preset:
    """Options of one paper: `common` for every method that has the option, `methods` for single methods."""

    common: Mapping[str, Any]
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def options(self, method: str) -> dict[str, object]:
        return dict(self.common) | dict(self.methods.get(method, {}))


_TOKENS: Final[Mapping[str, Any]] = {"target": "predicted", "special": True, "level": "token", "at": "embedding"}

PRESETS: Final[Mapping[str, Preset]] = {
    "pruthi": Preset(
        {**_TOKENS, "scale": "log_probability", "replace": "zero"},
        {
            "integrated_gradients": {"baseline": "pad", "steps": 50},
            "gradient_norm": {"at": "word"},
            "gradient_input": {"at": "word"},
            "layer_conductance": {"layer": 1},
        },
    ),
    "smat": Preset(
        {**_TOKENS, "scale": "logit", "replace": "zero"},
        {
            "gradient_input": {"normalise": "softmax(temperature=0.1)"},
            "gradient_norm": {"normalise": "softmax"},
            "integrated_gradients": {"steps": 10, "normalise": "softmax(temperature=0.5)"},
        },
    ),
    "l2e": Preset(
        {"target": "gold", "special": False, "level": "word"}
        | {"scale": "log_probability", "baseline": "mask", "replace": "mask"},
        {
            "lime": {"samples": 1000},
            "kernel_shap": {"samples": 1000},
            "gradient_input": {"scale": "logit", "at": "word"},
            "lrp": {"scale": "logit"},
        },
    ),
    "neely": Preset(
        {**_TOKENS, "scale": "probability", "absolute": True, "baseline": "pad", "replace": "pad"},
        {
            "integrated_gradients": {"steps": 50},
            "gradient_shap": {"samples": 5, "background": 5},
            "lime": {"samples": 1000, "kernel_width": 1.0},
        },
    ),
}


def get_preset(name: str) -> Preset:
    if not isinstance(name, str):
        raise OptionError(f"preset must be a name, got {name!r}. Choose one of {', '.join(PRESETS)}.")
    try:
        return PRESETS[name]
    except KeyError:
        raise UnknownNameError(unknown_name_message("preset", name, PRESETS)) from None
