"""Refusals and small talk: sentences that state nothing a source could support."""

from __future__ import annotations

import re

_NEG = (
    r"(?:do(?:es)?|did|is|are|was|were|could|can|would|will|have|has)\s*(?:not|n['’]t)|"
    r"can ?not|can['’]t"
)
_SOURCE = (
    r"(?:context|passages?|documents?|documentation|sources?|excerpts?|texts?|articles?|materials?|"
    r"information|details?|records?|policy|policies|knowledge base|snippets?|search results?)"
)
_REFUSALS = (
    # I do not know / cannot find / am unable to say
    r"\b(?:i|we)\b[^.!?]{0,25}?\b(?:" + _NEG + r"|am not|'m not|are not)\s+(?:\w+\s+){0,2}?"
    r"(?:have|find|know|answer|provide|determine|locate|see|tell|say|help|sure|aware|give|offer|"
    r"access|confirm|comment|(?:been )?able to (?:find|answer|provide|locate|determine|help|tell|"
    r"say|confirm|see|access))\b",
    r"\b(?:i|we)\b(?:\s+am|\s+are|['’]m|['’]re)\s+(?:\w+\s+)?(?:unable|not able|unaware|sorry)\b",
    r"\b(?:unable|not able) to (?:find|answer|provide|determine|locate|help|give|say|tell)\b",
    r"\b(?:i|we) (?:have|found|see) no (?:\w+\s+){0,2}" + _SOURCE,
    r"\bsorry\b[^.!?]{0,40}\b(?:" + _NEG + r"|no|unable)\b",
    # the source does not say
    _SOURCE + r"\b[^.!?]{0,60}?\b(?:" + _NEG + r")\s+(?:\w+\s+){0,2}?"
    r"(?:contain|mention|provide[d]?|specif\w+|include[d]?|say|state[d]?|cover(?:ed)?|address|"
    r"available|given|discuss(?:ed)?|indicate|list(?:ed)?|describe|found|have|offer|answer|tell|"
    r"exist|enough|sufficient)\b",
    r"\b(?:no|not enough|not sufficient|insufficient|without) (?:\w+\s+){0,3}" + _SOURCE
    + r"\b[^.!?]{0,40}(?:available|provided|about|on|regarding|to answer|found|given|for|that)\b",
    r"\bthere (?:is|was|are) no (?:\w+\s+){0,3}(?:" + _SOURCE + r"|mention|answer)\b",
    r"\bnot (?:mentioned|specified|stated|provided|available|covered|described|given|included) "
    r"(?:\w+\s+){0,2}?(?:in|by|within) (?:the |my |our |this |these |any )*(?:\w+\s+)?" + _SOURCE,
    r"\b(?:that|this|it) is (?:outside|beyond) (?:the scope|my)\b",
    r"\b(?:cannot|can['’]t|can not|could not|couldn['’]t) be (?:determined|answered|found)\b",
    r"^(?:unanswerable|no answer|not found|unknown|n/?a)\W*$",
)  # fmt: skip
_REFUSAL = re.compile("|".join(f"(?:{pattern})" for pattern in _REFUSALS), re.IGNORECASE)

_SMALL_TALK = re.compile(
    r"^\W*(?:i['’]?m (?:happy|glad|here) to help|(?:i )?(?:hope|trust) (?:this|that)\b|"
    r"(?:please )?(?:let me|let us) know|feel free to (?:ask|reach)|"
    r"(?:is there|do you have|did you have) any\w*|if you have any (?:other|more|further)|"
    r"i(?:['’]m| am) (?:so |very |really )?sorry (?:to hear|for)|i (?:apologi[sz]e|understand)\b|"
    r"(?:could|can|would) you (?:please )?(?:clarify|provide|specify|tell|share))",
    re.IGNORECASE,
)
_OPENER = re.compile(
    r"^\W*(?:hi|hello|hey|dear|thanks|thank you|you['’]?re welcome|welcome|sure|certainly|"
    r"of course|great question|good question|no problem|absolutely)\b",
    re.IGNORECASE,
)
_OPENER_WORDS = 8
"""A longer sentence behind a polite opening states something."""

_ASKS = re.compile(
    r"^\W*(?:(?:and|so|or|but)\s+)?(?:what|when|where|who|whom|which|why|how|is|are|was|were|do|does|did|"
    r"can|could|would|will|shall|should|may|have|has|am)\b",
    re.IGNORECASE,
)
_ADVICE = re.compile(
    r"^\W*(?:please (?:contact|check|refer|reach|consult|try|visit|ask|provide|rephrase|see)|"
    r"(?:for|if you)\b[^.]{0,60}\b"
    r"(?:contact|consult|visit|check|refer|recommend|suggest|clarify)\b|"
    r"(?:you )?(?:may|might|could|should) (?:want to |wish to |try to )?"
    r"(?:contact|check|consult|visit|refer|ask|search)\b|"
    r"i(?:['’]d| would)? (?:recommend|suggest|advise)\b|(?:contact|ask) (?:our |the )?support)",
    re.IGNORECASE,
)


def says_it_cannot(sentence: str) -> bool:
    """True when the sentence says that the answer is not known or not in the sources."""
    return _REFUSAL.search(sentence) is not None


def is_small_talk(sentence: str) -> bool:
    """True for greetings, offers of help, questions back, and lead-ins ending in a colon."""
    body = sentence.strip().strip("*_")
    asks = body.endswith("?") and _ASKS.match(body) is not None
    opens = _OPENER.match(body) is not None and (
        body.endswith(":") or len(body.split()) <= _OPENER_WORDS
    )
    return asks or opens or _SMALL_TALK.match(body) is not None


def is_advice(sentence: str) -> bool:
    """True when the sentence sends the reader elsewhere ("please contact support")."""
    return _ADVICE.match(sentence) is not None
