"""Real sets: options in, a `Recipe` out, readable top to bottom. See docs/data.md.

Sets of texts with a class are in `labelled`, those with marked words beside it in `marked`; others have a file each.
"""
