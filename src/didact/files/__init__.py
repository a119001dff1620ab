"""Files here and in stores: written whole or not at all, with a checksum, never a pickle. Nothing imports torch.

`atomic` writes files and folders so that a killed process leaves nothing half done; `sealed` has JSON and safetensors
with a checksum, `table_io` small Parquet tables; `store` keeps records under keys that hash everything that decides
them. `remote` reads and writes what lies behind a URL, `unpack` opens archives with a bound, `paths` says what is at a
path. What the files hold is for the packages above.

To add a kind of file: write it through `atomic`, with a checksum that its reader checks.
"""
