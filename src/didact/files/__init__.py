"""Reading and writing files, local and remote: atomic, with checksums, never pickled. No torch in this package.

`atomic` writes files and folders that are complete or absent, even if the process is killed. `checksummed` reads and
writes JSON and safetensors with a checksum, `table_io` small Parquet tables. `store` saves records under keys that hash
everything the result depends on. `remote` reads and writes files below a URL, `unpack` decompresses with a size limit,
and `paths` checks what is at a path. The packages above decide what the files contain.

To add a kind of file: write it with `atomic`, with a checksum that its reader verifies.
"""
