"""How far a judge agrees with people, and whether that is enough to let it raise alarms.

Everything here is pure and, with the same seed, gives the same numbers. Kappa is Cohen's (1960),
a share of agreement corrected for what two raters with the same habits would reach by chance; it
depends on prevalence, so the confusion matrix and Gwet's AC1 (2008) stand beside it.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from stagewatch.scorer import estimate

State = Literal["uncalibrated", "calibrated", "expired"]
Labels = tuple[str, str]
"""(what a person said, what the judge said) of one item."""

ENOUGH_LABELS = 30
"""Below this, or with a class nobody used, nothing can be told."""
MIN_KAPPA = 0.4
"""Lower end of kappa's interval that lets a judge alert: people among themselves reach 0.37 on
graded votes of faithfulness, and more on adjudicated labels."""
WIDTH = 0.2
"""An interval of agreement this wide, or narrower, is narrow enough to stop labelling."""
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """One label: how often people gave it, and the judge's precision and recall on it."""

    label: str
    prevalence: float
    precision: float | None
    recall: float | None


@dataclass(frozen=True, slots=True)
class Pair:
    """One item that a person and a judge have labelled: a claim's text, a chunk id, or "" for a
    whole turn.
    """

    item: str
    person: str
    judge: str
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge beside people on one kind of label.

    `matrix` has a row a label a person gave and a column a label the judge gave, both in the
    order of `labels`. `kappa` and `agreement` are None where they cannot be computed.
    `labels_needed` is how many more hand labels would make the interval of agreement `WIDTH`
    wide at the present agreement; `advice` says the state in one sentence.
    """

    metric: str
    fingerprint: str
    state: State
    n: int
    agreement: Interval | None
    kappa: Interval | None
    ac1: float | None
    labels: tuple[str, ...]
    matrix: tuple[tuple[int, ...], ...]
    by_label: tuple[LabelAgreement, ...]
    disagreements: tuple[Pair, ...]
    labels_needed: int
    advice: str


def observed_agreement(pairs: Sequence[Labels]) -> float | None:
    """Share of items on which both said the same; None without items."""
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else None


def cohens_kappa(pairs: Sequence[Labels]) -> float | None:
    """(agreement - chance) / (1 - chance), chance from both raters' own frequencies; in [-1, 1].

    None without items, and when both used one and the same label throughout: then chance is 1
    and nothing is left to measure.
    """
    if not pairs:
        return None
    n = len(pairs)
    people, judge = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = math.fsum(people[label] * judge[label] for label in people) / (n * n)
    if chance >= 1.0:
        return None
    return (sum(a == b for a, b in pairs) / n - chance) / (1.0 - chance)


def gwets_ac1(pairs: Sequence[Labels]) -> float | None:
    """Gwet's AC1: like kappa with a chance term that stays small when one label prevails.

    Chance is sum(q (1 - q)) / (labels - 1), q the mean frequency of a label. None as for kappa,
    or with a single label.
    """
    labels = sorted({label for pair in pairs for label in pair})
    if len(labels) < 2:
        return None
    n = len(pairs)
    shares = [sum((a == label) + (b == label) for a, b in pairs) / (2 * n) for label in labels]
    chance = math.fsum(q * (1 - q) for q in shares) / (len(labels) - 1)
    return (sum(a == b for a, b in pairs) / n - chance) / (1.0 - chance)


def bootstrap(
    pairs: Sequence[Labels],
    measure: Callable[[Sequence[Labels]], float | None],
    *,
    seed: int = 0,
    draws: int = _DRAWS,
) -> Interval | None:
    """The measure with its percentile bootstrap interval over items (2.5 % to 97.5 %).

    None when the measure has no value on `pairs`; draws on which it has none are left out.
    """
    value = measure(pairs)
    if value is None:
        return None
    rng = random.Random(seed)  # noqa: S311 - resampling, nothing secret
    drawn = (measure(rng.choices(pairs, k=len(pairs))) for _ in range(draws))
    found = sorted(one for one in drawn if one is not None) or [value]
    low, high = (found[min(len(found) - 1, int(q * len(found)))] for q in (0.025, 0.975))
    return Interval(value, low, high)


def wilson(successes: int, n: int) -> Interval | None:
    """Wilson's 95 % interval of a share; None without items."""
    if n == 0:
        return None
    share = successes / n
    return Interval(share, *estimate.wilson(share, n))


def labels_still_needed(agreement: float, n: int, width: float = WIDTH) -> int:
    """How many more labels until Wilson's interval of `agreement` is at most `width` wide, and
    until there are `ENOUGH_LABELS`.
    """
    total = max(n, 1)
    while (found := wilson(round(agreement * total), total)) and found.high - found.low > width:
        total += 1
    return max(0, total - n, ENOUGH_LABELS - n)


