"""Audits: which way of judging explanations can be trusted, measured on explanations whose order is known.

- `audit`: the public function of one teacher. It compares changed explanations (`changes` has them, and the pairs that
  are asked about) with every student and target normalisation, scores them with every metric, and contrasts the pairs.
- What evaluators say: `evaluator_answers`, from the contrasts of a comparison (`student_values`) and from values of
  metrics (`metric_values`). `true_areas` has the true AUC of explanations, from `didact.metrics.truth`; `trained` reads
  the students of a comparison.
- `summarise`: the public function over audits of several teachers, which counts right and wrong answers.
- The config: `config` (the fields beside those of a comparison), `config_fields` (the same for editors).

To add a changed version of a base, or a leak, write its name in `changes`. To add a question, write a `Relation`
(`didact.results.audit`), its pairs in `changes`, its count in `summarise`, and its goal in
`didact.results.audit_summary`.
"""
