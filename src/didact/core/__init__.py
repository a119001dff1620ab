"""Values that all packages share, and the interfaces of teachers, models and explainers.

Import from the modules, not from the package. `explainer` and `model` also export the types of their signatures.

- Without torch: `row`, `rows`, `dataset`, `classes`, `words`; `task` (the table of tasks; modules in `tasks` import
  torch in the methods that compute with it); `outputs` and `measure` (answers and their agreement); `seeds`; `teacher`
  (protocols and base class of teachers), `needs` (requirements on teachers), `function`, `human` and `linear`
  (teachers); `truth` (true scores of words, from exact teachers and planted rows).
- Teachers and rows as tensors: `adapt` (a user's object as a teacher), `model`, `shared_weights` (copies of a model
  that share its weights), `fingerprint` (a cache of fingerprints), `batch`, `batching` (rows of similar length),
  `encode`, `trace`, `precision`, `threads`.
- Explaining: `target`, `resolve_target` (from the option to a `Target`), `explainer`, `explanation`, `padded` (stored
  explanations as tensors on a batch), `normalise`, `simplex`, `encoder_layer`; for perturbation `baseline`, `perturb`,
  `feature_groups`.

To add a value, write one frozen dataclass in one module, with shapes in the annotations. To add a task with one answer
per row, write a module in `tasks` and add a line to `task`, which also lists the kinds that are not supported, with
the reason. Add a line to `didact.results.task_kinds` for code without torch, and to `didact.models` if no other task
resembles it.
"""
