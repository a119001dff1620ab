"""Training: teachers on labels, students on a teacher's answers, explainers on what helps students.

- `fit` is the one training loop. `train` trains a teacher on a data set and saves it (`config` holds its options),
  `teach` a student with what its strategy makes of explanations.
- `defaults` has methods and students for requests that name none, `student_objects` reads students that are given as
  objects, `target_scaler` has the scale of a regression.
- SMaT: `smat` is the loop; before its first step `smat_options`, `smat_checks` and `smat_route`; `smat_student`,
  `smat_checkpoint`, `mixed` (what a learned explainer sends), `outer_rows` (the rows that judge its student),
  `hypergradient` (how an explanation should change), `outer_adam`.
- L2E: `l2e`, with `imitation` (its losses). `choose` decides whether the learned explainer is kept.

To add a way to learn: the loop here, the function that users call in `didact.learned`, the command in
`didact.cli.learn`.
"""
