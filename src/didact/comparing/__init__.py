"""A comparison of explanation methods by what they teach students.

`compare.py` is the public door. `methods.py` chooses the rows of the table and `setup.py` holds all that takes part;
`assemble.py` makes a setup from a config, a teacher and data, and `preflight.py` tries it on two rows. `prepare.py`
fits a setup to a time budget (`costs.py` measures, `estimate.py` adds up, `budget.py` chooses). `runner.py` runs it in
five steps: label, explain (`explanations.py`), train (`grid.py` lists the runs, `training.py` trains what is left),
summarise (`summarise.py`), evaluate (`evaluation.py`: other metrics on test rows).
"""
