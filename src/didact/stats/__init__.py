"""Statistics over seeds, rows and people. Numpy and scipy only; no torch in this package.

`contrast.py` has the difference of two arms with its standard error, `contrast_table.py` all of them as a run stores
them, `claims.py` the rule for what may be claimed, `holm.py` the correction for many tests, `modes.py` finds students
that failed to learn, `ranking.py` has ranks and how far rankings agree, `summary.py` median and quartiles. Of studies
with people: `crossed.py` has intervals, `permutation.py` a test, `plackett_luce.py` rankings, `concordance.py`
agreement and `power.py` how many are needed. To add one: a module of functions on arrays, scipy imported inside
them, and a test against a closed form or a literal re-implementation in tests/stats.
"""
