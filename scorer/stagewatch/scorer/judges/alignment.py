"""Word-by-word alignment of a claim with one sentence: how near a copy, and where they part."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from stagewatch.scorer.facts.opposites import NEGATION
from stagewatch.scorer.text.words import STOP, Words

_FUNCTION_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch where claim words [a1, a2) stand in the place of sentence words [b1, b2)."""

    a1: int
    a2: int
    b1: int
    b2: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """`partner` maps each matched claim word to its sentence word.

    `near` is the weighted share of claim words matched, `density` the share of words matched
    within the sentence's stretch that the match spans; both in [0, 1], 1 and 1 for a copy.
    """

    claim: Words
    source: Words
    partner: dict[int, int]
    parts: tuple[Part, ...]
    near: float
    density: float

    @property
    def matched_content(self) -> int:
        """How many matched words carry meaning and are no numbers."""
        words = self.claim.words
        return sum(words[i] not in STOP and not words[i][0].isdigit() for i in self.partner)

    @property
    def claim_content(self) -> int:
        """How many words of the claim carry meaning and are no numbers."""
        return sum(w not in STOP and not w[0].isdigit() for w in self.claim.words)

    def anchors(self, first: int, last: int) -> tuple[int | None, int | None]:
        """Sentence positions of the nearest matched claim words before `first`, after `last`."""
        left = next((self.partner[i] for i in range(first - 1, -1, -1) if i in self.partner), None)
        right = next(
            (self.partner[i] for i in range(last + 1, len(self.claim)) if i in self.partner), None
        )
        return left, right

    def slot(self, first: int, last: int) -> tuple[int, int] | None:
        """Sentence words [lo, hi) that stand where claim words first..last do; None when unclear.

        Needs a matched word within three words on one side at least.
        """
        near = range(max(0, first - 3), min(len(self.claim), last + 4))
        if not any(i in self.partner for i in near if not first <= i <= last):
            return None
        left, right = self.anchors(first, last)
        lo = left + 1 if left is not None else max(0, (right or 0) - 6)
        hi = right if right is not None else min(len(self.source), lo + 6)
        return (lo, hi) if lo < hi and hi - lo <= 10 else None


def align(claim: Words, source: Words) -> Alignment:
    """Align by stems, keeping the order of words (longest matching blocks first)."""
    matcher = SequenceMatcher(None, source.stems, claim.stems, autojunk=False)
    partner: dict[int, int] = {}
    parts: list[Part] = []
    a = b = 0
    for block in matcher.get_matching_blocks():
        if block.b > a or block.a > b:
            parts.append(Part(a, block.b, b, block.a))
        for offset in range(block.size):
            partner[block.b + offset] = block.a + offset
        a, b = block.b + block.size, block.a + block.size
    weights = [
        0.0 if w in NEGATION else _FUNCTION_WEIGHT if w in STOP else 1.0 for w in claim.words
    ]
    total = sum(weights)
    positions = partner.values()
    spread = max(positions) - min(positions) + 1 if partner else 1
    return Alignment(
        claim,
        source,
        partner,
        tuple(parts),
        near=sum(weights[i] for i in partner) / total if total else 0.0,
        density=len(partner) / spread,
    )
