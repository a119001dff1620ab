"""Audits: which way of judging explanations can be trusted, measured on explanations whose order is known.

`audit` runs one: it compares changed explanations (`changes`) with every student and target normalisation and scores
them with every metric, then contrasts them in pairs (`pairs`). `summarise` counts right and wrong answers over audits
of several teachers.
"""
