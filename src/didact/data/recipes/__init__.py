"""One file for each real set: options in, a `Recipe` out, readable top to bottom. See docs/data.md."""
