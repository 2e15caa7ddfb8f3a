"""The first failing stage of a turn: a table in order, of which exactly one line matches.

The table is data: each line is a stage and the alternatives under which it matches; each
alternative names signals and the values they may have. The last line takes what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from stagewatch.core.model import Diagnosis, Stage

Level = Literal["high", "low", "unknown"]
Flag = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of each stage; `unknown` where nothing could be measured.

    `stale_context` is narrower than the metric of that name: a superseded version stood in the
    window and could have mattered, because a claim rests on it or because it would have been
    relevant to the question were it current (docs/adr/008-stale-source.md).
    """

    rewrite: Level = "unknown"
    answered_from_superseded: Flag = "unknown"
    stale_context: Flag = "unknown"
    retrieved: Level = "unknown"
    recall: Level = "unknown"
    rank: Level = "unknown"
    precision_at_k: Level = "unknown"
    faithfulness: Level = "unknown"
    wrong_refusal: Flag = "unknown"
    answer_relevancy: Level = "unknown"
    answer: Level = "unknown"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: it matches when any alternative does, each a conjunction."""

    number: int
    stage: Stage
    where: str
    any_of: tuple[Mapping[str, frozenset[str]], ...]

    def matches(self, signals: Signals) -> bool:
        """Whether some alternative allows the value of every signal it names."""
        return any(
            all(getattr(signals, name) in allowed for name, allowed in case.items())
            for case in self.any_of
        )


_HIGH, _LOW, _YES = frozenset({"high"}), frozenset({"low"}), frozenset({"yes"})
_LOW_OR_UNKNOWN = frozenset({"low", "unknown"})
_NOT_LOW = frozenset({"high", "unknown"})
_NOT_YES = frozenset({"no", "unknown"})

_NO_KNOWN_LOW: Mapping[str, frozenset[str]] = {
    "rewrite": _NOT_LOW,
    "answered_from_superseded": _NOT_YES,
    "stale_context": _NOT_YES,
    "retrieved": _NOT_LOW,
    "recall": _NOT_LOW,
    "rank": _NOT_LOW,
    "precision_at_k": _NOT_LOW,
    "faithfulness": _NOT_LOW,
    "wrong_refusal": _NOT_YES,
    "answer_relevancy": _NOT_LOW,
}

TABLE: tuple[Line, ...] = (
    Line(1, "rewrite", "query rewriting", ({"rewrite": _LOW},)),
    Line(
        2,
        "stale_source",
        "index hygiene",
        (
            {"answered_from_superseded": _YES},
            {"stale_context": _YES, "answer": _LOW_OR_UNKNOWN},
        ),
    ),
    Line(
        3,
        "memory",
        "the model guessed; fix retrieval anyway",
        ({"retrieved": _LOW, "answer": _HIGH},),
    ),
    Line(
        4,
        "retrieval_and_generation",
        "bisect; retrieval first",
        ({"retrieved": _LOW, "faithfulness": _LOW},),
    ),
    Line(5, "retrieval", "chunking, embeddings, index, query", ({"retrieved": _LOW},)),
    Line(
        6,
        "ranking",
        "reranker, hybrid search, top-k",
        (
            {"retrieved": _HIGH, "recall": _LOW, "answer": _LOW_OR_UNKNOWN},
            {"retrieved": _HIGH, "rank": _LOW, "answer": _LOW_OR_UNKNOWN},
            {"retrieved": _HIGH, "precision_at_k": _LOW, "answer": _LOW_OR_UNKNOWN},
        ),
    ),
    Line(
        7,
        "generation",
        "prompt, model, output constraints",
        ({"faithfulness": _LOW}, {"wrong_refusal": _YES}),
    ),
    Line(
        8,
        "evasion",
        "prompt: it says something rather than the right thing",
        ({"answer_relevancy": _LOW},),
    ),
    Line(
        9,
        "label_or_corpus",
        "gold labels, or the source itself is wrong",
        # At least one stage must be known to be high: with nothing measured nothing is shown.
        (
            {**_NO_KNOWN_LOW, "recall": _HIGH, "answer": _LOW},
            {**_NO_KNOWN_LOW, "retrieved": _HIGH, "answer": _LOW},
            {**_NO_KNOWN_LOW, "faithfulness": _HIGH, "answer": _LOW},
        ),
    ),
    Line(
        10,
        "ok",
        "nothing; if every row looks so, tighten thresholds",
        (
            {
                "recall": _HIGH,
                "faithfulness": _HIGH,
                "rank": _NOT_LOW,
                "precision_at_k": _NOT_LOW,
                "answer": _NOT_LOW,
            },
        ),
    ),
    Line(11, "unknown", "capture the missing inputs", ({},)),
)


def matching_line(signals: Signals) -> Line:
    """The first line that matches; the last one always does."""
    return next(line for line in TABLE if line.matches(signals))


@dataclass(frozen=True, slots=True)
class Facts:
    """Numbers that make the sentence concrete; every one may be missing.

    `relevant_at` is the best retrieved rank (1-based), `depth` the length of that list,
    `window_size` how many chunks the model saw, `relevant_in_window` the position there.
    `finding` is the guard's or judge's first reason, such as "14 days against 30 days".
    `stale_positions` are the window positions of superseded versions that could have mattered.
    """

    relevant_at: int | None = None
    depth: int | None = None
    window_size: int | None = None
    relevant_in_window: int | None = None
    relevant_chunks: int | None = None
    claims: int | None = None
    unsupported: int = 0
    contradicted: int = 0
    finding: str = ""
    stale_positions: tuple[int, ...] = ()
    refused: bool = False
    person_said: bool = False


def diagnose(signals: Signals, facts: Facts | None = None) -> Diagnosis:
    """The stage that failed first, why in one sentence, and which inputs were missing.

    Total: every combination of signals has exactly one diagnosis (METRICS.md, Diagnosis).
    """
    line = matching_line(signals)
    return Diagnosis(
        stage=line.stage,
        why=_sentence(line.stage, signals, facts or Facts()),
        missing=_missing(signals) if line.stage == "unknown" else (),
    )


_DECIDES: tuple[str, ...] = ("retrieved", "recall", "faithfulness")


def _missing(signals: Signals) -> tuple[str, ...]:
    named = [name for name in _DECIDES if getattr(signals, name) == "unknown"]
    if named:
        return tuple(named)
    return tuple(s.name for s in fields(signals) if getattr(signals, s.name) == "unknown")


def _sentence(stage: Stage, signals: Signals, facts: Facts) -> str:
    match stage:
        case "rewrite":
            return "The rewritten query lost or changed something the conversation asked for." + (
                f" ({facts.finding})" if facts.finding else ""
            )
        case "stale_source":
            return _stale(signals, facts)
        case "memory":
            return (
                "No relevant passage was fetched, and the answer was right all the same: a guess."
            )
        case "retrieval_and_generation":
            return (
                f"No relevant passage was fetched{_depth(facts)}, and the answer states things "
                "the model was never shown."
            )
        case "retrieval":
            tail = ", and the model said so" if facts.refused else ""
            return f"No relevant passage was fetched{_depth(facts)}{tail}."
        case "ranking":
            return _ranking(signals, facts)
        case "generation":
            return _generation(signals, facts)
        case "evasion":
            return "The passages were good, but the answer does not address what was asked."
        case "label_or_corpus":
            said = (
                "a person said it was wrong" if facts.person_said else "it misses the expectation"
            )
            return f"Every stage did its work, yet {said}: check the label, or the source itself."
        case "ok":
            return "Every stage did its work."
        case "unknown":
            named = ", ".join(_missing(signals)).replace("_", " ")
            return f"Not enough was captured or judged to tell: {named} unknown."


def _depth(facts: Facts) -> str:
    return f" ({facts.depth} looked at)" if facts.depth else ""


def _stale(signals: Signals, facts: Facts) -> str:
    where = ", ".join(str(position) for position in facts.stale_positions)
    at = f" at position {where}" if where else ""
    if signals.answered_from_superseded == "yes":
        return f"The answer rests on a superseded version of its source{at}."
    return f"A superseded version of what was asked about stood in the window{at}."


def _ranking(signals: Signals, facts: Facts) -> str:
    if facts.relevant_at and facts.window_size and facts.relevant_in_window is None:
        return (
            f"The right passage was fetched but stood at position {facts.relevant_at}; "
            f"the model saw {facts.window_size}."
        )
    if signals.rank == "low" and facts.relevant_at:
        return f"The first relevant passage stood only at position {facts.relevant_at}."
    if signals.recall == "low":
        return "A relevant passage was fetched, but the window does not hold everything needed."
    return "Relevant passages stand behind irrelevant ones in the window."


def _generation(signals: Signals, facts: Facts) -> str:
    if signals.wrong_refusal == "yes":
        return "The window held what was needed, and the model refused to answer."
    finding = f": {facts.finding}" if facts.finding else ""
    if facts.contradicted and facts.claims:
        return (
            f"The window held what was needed, but {facts.contradicted} of {facts.claims} "
            f"statements {'contradicts' if facts.contradicted == 1 else 'contradict'} it{finding}."
        )
    if facts.unsupported and facts.claims:
        return (
            f"The window held what was needed, but {facts.unsupported} of {facts.claims} "
            f"statements {'is' if facts.unsupported == 1 else 'are'} not in it{finding}."
        )
    return "The answer goes beyond what the window supports."
