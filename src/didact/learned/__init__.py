"""Explainers that are learned: `smat` (explanations that teach) and `l2e` (slow explainers made fast).

`smat_spec` reads `smat(family=blend, …)` as people write it. The loops are in `didact.learning`. To add a way to learn:
a module here that prepares rows and explanations, calls the loop and saves an explainer.
"""
