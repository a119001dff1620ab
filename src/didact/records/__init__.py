"""What is kept on disk, and how: whole or not at all, with a checksum, never a pickle. No torch in this room.

`atomic.py` writes files and folders so that a killed process leaves nothing half done; `store.py` keeps sealed records
under keys that hash everything that decides them.
"""
