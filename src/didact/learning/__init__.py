"""Training: teachers on labels, students on a teacher's answers, explainers on what helps students.

- `fit` is the training loop. `train` trains a teacher on a data set and saves it (`config` has its options), `teach`
  trains a student with explanations, `mask_tuning` tunes a copy of a teacher on masked rows (metric `f_fidelity`).
- `defaults` chooses methods and students if a request names none, `student_objects` accepts students as objects,
  `target_scaler` standardises the scores of a regression.
- SMaT: `smat` is the loop. Before its first step: `smat_options`, `smat_checks` and `smat_route`. In each step:
  `smat_student`, `differentiable_lessons` (explanations with a graph to the explainer), `outer_rows` (the rows of the
  outer loss), `hypergradient`, `outer_adam`. After each epoch: `smat_checkpoint`.
- L2E: `l2e`, with `l2e_losses`. `choose` decides between a learned explainer and its initial state.

To add a way to learn: the loop here, the function that users call in `didact.learned`, the command in
`didact.cli.learn`.
"""
