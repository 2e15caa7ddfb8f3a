"""Claims: an answer split into single statements, each with its offsets in the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stagewatch.scorer.text.citations import lists_sources, without_citations
from stagewatch.scorer.text.refusals import is_advice, is_small_talk, says_it_cannot
from stagewatch.scorer.text.sentences import sentence_spans
from stagewatch.scorer.text.words import STOP, content_stems, read_words

_SUBJECT = (
    r"(?:you|it|they|we|he|she|there|this|that|these|those|the|your|our|its|their|his|her|a|an|"
    r"no|all|most|some|each)\b"
)
_CLAUSE = re.compile(
    r";\s+(?![^\[]*\])(?![^(]*\))"
    r"|,\s+(?:and|but|so|while|whereas|although|though)\s+(?=" + _SUBJECT + r")"
    r"|,?\s+(?:but(?!\s+(?:also|not|only|rather|for)\b)|whereas)\s+"
    r"|\s+and\s+(?=(?:you|it|they|we|he|she|there)\s)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*(?:[-*•–]+|\(?\d{1,2}[.)])\s+")
_LEAD = re.compile(
    r"^(?:(?:yes|no|sure|certainly|indeed|actually|of course|absolutely|well|so|also|"
    r"in addition|"
    r"additionally|however|therefore|furthermore|moreover|overall|in short|in summary)"
    r"\s*[,:.!]\s*|"
    r"(?:according to|based on|as (?:stated|mentioned|noted) in|per) (?:the|our|your|this|these)\b"
    r"[^,]{0,60},\s*)+",
    re.IGNORECASE,
)
_TONE = re.compile(
    r"\b(?:probably|perhaps|possibly|maybe|likely|certainly|definitely|clearly|obviously|"
    r"undoubtedly|"
    r"i think|i believe|it seems that|it appears that|as far as i know|"
    r"without (?:a )?doubt)\b,?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ClaimSpan:
    """`text` is `answer[start:end]`; `judged` is the same without bullets, citations and tone.

    Tone words are taken out before judging since they sway judges and change no fact.
    """

    text: str
    start: int
    end: int
    judged: str


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """What an answer consists of. `refused`: it says it cannot answer and states nothing else."""

    claims: tuple[ClaimSpan, ...]
    refused: bool
    hedged: bool


def plain(text: str) -> str:
    """`text` without bullets, citations, markdown, leading particles and tone words."""
    body = _BULLET.sub("", text).replace("**", "").replace("`", "")
    body = _LEAD.sub("", without_citations(body).strip())
    return _TONE.sub("", body).strip()


def read_answer(answer: str) -> AnswerReading:
    """Split `answer` into claims; sentences that say "not known" and small talk are none."""
    claims: list[ClaimSpan] = []
    advice: list[ClaimSpan] = []
    unable = False
    for start, end in sentence_spans(answer):
        sentence = answer[start:end]
        if says_it_cannot(sentence):
            unable = True
            # "I am not sure, but …": what follows the hedge is a statement like any other.
            rest = _clauses(answer, start, end)
            if len(rest) > 1:
                claims.extend(c for c in rest if not _states_nothing(c.text))
            continue
        if is_small_talk(sentence) or not content_stems(read_words(sentence)):
            continue
        if lists_sources(sentence):
            continue
        (advice if is_advice(sentence) else claims).extend(_clauses(answer, start, end))
    refused = unable and not claims
    if not refused:
        claims = sorted(claims + advice, key=lambda claim: claim.start)
    return AnswerReading(tuple(claims), refused, unable)


def _states_nothing(text: str) -> bool:
    return says_it_cannot(text) or is_small_talk(text) or is_advice(text)


def _clauses(answer: str, start: int, end: int) -> list[ClaimSpan]:
    sentence = answer[start:end]
    pieces: list[tuple[int, int]] = []
    begin = 0
    for match in _CLAUSE.finditer(sentence):
        left, right = sentence[begin : match.start()], sentence[match.end() :]
        if (_substantial(left) or says_it_cannot(left)) and _substantial(right):
            pieces.append((begin, match.start()))
            begin = match.end()
    pieces.append((begin, len(sentence)))
    spans = []
    for first, last in pieces:
        text = sentence[first:last]
        judged = plain(text)
        if judged:
            spans.append(ClaimSpan(text, start + first, start + last, judged))
    return spans


def _substantial(text: str) -> bool:
    words = [word for word in read_words(text).words if word not in STOP]
    return len(words) >= 2
