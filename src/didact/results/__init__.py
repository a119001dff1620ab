"""Results: one typed class for each thing that a run or a study leaves on disk. Nothing here imports torch.

`comparison` has `Comparison` with its rows of gains, `contrast` the paired differences it stores, `comparison_table`
draws it for a terminal and a notebook, `measured` has what was measured without students, `run_record` how a
run was started, `study_analysis` what a study with people found, `number_format` how numbers are written, `documents`
what all readers share. Report, command line and notebooks read only these classes.

To add one: a frozen dataclass with `load` and `save`. A document may name its `version`; without one it is version 1.
"""
