"""The verdict on a run: a headline and sentences, each backed by the claims of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from didact.reports.leaders import CHANCE, faithfulness_text, leading_texts, other_measures_texts, quoted
from didact.reports.standing import (
    SEEDS,
    Standing,
    gap_text,
    more_data_advice,
    same_temperature_text,
    standings,
)
from didact.results.comparison import Comparison
from didact.results.documents import number
from didact.results.gains import FEW_SEEDS, NONE, GainRow, column_name
from didact.results.number_format import join_names
from didact.results.target_normalisation import RAW
from didact.stats.claims import ALPHA

CEILING: Final = 0.99  # simulability without explanations from which on there is nothing to gain
BARELY: Final = 0.1  # an interval that starts below this share of the gain barely exceeds 0


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run.

    `level` is clear, close, mixed, alone, beaten, unsure, nothing, ceiling, missing, unlearned or empty. `best` is the
    method that ranks first; `tied` are `best` and the methods with a gain that cannot be distinguished from it.
    `confidence_notes` say how sure that is, `comparison_notes` compare with controls and rivals, and `other_notes` give
    the leaders by other measures.
    """

    level: str
    title: str
    summary: str
    confidence_notes: tuple[str, ...] = ()
    comparison_notes: tuple[str, ...] = ()
    best: str | None = None
    tied: tuple[str, ...] = ()
    other_notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The verdict as one paragraph."""
        return " ".join(
            [f"{self.title}.", self.summary, *self.confidence_notes, *self.comparison_notes, *self.other_notes]
        )


CAUTIONS: Final = (
    "It does not mean that the explanation is a faithful account of what the model computes, nor that people learn "
    "from it. The other measures below test other properties.",
    "It holds for these students, these rows and this training size. With enough rows, every student does well and "
    "gains shrink.",
    "Students that pool by attention learn easily from explanations that look like attention. A diffuse method can "
    "lose to the same method with sharper scores.",
)


def verdict_of(run: Comparison) -> Verdict:
    """The verdict on a run: which method teaches best, without controls, and how sure that is."""
    methods = [name for name in run.ranked if name not in run.controls]
    if not run.rows:
        return Verdict("empty", "Nothing could be compared", f"No training succeeded; {len(run.failed):,} runs failed.")
    if not run.judged:
        return _unlearned(run)
    if not methods:
        return Verdict("empty", "Only controls were compared", "Name explainers to compare them with these controls.")
    ranked = [name for name in methods if run.gain(name) is not None]
    if not ranked:
        reason = "no method has a finished run of the same seed" if run.rows_of(NONE) else "their runs are missing"
        summary = f"Gains are measured against students without explanations (none), and {reason}."
        return Verdict("empty", "No gain could be measured", summary)
    return _verdict_for(run, ranked[0], ranked[1:])


def _unlearned(run: Comparison) -> Verdict:
    """The verdict if no column can be judged: recorded reasons, and what to try."""
    reasons = list(dict.fromkeys(reason.rstrip(".") for reason in run.unlearned.values() if reason))
    reason_text = "; ".join(reasons[:3])
    reason_sentence = f" {reason_text[0].upper()}{reason_text[1:]}." if reason_text else ""
    return Verdict(
        "unlearned",
        "The students did not learn; this run says nothing about the explanations",
        f"No student learned to predict the model, with explanations or without, so gains are chance.{reason_sentence}",
        confidence_notes=(
            "No gain, rank or interval of this run is a result.",
            "Try more rows (--train-sizes), more epochs (--epochs), another student (--students), or a pretrained base "
            "for the students (--base).",
        ),
        other_notes=leading_texts(run, ()),
    )


def _verdict_for(run: Comparison, best: str, other_methods: Sequence[str]) -> Verdict:
    rows = run.judged_rows(best)
    rivals = standings(run, best, other_methods)
    controls = standings(run, best, [name for name in run.ranked if name in run.controls and name != NONE])
    undecided = [name for name in other_methods if not rivals[name].is_beaten]
    tied = (best, *(name for name in undecided if (run.gain(name) or 0.0) > 0))
    level, title = _title(run, rows, rivals, controls, tied)
    if level in ("clear", "close", "alone", "mixed"):
        title += faithfulness_text(run, tied)
    tied = tied if level == "close" else (best,)
    comparison_notes = _comparison_notes(run, best, controls, rivals) if run.contrasts else [run.why_no_contrasts]
    confidence_notes, other_notes = tuple(_confidence_notes(run, rows, rivals, tied)), other_measures_texts(run, tied)
    return Verdict(
        level, title, _summary(run, best, rows), confidence_notes, tuple(comparison_notes), best, tied, other_notes
    )


def _title(
    run: Comparison,
    rows: Sequence[GainRow],
    rivals: Mapping[str, Standing],
    controls: Mapping[str, Standing],
    tied: Sequence[str],
) -> tuple[str, str]:
    """Level and headline. Every lead in it is claimed by the rule in docs/compare.md."""
    name = f"“{tied[0]}”"
    above = [row for row in rows if row.is_above]
    undecided = [rival for rival, standing in rivals.items() if not standing.is_beaten]
    if all(_has_no_room(run, row) for row in rows):
        return "ceiling", "Students predict this model without any explanation: there is nothing to gain"
    if not any((row.gain or 0.0) > 0 for row in rows):
        return "nothing", "No method helped: students did no better than without explanations"
    if not run.contrasts:
        return "missing", f"{name} ranks first; without contrasts no lead can be claimed"
    if not above:
        return "unsure", f"No method clearly teaches: {name} ranks first, but this may be chance"
    if unbeaten := [
        control
        for control in CHANCE
        if control in controls and controls[control].columns and not controls[control].is_beaten
    ]:
        reached = [control for control in unbeaten if _reaches(run, rows, control)]
        if reached:
            return "beaten", f"{name} ranks first, but {' and '.join(reached)} marks teach as much"
        return "beaten", f"{name} ranks first, but is not clearly ahead of {' and '.join(unbeaten)} marks"
    if len(above) < len(rows):
        return "mixed", f"{name} ranks first, and clearly teaches in {len(above)} of {len(rows)} combinations"
    if not rivals:
        return "alone", f"{name} teaches; there was no other method to compare it with"
    partly = [rival_name for rival_name in undecided if rivals[rival_name].ahead and not rivals[rival_name].behind]
    if undecided and partly == undecided:
        if len(partly) > 1:
            return "close", f"{name} leads, but not clearly in every combination"
        scope = f"in only {rivals[partly[0]].ahead} of {rivals[partly[0]].columns} combinations"
        return "close", f"{name} leads, but is clearly ahead of “{partly[0]}” {scope}"
    if len(tied) > 1 and all(rivals[rival].ahead + rivals[rival].alike == rivals[rival].columns for rival in undecided):
        return "close", f"{quoted(tied)} teach alike: temperature alone makes as much as the method"
    if len(tied) > 1:
        return "close", f"{quoted(tied)} lead, too close to call"
    if undecided:
        rival_text = f"“{undecided[0]}”" if len(undecided) == 1 else f"{len(undecided)} others"
        return "close", f"{name} leads, but not clearly: {rival_text} cannot be distinguished from it"
    return "clear", f"{name} teaches best"


def _reaches(run: Comparison, rows: Sequence[GainRow], control: str) -> bool:
    """True if the gain of a control is at least that of `rows` in half of their shared columns or more."""
    pairs = [(row, other) for row in rows if (other := run.find(control, row.column)) and other.gain is not None]
    return 2 * sum((other.gain or 0.0) >= (row.gain or 0.0) for row, other in pairs) >= len(pairs) > 0


def _has_no_room(run: Comparison, row: GainRow) -> bool:
    """True if students without explanations already agree with the model almost everywhere."""
    plain = run.find(NONE, row.column)
    return not run.is_correlation and plain is not None and (plain.mean or 0.0) >= CEILING


def _summary(run: Comparison, best: str, rows: Sequence[GainRow]) -> str:
    if len(rows) > 1:
        gains = [row.gain or 0.0 for row in rows]
        return (
            f"Over {len(rows)} combinations of student and training size, students who saw “{best}” while learning"
            f"{', at its best temperature in each,' if any(row.band for row in rows) else ''} "
            f"gain {run.format.signed(run.gain(best))} {run.unit} on average over students who saw no explanation "
            f"(from {run.format.signed(min(gains))} to {run.format.signed(max(gains))})."
        )
    row = rows[0]
    plain = run.find(NONE, row.column)
    reached, without = run.format.plain(row.mean), run.format.plain(plain.mean if plain else None)
    sample_text = f"{row.seeds} {'seed' if row.seeds == 1 else 'seeds'}, {row.test_rows:,} test rows"
    is_corrected = row.level is not None and row.level > 1 - ALPHA
    corrected = ", corrected for the number of methods" if is_corrected else ""
    interval = f"95 % interval {run.interval(row)}{corrected}" if row.has_interval else "no interval"
    if run.is_correlation:
        result_text = f"correlate with the model on unseen rows at r = {reached}, against {without} without"
    elif run.measure == "f1":
        result_text = f"reach an F1 of {reached} with the model's answers on unseen rows, against {without}"
    elif run.is_balanced:
        result_text = (
            f"reach a balanced agreement with the model of {reached} % on unseen rows, against {without} % without"
        )
    else:
        result_text = f"agree with the model on {reached} % of unseen rows, against {without} % without"
    gain = f"{run.format.signed(row.gain)} {run.unit} ({interval}; {sample_text})"
    point = row.best_point
    sent = "" if point is None else f", sent at its best temperature ({point.temperature:g}),"
    return f"Students who saw “{best}” while learning{sent} {result_text}: {gain}."


def _confidence_notes(
    run: Comparison, rows: Sequence[GainRow], rivals: Mapping[str, Standing], tied: Sequence[str]
) -> list[str]:
    texts = [_gain_text(run, rows)]
    fewest_seeds = min(row.seeds for row in rows)
    if fewest_seeds == 1:
        texts.append(f"With one seed, nothing can be claimed about other seeds. Use {SEEDS} (--seeds {SEEDS}).")
    elif fewest_seeds < FEW_SEEDS:
        texts.append(
            f"With {fewest_seeds} seeds, the variation between students is poorly known, so intervals are wide. Use "
            f"{SEEDS} (--seeds {SEEDS})."
        )
    texts += filter(None, [_more_data_note(run, rows, rivals, tied), _sharpness_note(run, rows)])
    low_seed_rows = [row for row in run.rows if row.low_seeds and row.column in run.judged]
    texts += [f"{column_name(row.column)}: {row.modes_sentence}" for row in low_seed_rows[:3]]
    if len(low_seed_rows) > 3:
        texts.append(f"The same holds for {len(low_seed_rows) - 3} more rows of the table (‡).")
    if run.failed:
        texts.append(f"{len(run.failed):,} runs failed and are missing from these numbers.")
    if run.unlearned:
        names = "; ".join(column_name(column) for column in run.unlearned)
        texts.append(f"Left out, because their students did not learn: {names}.")
    return texts


def _sharpness_note(run: Comparison, rows: Sequence[GainRow]) -> str:
    """The sentence on what was done about the sharpness of explanations."""
    if run.about.target_normalisation == RAW:
        return (
            "Sharpness was not controlled, and temperature alone can change a gain by as much as the method does: use "
            "--target-normalisation band or tuned."
        )
    banded = max((row for row in rows if row.band), key=lambda row: row.span, default=None)
    if banded is None or banded.lowest_point is None:
        return run.about.sent
    grid = join_names([f"{point.temperature:g}" for point in banded.band])
    where = f" for {column_name(banded.column)}" if len(rows) > 1 else ""
    lowest, highest = (run.format.signed(gain) for gain in (banded.lowest_point.gain, banded.gain))
    return (
        f"Sent at the temperatures {grid}, “{banded.explainer}” gains from {lowest} to {highest}{where}: temperature "
        f"alone makes {run.format.plain(banded.span)} {run.unit}. A lead counts if it exceeds that of both methods."
    )


def _gain_text(run: Comparison, rows: Sequence[GainRow]) -> str:
    """The sentence on whether the leader's gain is claimed."""
    if not any(row.has_interval for row in rows):
        return "There are no intervals, so this may be chance."
    if not run.contrasts:
        return "An older version of didact computed these intervals, so no gain is claimed."
    above = [row for row in rows if row.is_above]
    if len(rows) > 1:
        return f"The interval exceeds 0 in {len(above)} of {len(rows)} combinations (p < 0.05, Holm-corrected)."
    row = rows[0]
    where = "exceeds 0" if above else "is below 0: the explanations do harm" if row.is_below else "includes 0"
    barely = " barely" if above and (row.low or 0.0) < BARELY * (row.gain or 0.0) else ""
    p = "" if row.p is None else f" (p = {row.p:.2g}, Holm-corrected for the number of methods)"
    return f"The interval{barely} {where}{p}."


