"""The kinds of task, one module each: `classification` (also pairs), `regression`, `reading` and `image`.

`base` has the base class, `columns` the usual names of columns. Import tasks from `core.task`, the table of all tasks.
To add a task with one answer per row, write a module with a `Task` here and add a line to that table.
"""
