"""What apps put into one prompt: the question, and the passages before it."""

from __future__ import annotations

import re

_QUESTION_LABEL = re.compile(
    r"(?:^|\n)\s*(?:question|query|user question|input)\s*:\s*(.+)\Z", re.IGNORECASE | re.DOTALL
)
_DSPY_QUESTION = re.compile(
    r"\[\[ ## question ## \]\]\n(.*?)(?=\n\n\[\[|\n\nRespond with|\Z)", re.DOTALL
)


def bare_question(text: str) -> str:
    """A user message without the context block that apps put around the question."""
    dspy = _DSPY_QUESTION.search(text)
    if dspy:
        return dspy.group(1).strip()
    if "\n" not in text.strip():
        return text.strip()
    labelled = _QUESTION_LABEL.search(text)
    return labelled.group(1).strip() if labelled else text.strip()


_LABEL = r"\[[^\]\[\"\n]{1,200}\]"
_BLOCK = re.compile(
    rf"^(?P<label>{_LABEL})[ \t]+(?P<body>\S.*?)(?=\n[ \t]*\n|\n{_LABEL} |\Z)",
    re.MULTILINE | re.DOTALL,
)


def context_blocks(text: str) -> list[tuple[str, str]]:
    """(id, text) of every `[id] text` block of a prompt, in order."""
    return [(found["label"][1:-1], found["body"].strip()) for found in _BLOCK.finditer(text)]
