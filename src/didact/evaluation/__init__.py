"""Evaluates explanations without students: metrics, agreement between methods, sanity checks and cost.

`evaluate` scores explanations with metrics (`metrics_job` computes them, `tuned_metrics` those on a tuned copy of the
teacher, `metrics_frame` displays them), `agree` compares methods with each other, `sanity` randomises the model, `cost`
counts passes, time and memory. To add a check, add a module here whose result is a class in `didact.results`.
"""
