"""Studies with people: blind rankings, ratings and simulation studies, on one small machine and without torch.

Making one: `config` has the options of all commands; `create` writes the folder from `design` (what is asked), `about`
(what people are told of the model), `item_sampling` (of which rows), `stimuli` (what is shown, frozen) and `example`
(the one in the instructions); `auth` has secrets and codes, `links` the invitations.

Asking: `serve` runs the pages of `app`, whose routers are `participant`, `task` and `organiser`. `request_context` is
what they share, `page_context` what a page shows, `forms` what a browser sent; `schedule` says who sees what in which
order. `connections` and `security_middleware` stand between them and the network. `database` keeps the `answers` in
`tables`; `progress` and `export` show them, `synthetic_annotators` makes some up.

Reading: `analyze` takes `analyze_ranking`, `analyze_simulation` or `analyze_rating`, which give `findings`: `contrasts`
between methods, `trueskill_ranking`, words from `summary_text`, doubts from `quality_checks`.

To add a kind of study: a name in `StudyOptions.kind`, its steps, its page, its form and its analysis.
"""
