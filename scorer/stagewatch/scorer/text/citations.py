"""What names a source, not a fact: it is no part of a claim and is not judged."""

from __future__ import annotations

import re

# What names a source, not a fact: [1], [1, 2], [^3], [refund-policy#v7#0], 【4†page】, (source 2).
# A word in brackets without a digit or a separator is text, and so is an amount of money.
_MARK = r"\^?(?![$€£¥])[^\s\[\],;]*[\d#_:/][^\s\[\],;]*"
_CITATION = re.compile(
    r"\s?(?:\[" + _MARK + r"(?:\s?[,;]\s?" + _MARK + r")*\](?!\()"
    r"|【[^】]{1,80}】"
    r"|\((?:source|doc|document|passage)s?\W*\d+(?:\s*[,;&-]\s*\d+)*\))",
    re.IGNORECASE,
)
# The same in words: (source: parcels-v2.pdf, page 4), [Source: handbook], (see policy v7, p. 3).
_NAMED = re.compile(r"\s?(?:\(([^()\[\]\n]{3,160})\)|\[([^()\[\]\n]{3,160})\](?!\())")
_LABEL = re.compile(
    r"(?:sources?|ref(?:erence)?s?|citations?|cited|documents?|docs?|passages?)"
    r"(?:\s*[:=\u2013\u2014-]\s*|\s+(?=\d))",
    re.IGNORECASE,
)
_POINTER = re.compile(
    r"(?:see(?:\s+also)?|cf\.?|as\s+per|per|from|according\s+to)\s+", re.IGNORECASE
)
_PLACE = re.compile(
    r"\b(?:pp?|pg|pages?|sec(?:tion|t)?s?|ch(?:apter)?s?|art(?:icle)?s?|par(?:agraph|a)?s?|lines?|"
    r"nos?|ed|vol(?:ume)?s?|version|rev(?:ision)?|clauses?|tables?|fig(?:ure)?s?|appendix|annex)"
    r"\b\.?\s?\d+(?:[.\u2013-]\d+)*[a-z]?\b"
    r"|§+\s?\d+(?:\.\d+)*|\bv\.?\s?\d+(?:\.\d+)*\b"
    r"|[^\s,;]+\.(?:pdf|md|html?|docx?|txt|rst|csv|xlsx?|pptx?|json|ya?ml|xml)\b(?:#\S*)?"
    r"|https?://\S+|[^\s,;]*[#_][^\s,;]*",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b(?:19|20)\d{2}(?:-\d{2}(?:-\d{2})?)?\b")
_SOURCES_LINE = re.compile(r"\W*(?:sources?|references?|citations?)\s*:\s*(.+)", re.IGNORECASE)
_LISTED_NUMBER = re.compile(r"(?:^|(?<=[,;]))\s*\d+\s*(?=$|[,;])")


def without_citations(text: str) -> str:
    """`text` without what names a source in brackets."""

    def cut(found: re.Match[str]) -> str:
        return "" if _names_a_source(found.group(1) or found.group(2)) else found.group()

    return _CITATION.sub("", _NAMED.sub(cut, text))


def _names_a_source(inside: str) -> bool:
    """Whether words in brackets only say where something stands.

    After a label ("source:") anything may follow but a value; after a pointer ("see") it must
    be a place in a document, since "(see a doctor within 2 days)" states something.
    """
    label = _LABEL.match(inside)
    if label is not None:
        return not _holds_a_value(inside[label.end() :])
    pointer = _POINTER.match(inside)
    if pointer is None:
        return False
    rest = inside[pointer.end() :]
    return _PLACE.search(rest) is not None and not _holds_a_value(rest)


def _holds_a_value(text: str) -> bool:
    """Whether a digit is left once places in documents, dates and lists of numbers are out."""
    bare = _YEAR.sub("", _PLACE.sub("", _CITATION.sub("", text)))
    bare = _LISTED_NUMBER.sub("", bare)
    return any(character.isdigit() for character in bare)


def lists_sources(sentence: str) -> bool:
    """Whether a whole sentence or line only lists sources, such as `Sources: [1], handbook.md`."""
    listed = _SOURCES_LINE.fullmatch(sentence.replace("**", ""))
    return listed is not None and not _holds_a_value(listed.group(1))
