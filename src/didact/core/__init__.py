"""Values that all packages share, and the interfaces of teachers, models and explainers.

Import from the modules, not from here; `explainer` and `model` also give out the types of their signatures. Without
torch: `task`, `row`, `rows`, `dataset`, `classes`, `words`, `outputs`, `measure`, `seeds`, and the teachers `teacher`,
`function` and `human`. With torch: `model`, `batch`, `batching` (rows of similar length), `encode`, `trace`, `target`,
`aim` (from a target's name to numbers), `explainer`, `explanation`, `encoder_layer`, `normalise`, `loss`, `precision`,
`threads`, `simplex`, `fingerprint` (which tells teachers apart), and for perturbation `baseline`, `players`, `perturb`.
To add a value: one frozen dataclass, one file, shapes in the annotations.
"""
