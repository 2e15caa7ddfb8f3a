"""What a model may reply: the JSON schema of each task, and the checks a reply must pass."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from stagewatch.core.model import ClaimLabel
from stagewatch.scorer.judges.fence import neutral
from stagewatch.scorer.judges.protocol import ClaimReading, Constraint
from stagewatch.scorer.metrics.rewrite import ConstraintState
from stagewatch.scorer.metrics.sufficiency import SufficiencyLevel
from stagewatch.scorer.text.claims import plain

T = TypeVar("T")
_WORD = re.compile(r"\w+")

VERSION = "parser-1"

LABELS: Mapping[str, ClaimLabel] = {
    "SUPPORTED": "SUPPORTED",
    "ABSENT": "ABSENT",
    "CONTRADICTED": "CONTRADICTED",
}
LEVELS: Mapping[str, SufficiencyLevel] = {
    "sufficient": "sufficient",
    "partial": "partial",
    "insufficient": "insufficient",
}
STATES: Mapping[str, ConstraintState] = {
    "kept": "kept",
    "dropped": "dropped",
    "changed": "changed",
}


class BadReplyError(Exception):
    """A reply that breaks its rules; the text says which, without quoting the reply."""

    def __init__(self, message: str, *, incomplete: bool = False) -> None:
        super().__init__(message)
        self.incomplete = incomplete


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": _object(properties)}


_TEXT, _COUNT, _FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_LABEL = {"type": "string", "enum": list(LABELS)}

SCHEMAS: Mapping[str, dict[str, Any]] = {
    "faithfulness": _object(
        {
            "refused": _FLAG,
            "claims": _list(
                {"quote": _TEXT, "statement": _TEXT, "label": _LABEL, "evidence": _COUNT}
            ),
        }
    ),
    "statements": _object(
        {"labels": _list({"statement": _COUNT, "label": _LABEL, "evidence": _COUNT})}
    ),
    "relevance": _object({"marks": _list({"chunk": _COUNT, "relevant": _FLAG})}),
    "sufficiency": _object({"level": {"type": "string", "enum": list(LEVELS)}}),
    "relevancy": _object({"items": _list({"asked": _TEXT, "addressed": _FLAG})}),
    "rewrite": _object(
        {"constraints": _list({"text": _TEXT, "state": {"type": "string", "enum": list(STATES)}})}
    ),
}


def parse_object(text: str) -> dict[str, Any]:
    """The JSON object of a reply; a code fence or words around it are tolerated.

    Raises:
        BadReplyError: there is none.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise BadReplyError("the reply holds no JSON object")
    try:
        found = json.loads(text[start : end + 1])
    except ValueError:
        raise BadReplyError("the reply is not valid JSON") from None
    if not isinstance(found, dict):
        raise BadReplyError("the reply is not a JSON object")
    return found


