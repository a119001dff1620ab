"""Statistics over seeds, rows and people. Numpy and scipy only; no torch in this package.

`contrast` has the difference of two arms with its standard error, `claims` the rule for what may be claimed, `holm`
the correction for many tests, `modes` finds students that failed to learn, `ranking` has ranks and how far rankings
agree, `summary` median and quartiles. Of studies with people: `crossed` has intervals, `permutation` a test,
`plackett_luce` rankings, `concordance` agreement and `power` how many are needed. To add one: a module of functions
on arrays, scipy imported inside them, and a test against a closed form or a literal re-implementation in
tests/stats.
"""
