"""How parameters are fitted: teachers on labels, students on a teacher's answers. SMaT and L2E will live here.

`fit.py` is the one loop; `train.py` makes teachers of data sets and keeps them in a folder; `teach.py` trains a student
with what its strategy makes of explanations.
"""
