"""Training: teachers on labels, students on a teacher's answers, explainers on what helps students.

`fit` is the one training loop. `train` trains a teacher on a data set and saves it (`config` holds its options);
`teach` trains a student with what its strategy makes of explanations. `smat` and `l2e` learn explainers. SMaT has
`smat_options`, `smat_checks` and `smat_route` (before the first step), `smat_student`, `smat_checkpoint`, `mixed` (what
a learned explainer sends), `outer_rows` (the rows that judge its student), `hypergradient` (how an explanation should
change) and `outer_adam`; L2E has `imitation` (its losses). `choose` decides whether the learned explainer is kept.
`defaults` has methods and students for requests that name none, `target_scaler` the scale of a regression.
To add a way to learn: a module here that calls `fit` or `teach`, and a command in `didact.cli.learn`.
"""