def _items(reply: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = reply.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise BadReplyError(f"{name} must be a list of objects")
    return found


def _closed(allowed: Mapping[str, T], value: object, name: str) -> T:
    if not isinstance(value, str) or value not in allowed:
        raise BadReplyError(f"{name} must be one of {', '.join(allowed)}")
    return allowed[value]


def _flag(item: Mapping[str, Any], name: str) -> bool:
    value = item.get(name)
    if not isinstance(value, bool):
        raise BadReplyError(f"{name} must be true or false")
    return value


def _number(item: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = item.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadReplyError(f"{name} must be a whole number from {low} to {high}")
    return value


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadReplyError(f"{name} must be a text that is not empty")
    return value


def _label(item: Mapping[str, Any], passages: int) -> tuple[ClaimLabel, int | None]:
    label = _closed(LABELS, item.get("label"), "label")
    evidence = _number(item, "evidence", 0, passages)
    if label != "ABSENT" and evidence == 0:
        raise BadReplyError(f"{label} needs the number of a chunk as evidence")
    return label, evidence - 1 if evidence and label != "ABSENT" else None


def _tokens(text: str) -> list[tuple[str, int, int]]:
    return [(neutral(m.group()).casefold(), m.start(), m.end()) for m in _WORD.finditer(text)]


def find_quote(answer: str, quote: str, start: int = 0) -> tuple[int, int] | None:
    """Offsets of `quote` in `answer`, the first from `start` on, else the first at all.

    Words must be the same in the same order; white space, case and punctuation may differ, since
    models tidy them up. None when the words are not there.
    """
    wanted = [word for word, _, _ in _tokens(quote)]
    there = _tokens(answer)
    if not wanted:
        return None
    places = [
        (there[i][1], there[i + len(wanted) - 1][2])
        for i in range(len(there) - len(wanted) + 1)
        if [word for word, _, _ in there[i : i + len(wanted)]] == wanted
    ]
    return next((place for place in places if place[0] >= start), places[0] if places else None)


def read_claims(
    reply: Mapping[str, Any], answer: str, window: Sequence[str]
) -> tuple[tuple[ClaimReading, ...], bool]:
    """(claims, refused) of a faithfulness reply.

    Raises:
        BadReplyError: a label outside the set, evidence out of range, words that are not in the
            answer, no claims for an answer that does not refuse.
    """
    refused = _flag(reply, "refused")
    claims = []
    after = 0
    for item in _items(reply, "claims"):
        label, passage = _label(item, len(window))
        span = find_quote(answer, _text(item, "quote"), after)
        if span is None:
            raise BadReplyError("quote must be copied from the answer word by word")
        after = span[0]
        text = answer[span[0] : span[1]]
        claims.append(
            ClaimReading(
                text=text,
                start=span[0],
                end=span[1],
                # The guard checks the answer's own words: a model's paraphrase may mend a number.
                judged=plain(text) or text,
                label=label,
                passage=passage,
                evidence=window[passage][:400] if passage is not None else "",
            )
        )
    if not claims and not refused:
        raise BadReplyError("claims must not be empty unless refused is true", incomplete=True)
    return tuple(claims), refused and not claims


def read_labels(
    reply: Mapping[str, Any], statements: Sequence[str], window: Sequence[str]
) -> tuple[ClaimReading, ...]:
    """One reading a statement, in order; raises as `read_claims`."""
    found: dict[int, tuple[ClaimLabel, int | None]] = {}
    for item in _items(reply, "labels"):
        found[_number(item, "statement", 1, len(statements))] = _label(item, len(window))
    if len(found) != len(statements):
        raise BadReplyError("every statement needs one entry", incomplete=True)
    readings = []
    for number, text in enumerate(statements, start=1):
        label, passage = found[number]
        evidence = window[passage][:400] if passage is not None else ""
        readings.append(ClaimReading(text, 0, len(text), text, label, passage, evidence))
    return tuple(readings)


def read_marks(reply: Mapping[str, Any], count: int) -> list[bool | None]:
    """One mark a chunk, None for those left out."""
    marks: list[bool | None] = [None] * count
    for item in _items(reply, "marks"):
        marks[_number(item, "chunk", 1, count) - 1] = _flag(item, "relevant")
    if None in marks:
        raise BadReplyError("every chunk needs one entry", incomplete=True)
    return marks


def read_level(reply: Mapping[str, Any]) -> SufficiencyLevel:
    """The level of a sufficiency reply."""
    return _closed(LEVELS, reply.get("level"), "level")


@dataclass(frozen=True, slots=True)
class AskedThings:
    """How many things were asked and how many addressed."""

    asked: int
    addressed: int


def read_asked(reply: Mapping[str, Any]) -> AskedThings:
    """Counts of a relevancy reply; at least one thing is asked."""
    flags = [_flag(item, "addressed") for item in _items(reply, "items")]
    if not flags:
        raise BadReplyError("items must not be empty", incomplete=True)
    return AskedThings(len(flags), sum(flags))


def read_constraints(reply: Mapping[str, Any]) -> tuple[Constraint, ...]:
    """The constraints of a rewrite reply."""
    return tuple(
        Constraint(_text(item, "text"), _closed(STATES, item.get("state"), "state"))
        for item in _items(reply, "constraints")
    )
