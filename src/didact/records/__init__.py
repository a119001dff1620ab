"""What is kept on disk, and how: whole or not at all, with a checksum, never a pickle. No torch in this room.

`atomic.py` writes files and folders so that a killed process leaves nothing half done; `store.py` keeps sealed records
under keys that hash everything that decides them. `explanations.py` holds the scores of many rows, `parquet.py` is
their form on disk, `origin.py` checks what they were made of before others replace them, `views.py` shows them,
`normalise.py` brings them to one scale.
"""
