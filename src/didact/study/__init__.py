"""Studies with people: blind rankings, ratings and simulation studies, served from one small machine without torch.

Creating a study: `config` has the options of all commands. `create` writes the folder from `design` (the questions),
`about` (the sentence about the model), `item_sampling` (the rows), `stimuli` (what people see, frozen) and `example`
(for the instructions). `auth` has secrets and codes, `links` the invitations.

Serving it: `serve` runs the pages of `app`, whose routers are `participant`, `task` and `organiser`. They share
`request_context`; `page_context` prepares a page, `forms` parses what a browser sent, and `schedule` decides who sees
what in which order. `connections` and `security_middleware` protect the server. `database` stores the `answers` in
`tables`; `progress` and `export` show them, and `synthetic_annotators` simulates some.

Analysing it: `analyze` calls `analyze_ranking`, `analyze_simulation` or `analyze_rating`, which return `findings`:
`contrasts` between methods, `trueskill_ranking`, sentences from `summary_text`; `quality_checks` flags odd answers.

To add a kind of study: a name in `StudyOptions.kind`, its steps, its page, its form and its analysis.
"""
