"""What papers and other tools call the methods: a name to suggest where one of these is asked for."""

from collections.abc import Mapping
from typing import Final

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "shap": ("kernel_shap", "deep_shap", "gradient_shap"),
    "shapley": ("kernel_shap", "shapley_sampling"),
    "shapley_values": ("kernel_shap", "shapley_sampling"),
    "shapley_value_sampling": ("shapley_sampling",),
    "partition_shap": ("kernel_shap",),
    "deep_lift_shap": ("deep_shap",),
    "deeplift_shap": ("deep_shap",),
    "deep_lift": ("deeplift",),
    "ig": ("integrated_gradients",),
    "layer_integrated_gradients": ("integrated_gradients",),
    "saliency": ("gradient_norm",),
    "gradient": ("gradient_norm", "gradient_input"),
    "gradients": ("gradient_norm", "gradient_input"),
    "vanilla_gradient": ("gradient_norm",),
    "input_x_gradient": ("gradient_input",),
    "gradient_x_input": ("gradient_input",),
    "grad_input": ("gradient_input",),
    "smoothgrad": ("smooth_gradient",),
    "gradcam": ("attention_gradient",),
    "grad_cam": ("attention_gradient",),
    "attnlrp": ("lrp",),
    "attn_lrp": ("lrp",),
    "conductance": ("layer_conductance",),
    "attn": ("attention_all", "attention_cls"),
    "rollout": ("attention_rollout",),
    "flow": ("attention_flow",),
    "loo": ("occlusion",),
    "leave_one_out": ("occlusion",),
    "feature_ablation": ("occlusion",),
    "smat": ("attention_mix",),
}
