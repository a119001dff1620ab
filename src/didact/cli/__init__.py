"""The command line: parse, then call the Python API. One module per command; `main.py` ties them together.

Answers go to stdout, progress and messages to stderr. Exit code 0: done; 1: work failed; 2: a bad request.
"""