def _more_data_note(
    run: Comparison, rows: Sequence[GainRow], rivals: Mapping[str, Standing], tied: Sequence[str]
) -> str:
    """Advice on more data if the leader's gain or its lead is undecided, else ""."""
    for row in rows:
        contrast = run.contrasts.get(row.explainer, NONE, row.column)
        if not row.claimed and contrast is not None and contrast.difference > 0:
            alpha = ALPHA if row.level is None else 1 - row.level
            return more_data_advice(contrast, alpha=alpha, what=f"the gain of {row.explainer}")
    undecided = [*tied[1:], *(name for name in rivals if name not in tied)]
    claim = next((claim for name in undecided if (claim := rivals[name].undecided_claim)), None)
    if claim is None or claim.level is None:
        return ""
    rival = next(name for name in undecided if rivals[name].undecided_claim is claim)
    return more_data_advice(claim.contrast, alpha=1 - claim.level, what=f"{tied[0]} against {rival}")


def _comparison_notes(
    run: Comparison, best: str, controls: Mapping[str, Standing], rivals: Mapping[str, Standing]
) -> list[str]:
    texts = [_control_note(run, best, controls[name]) for name in CHANCE if name in controls and controls[name].columns]
    others = [standing for name, standing in controls.items() if name not in CHANCE and standing.columns]
    ahead = [standing for standing in others if standing.behind == standing.columns]
    undecided = [standing for standing in others if standing not in ahead and not standing.is_beaten]
    if ahead:
        texts.append(f"These controls clearly teach more: {_with_gaps(run, best, ahead)}.")
    if undecided:
        texts.append(f"It cannot be distinguished from these controls: {_with_gaps(run, best, undecided)}.")
    majority = number(run.about.get("majority"))
    if majority is not None:
        texts.append(f"Always predicting the most frequent answer reaches {run.format.plain(majority)} %.")
    return [*texts, *_rival_notes(run, best, rivals)]


