"""What users ask for as a whole: explain a data set, and later compare and evaluate methods on it.

This room composes the others: it receives teachers and rows, calls explainers, and hands back records.
"""
