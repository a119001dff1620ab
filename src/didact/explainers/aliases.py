"""Names of methods in papers and other tools, for suggestions when such a name is unknown here."""

from collections.abc import Mapping
from typing import Final

# By method, the likeliest first. A name that stands for several methods suggests all of them in this order.
_ALTERNATIVE_NAMES: Final = {
    "kernel_shap": "shap shapley shapley_values partition_shap",
    "shapley_sampling": "shapley shapley_values shapley_value_sampling",
    "deep_shap": "shap deep_lift_shap deeplift_shap",
    "gradient_shap": "shap",
    "deeplift": "deep_lift",
    "integrated_gradients": "ig layer_integrated_gradients",
    "gradient_norm": "saliency gradient gradients vanilla_gradient",
    "gradient_input": "gradient gradients input_x_gradient gradient_x_input grad_input",
    "smooth_gradient": "smoothgrad",
    "attention_gradient": "gradcam grad_cam",
    "lrp": "attnlrp attn_lrp",
    "layer_conductance": "conductance",
    "attention_all": "attn",
    "attention_cls": "attn",
    "attention_rollout": "rollout",
    "attention_flow": "flow",
    "occlusion": "loo leave_one_out feature_ablation",
    "attention_mix": "smat",
    "trivial": "leak_position leak",
    "leak_count": "leak",
}

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    alias: tuple(method for method, names in _ALTERNATIVE_NAMES.items() if alias in names.split())
    for alias in " ".join(_ALTERNATIVE_NAMES.values()).split()
}
