"""Training: teachers on labels, students on a teacher's answers, explainers on what helps students.

`fit` is the one training loop. `train` trains a teacher on a data set and saves it (`config` holds its options);
`teach` trains a student with what its strategy makes of explanations, and `together` several seeds of one configuration
at once. `smat` and `l2e` learn explainers, with `mixed` (what a learned explainer sends), `outer_rows` (the rows that
judge SMaT's student), `hypergradient` (how an explanation should change), `imitation` (the losses of L2E) and `choose`
(whether the learned explainer is kept). To add a way to learn: a module here that calls `fit` or `teach`, and a command
in `didact.cli.learn`.
"""
