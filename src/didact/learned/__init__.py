"""Learned explainers: `smat` (explanations from which students learn most) and `l2e` (fast imitations of explainers).

`smat_spec` parses specs such as `smat(family=blend, …)`. To add a way to learn: the loop in `didact.learning`; a
module here that prepares rows and explanations, calls the loop and saves an explainer; the command in
`didact.cli.learn`.
"""
