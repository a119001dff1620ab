"""The kinds of task, one file each; `base` says what each of them decides.

`classification` (one class of a text, or of a pair), `regression` (a score), `reading` (a span of a passage), `image`
(one class of an image); `columns` has the names that their columns usually have. Import tasks from `core.task`, the
table of all. To add one with an answer per row: a module here with a `Task`, and a line in that table.
"""
