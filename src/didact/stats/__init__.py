"""Statistics over seeds, rows and people. Numpy and scipy only; no torch in this package.

- Comparisons: `contrast` is the difference between two groups of students with its standard error (a gain is the
  contrast with `none`; `row_contributions` in `didact.comparing.statistics` makes its values), `claims` the rule for
  what may be claimed, with the correction for many tests; `incomplete` is the contrast of students that were tested on
  different rows; `remaining_gap` has the normalised gain, `teachers` the difference of two groups over several
  teachers; `modes` finds students that failed to learn, `ranking` has ranks and the agreement of rankings.
- Studies with people: `crossed` (intervals), `permutation` (a test), `plackett_luce` (rankings), `concordance`
  (agreement), `power` (how many people are needed).

To add one: a module of functions on arrays, scipy imported inside them, and a test against a closed form or a literal
re-implementation in tests/stats.
"""
