"""Every path on a device that is not the CPU, as far as that can be tried without one (see far.py)."""

import copy

import numpy as np
import pytest
import torch

from didact.core.row import Row
from didact.experiment.explain import explain
from didact.explainers import EXPLAINERS
from explainers.test_explainer_contract import CASES, OPTIONS, begin
from far import far
from teachers import examples, teacher


def there(kind, task, device):
    """A teacher on the device, in single precision; the one of all tests stays where it is."""
    return copy.deepcopy(teacher(kind, task, torch.float32)).to(device)


@pytest.mark.parametrize(("name", "kind", "task"), [case for case in CASES if case[0] != "l2e"])
def test_every_explainer_explains_there(name, kind, task):
    rows = examples(task)
    asked = {"background_rows": rows} if name in ("gradient_shap", "deep_shap") else {}
    here = explain(teacher(kind, task, torch.float32), rows, name, **OPTIONS.get(name, {}), **asked)
    with far() as device:
        found = explain(there(kind, task, device), rows, name, **OPTIONS.get(name, {}), **asked)
    np.testing.assert_allclose(found.scores, here.scores, rtol=1e-3, atol=1e-4)
