"""Whether two quantities say the same, something else, or cannot be compared."""

from __future__ import annotations

import re
from typing import Literal

from stagewatch.scorer.facts.quantities import Quantity

Relation = Literal["same", "different", "incomparable"]

APPROX_TOLERANCE = 0.10
"""How far "about 4,400" may be from the source, relative."""

CONVERTED_TOLERANCE = 0.01
"""How far a converted measure may be off: 12 miles as 19.3 km, relative."""

_ALWAYS_DIFFERENT = ({"time", "working days"}, {"percent", "points"})
_BARE = frozenset({"number", "year"})
_RUN = re.compile(r"\d+")
_MONTH_DAYS = 30.436875
"""Mean Gregorian month; used only where a duration in days meets one in months."""


def compare(claim: Quantity, source: Quantity) -> Relation:
    """How the claim's quantity stands to the source's.

    `different` needs two values of one kind. Years, identifiers, dates and money are exact;
    other numbers may be the source rounded to the claim's digits when the rounding moves them by
    at most half a percent, or by 10 % behind "about". A bare number equals a measure with the
    same figure and cannot be compared with one of another figure. A unit that was inferred from
    a range end does not make equal figures differ.
    """
    if claim.kind in {"date", "time"} or source.kind in {"date", "time"}:
        return _compare_dates(claim, source)
    if claim.kind == "ident" or source.kind == "ident":
        return _compare_idents(claim, source)
    if claim.raw == source.raw and (claim.inferred or source.inferred):
        return "same"
    if claim.kind == source.kind == "year":
        return "same" if _exact_or_about(claim, source) else "different"
    if claim.kind in _BARE or source.kind in _BARE:
        return _compare_bare(claim, source)
    if claim.kind == "money" and source.kind == "money" and "" in {claim.unit, source.unit}:
        return "same" if _close(claim, source) else "different"
    if claim.kind != source.kind or claim.unit != source.unit:
        return _across_units(claim, source)
    same = _close(claim, source) and not _bounds_clash(claim, source)
    return "same" if same else "different"


def _compare_bare(claim: Quantity, source: Quantity) -> Relation:
    """At least one of the two is a number without a unit."""
    if "ordinal" in {claim.unit, source.unit} and claim.unit != source.unit:
        return "same" if claim.value == source.value else "incomparable"
    both_numbers = claim.kind == source.kind == "number"
    # A scale word is part of the value: 5 million against 5 billion is no match of figures.
    scaled = any(q.kind == "number" and q.value != q.raw for q in (claim, source))
    if scaled and not both_numbers and claim.raw == source.raw:
        return "different"
    same_figure = claim.raw == source.raw and not both_numbers
    if same_figure or _close(claim, source):
        return "different" if _bounds_clash(claim, source) else "same"
    # A year is no amount: "2018" and "two" stand in one place by accident.
    return "different" if both_numbers else "incomparable"


def _bounds_clash(claim: Quantity, source: Quantity) -> bool:
    return {claim.bound, source.bound} == {"min", "max"}


def _across_units(claim: Quantity, source: Quantity) -> Relation:
    units = {claim.unit, source.unit}
    if units == {"time", "months"}:
        days = [
            q.value / 86400 if q.unit == "time" else q.value * _MONTH_DAYS for q in (claim, source)
        ]
        # A policy of 30 days is not one of a month: only clearly unlike durations differ.
        return "different" if abs(days[0] - days[1]) > 0.1 * max(days) else "incomparable"
    if units == {"celsius", "fahrenheit"}:
        celsius = [
            q.value if q.unit == "celsius" else (q.value - 32) / 1.8 for q in (claim, source)
        ]
        return "same" if abs(celsius[0] - celsius[1]) <= 0.6 else "different"
    if units in _ALWAYS_DIFFERENT:
        return "different"
    return "incomparable"


def _compare_dates(claim: Quantity, source: Quantity) -> Relation:
    if claim.kind == source.kind == "time":
        return "same" if claim.value == source.value else "different"
    if claim.kind == source.kind == "date":
        both = [(a, b) for a, b in zip(claim.parts, source.parts, strict=True) if a and b]
        if not both:
            return "incomparable"
        if any(a != b for a, b in both):
            return "different"
        missing = any(a and not b for a, b in zip(claim.parts, source.parts, strict=True))
        return "incomparable" if missing else "same"
    date, other = (claim, source) if claim.kind == "date" else (source, claim)
    if date.kind == "date" and other.kind == "year" and date.parts[0]:
        only_year = date is source or date.parts[1:] == (None, None)
        if date.parts[0] != other.value:
            return "different"
        return "same" if only_year else "incomparable"
    return "incomparable"


def _compare_idents(claim: Quantity, source: Quantity) -> Relation:
    if claim.kind == source.kind and not claim.approx:
        return "same" if claim.unit == source.unit else "different"
    ours, theirs = _figures(claim), _figures(source)
    if not ours or not theirs:
        return "incomparable"
    if claim.approx:
        near = any(abs(a - b) <= APPROX_TOLERANCE * b for a in ours for b in theirs)
        return "same" if near else "different"
    # 860.872 is the beginning of 860.872.7716, not another number.
    long, short = (source, claim) if source.kind == "ident" else (claim, source)
    return "same" if long.unit.startswith(short.text.lower()) or ours == theirs else "different"


def _figures(quantity: Quantity) -> list[float]:
    if quantity.kind != "ident":
        return [quantity.raw]
    return [float(run) for run in _RUN.findall(quantity.unit.replace(",", ""))]


def _exact_or_about(claim: Quantity, source: Quantity) -> bool:
    if claim.approx:
        return abs(claim.value - source.value) <= APPROX_TOLERANCE * abs(source.value)
    return claim.value == source.value


def _close(claim: Quantity, source: Quantity) -> bool:
    gap = abs(claim.value - source.value)
    size = max(abs(source.value), abs(claim.value))
    if gap <= 1e-9 * max(1.0, size):
        return True
    converted = claim.kind == "measure" and claim.value * source.raw != source.value * claim.raw
    if claim.approx and not converted and claim.digits > source.digits:
        # Rounding never adds digits: "about 53" does not come from 50.
        return False
    if claim.approx:
        return gap <= APPROX_TOLERANCE * size
    if claim.kind in {"money", "year"} or source.kind == "year":
        return False
    if gap <= 0.5 * claim.step + 1e-9 and gap <= 0.005 * size and claim.digits >= 2:
        return True
    return converted and gap <= CONVERTED_TOLERANCE * size