def _control_note(run: Comparison, best: str, standing: Standing) -> str:
    marks = {"random": "random marks", "trivial": "marks that only give the answer away (trivial)"}[standing.rival]
    gap = f"{_gain_text_beside(run, best, standing.rival)}; {gap_text(run, standing)}"
    if standing.is_beaten:
        return f"It is clearly ahead of {marks} ({gap})."
    if standing.behind == standing.columns:
        return f"It is clearly behind {marks} ({gap})."
    return f"It is not clearly ahead of {marks} ({gap})."


def _rival_notes(run: Comparison, best: str, rivals: Mapping[str, Standing]) -> list[str]:
    """A sentence on the methods that cannot be distinguished from the best one, or on the next one."""
    if not rivals:
        return ["No other method was compared. Name several: --explainers gradient_norm,lime."]
    undecided = [standing for standing in rivals.values() if not standing.is_beaten]
    if undecided:
        beaten = [name for name, standing in rivals.items() if standing.is_beaten]
        ahead = f" It is clearly ahead of {join_names(beaten)}." if beaten else ""
        texts = [f"Cannot be distinguished from it: {_with_gaps(run, best, undecided)}.{ahead}"]
        return [*texts, *filter(None, [same_temperature_text(run, best, undecided[0].rival)])]
    following = next(iter(rivals.values()))
    gap = f"{_gain_text_beside(run, best, following.rival)}; {gap_text(run, following)}"
    texts = [f"It is clearly ahead of every other method. The next one is {following.rival} ({gap})."]
    return [*texts, *filter(None, [same_temperature_text(run, best, following.rival)])]


def _with_gaps(run: Comparison, best: str, rival_standings: Sequence[Standing]) -> str:
    return ", ".join(
        f"{standing.rival} ({_gain_text_beside(run, best, standing.rival)}; {gap_text(run, standing)})"
        for standing in rival_standings
    )


def _gain_text_beside(run: Comparison, best: str, other: str) -> str:
    """The mean gain of another method. The best one's gain is added if they share only some combinations."""
    columns = run.shared([best, other])
    gain = f"gain {run.format.signed(run.gain(other, columns))}"
    everywhere = len(columns) == len(run.judged)
    return (
        gain if everywhere else f"{gain} against {run.format.signed(run.gain(best, columns))} where both were compared"
    )