def calibrate(
    metric: str,
    pairs: Sequence[Pair],
    *,
    fingerprint: str,
    labelled_fingerprint: str | None = None,
    seed: int = 0,
) -> Calibration:
    """Compare a judge with people on one kind of label; deterministic for a seed.

    Args:
        metric: the kind of label, such as `faithfulness`.
        pairs: one an item that both have labelled.
        fingerprint: the judge in force.
        labelled_fingerprint: the judge whose word stands in `pairs`; another one than the judge
            in force makes a good calibration `expired`.
        seed: of the bootstrap.
    """
    both: list[Labels] = [(pair.person, pair.judge) for pair in pairs]
    labels = tuple(sorted({label for pair in both for label in pair}))
    counts = Counter(both)
    matrix = tuple(tuple(counts[person, judge] for judge in labels) for person in labels)
    same = sum(person == judge for person, judge in both)
    kappa = _kappa_interval(tuple(sorted(counts.items())), seed)
    needed = labels_still_needed(same / len(both) if both else 0.5, len(both))
    good, advice = _good_enough(both, kappa)
    state: State = "calibrated" if good else "uncalibrated"
    if good and labelled_fingerprint not in {None, fingerprint}:
        state = "expired"
        advice = "the judge has changed since these labels were compared; score the turns again"
    elif needed and not good:
        advice += f"; about {needed} more labels would narrow the interval enough"
    return Calibration(
        metric=metric,
        fingerprint=fingerprint,
        state=state,
        n=len(both),
        agreement=wilson(same, len(both)),
        kappa=kappa,
        ac1=gwets_ac1(both),
        labels=labels,
        matrix=matrix,
        by_label=tuple(_of_label(label, both) for label in labels),
        disagreements=tuple(pair for pair in pairs if pair.person != pair.judge),
        labels_needed=needed,
        advice=advice,
    )


@lru_cache(maxsize=256)
def _kappa_interval(counts: tuple[tuple[Labels, int], ...], seed: int) -> Interval | None:
    """Kappa's interval from the counts alone: pages ask again and again for the same labels."""
    pairs = [pair for pair, count in counts for _ in range(count)]
    return bootstrap(pairs, cohens_kappa, seed=seed)


def _of_label(label: str, pairs: Sequence[Labels]) -> LabelAgreement:
    hits = sum(pair == (label, label) for pair in pairs)
    people = sum(person == label for person, _ in pairs)
    judge = sum(said == label for _, said in pairs)
    return LabelAgreement(
        label,
        people / len(pairs),
        hits / judge if judge else None,
        hits / people if people else None,
    )


def _good_enough(pairs: Sequence[Labels], kappa: Interval | None) -> tuple[bool, str]:
    """Whether the labels let the judge count, and why in words."""
    if len(pairs) < ENOUGH_LABELS:
        return False, f"{len(pairs)} hand labels, {ENOUGH_LABELS} are needed to tell"
    if len({person for person, _ in pairs}) < 2:
        return False, f"{len(pairs)} hand labels, all of one kind: label some of the other"
    if kappa is None:
        return False, "kappa cannot be computed from these labels"
    said = f"kappa {kappa.value:.2f} ({kappa.low:.2f} to {kappa.high:.2f}) on {len(pairs)} labels"
    if kappa.low < MIN_KAPPA:
        return False, f"{said}: the lower end must reach {MIN_KAPPA}"
    return True, said


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two judges on the same items: who was right where, and McNemar's exact p-value (1947).

    `p_value` is the chance of a split at least as uneven if both were equally good; None when
    they were never apart.
    """

    n: int
    both_right: int
    only_first: int
    only_second: int
    both_wrong: int
    p_value: float | None


def compare_judges(triples: Sequence[tuple[str, str, str]]) -> Comparison:
    """Compare two judges on (person, first judge, second judge) labels."""
    first = [person == one for person, one, _ in triples]
    second = [person == two for person, _, two in triples]
    counts = Counter(zip(first, second, strict=True))
    apart = counts[True, False] + counts[False, True]
    p_value = None
    if apart:
        fewer = min(counts[True, False], counts[False, True])
        tail = math.fsum(math.comb(apart, k) for k in range(fewer + 1)) / 2**apart
        p_value = min(1.0, 2 * tail)
    return Comparison(
        n=len(triples),
        both_right=counts[True, True],
        only_first=counts[True, False],
        only_second=counts[False, True],
        both_wrong=counts[False, False],
        p_value=p_value,
    )
