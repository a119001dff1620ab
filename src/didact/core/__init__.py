"""Values that all packages share, and the interfaces of teachers, models and explainers.

Import from the modules, not from here; `explainer` and `model` also give out the types of their signatures.

- Without torch: `row`, `rows`, `dataset`, `classes`, `words`; `task` (the table of the kinds in `tasks`, which import
  torch where they compute with it); `outputs`, `measure` (answers and how well they agree); `seeds`; `teacher` (what
  teachers can do), `needs` (what is asked of them, and refused), `function` and `human` (teachers).
- Teachers and rows as tensors: `adapt` (a user's object as a teacher), `model`, `shared_weights` (a caller's own copy
  of a model), `fingerprint` (tells teachers apart), `batch`, `batching` (rows of similar length), `encode`, `trace`,
  `precision`, `threads`.
- Explaining: `target`, `resolve_target` (from a target's name to numbers), `explainer`, `explanation`, `padded` (stored
  explanations as tensors on a batch), `normalise`, `simplex`, `encoder_layer`; for perturbation `baseline`, `perturb`,
  `feature_groups`.

To add a value: one frozen dataclass, one file, shapes in the annotations. To add a task with one answer per row: one
file in `tasks` and a line in `task`, which also lists the kinds that are not supported yet, and why; a line in
`didact.results.task_kinds` for code without torch; in `didact.models` if the task resembles no other.
"""
