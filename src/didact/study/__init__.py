"""Studies with people: blind rankings, ratings and simulation studies, on one small machine and without torch.

`design` and `item_sampling` decide what is asked, `stimuli` freezes what is shown, `schedule` who sees what in which
order; `database` keeps the answers, `app` serves the pages, `analyze` reads the answers. A new kind of study is a new
name in `StudyOptions.kind`, its steps, its page, its form and its analysis.
"""
