"""Explanations judged without students: metrics, agreement between methods, sanity checks and cost.

`evaluate` scores explanations with metrics (`metrics_job` computes, `metrics_frame` shows), `agree`
compares methods with each other, `sanity` randomises the model, `cost` times methods. To add a check: a module here
whose result is a class in `didact.results`.
"""
