"""Explainers that are learned: `smat` (explanations that teach) and `l2e` (slow explainers made fast).

`smat_spec` reads `smat(family=blend, …)` as people write it. To add a way to learn: the loop in `didact.learning`; a
module here that prepares rows and explanations, calls the loop and saves an explainer; the command in
`didact.cli.learn`.
"""
