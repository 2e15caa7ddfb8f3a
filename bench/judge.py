"""Measures the judges on labelled rows: `python -m bench.judge` (`make bench-judge`).

Rows are read from ../shared/judge and never stored here; without that folder the tables that need
it are skipped with a plain message. Every number is printed with its n and a 95 % interval.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.scorer_injections import INJECTIONS
from tests.support.scorer_openai_server import running_server

from stagewatch.core.model import Claim
from stagewatch.demo.corpus import current_passages
from stagewatch.demo.labels import HandLabel, hand_labels
from stagewatch.scorer.judges.embedded import (
    SUFFICIENT_AT,
    SUFFICIENT_BY_VECTORS,
    EmbeddedJudge,
)
from stagewatch.scorer.judges.openai import OpenAIJudge, OpenAIOptions
from stagewatch.scorer.judges.protocol import (
    FaithfulnessReading,
    Judge,
    RelevanceReading,
    SufficiencyReading,
)
from stagewatch.scorer.judges.vectors import NoModelError, Vectors, load_vectors
from stagewatch.scorer.stages.generation import guarded
from stagewatch.scorer.text.passages import forget_passages
from stagewatch.scorer.text.words import content_stems, read_words

ROWS = Path(__file__).resolve().parents[2] / "shared" / "judge"
FAITHFULNESS = {"mtrag_human": "MT-RAG, human votes", "wice": "WiCE", "perturb_synthetic": "edits"}
PASS_AT = 0.7
QUANTITY_KINDS = {
    "number_change", "digit_swap", "year_change", "scale_swap", "unit_swap", "negation",
}  # fmt: skip

Row = dict[str, Any]
Scored = list[tuple[float, bool]]


def load(name: str) -> list[Row]:
    with (ROWS / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def window_of(row: Row) -> list[str]:
    """WiCE gives the sentences of one article as a list; the others give passages."""
    return ["\n".join(row["context"])] if row["source"] == "wice" else list(row["context"])


@dataclass(frozen=True)
class Read:
    """What a judge made of one row: a score in [0, 1] and the share of supported claims."""

    row: Row
    score: float
    share: float
    contradicted: bool
    refused: bool

    @property
    def good(self) -> bool:
        return bool(self.row["label"] == "SUPPORTED")

    @property
    def passes(self) -> bool:
        return self.share >= PASS_AT - 1e-9 and not self.contradicted


def read_embedded(row: Row) -> Read:
    judge = EmbeddedJudge()
    window = window_of(row)
    reading = judge.faithfulness(row["question"] or "", row["answer"], window)
    assert isinstance(reading, FaithfulnessReading)
    claims: list[Claim] = guarded(reading.claims, window)
    if not claims:
        return Read(row, _empty_score(judge, row, window, reading), 1.0, False, reading.refused)
    share = sum(c.label == "SUPPORTED" for c in claims) / len(claims)
    score = math.fsum(c.probability or 0.0 for c in claims) / len(claims)
    return Read(row, score, share, any(c.label == "CONTRADICTED" for c in claims), False)


def _empty_score(
    judge: EmbeddedJudge, row: Row, window: list[str], reading: FaithfulnessReading
) -> float:
    """People vote a refusal down when the passages held the answer: 1 - P(sufficient)."""
    if not reading.refused or not row["question"]:
        return 1.0
    found = judge.sufficiency(row["question"], window)
    assert isinstance(found, SufficiencyReading)
    return 1.0 - (found.probability or 0.0)


def read_overlap(row: Row) -> Read:
    """Baseline: share of the answer's content words that stand anywhere in the window."""
    stems = content_stems(read_words(row["answer"]))
    held = set(read_words(" ".join(row["context"])).stems)
    share = sum(root in held for root in stems) / len(stems) if stems else 1.0
    return Read(row, share, share, False, False)


def auc(pairs: Scored) -> float:
    good = [score for score, label in pairs if label]
    bad = [score for score, label in pairs if not label]
    if not good or not bad:
        return math.nan
    wins = math.fsum((a > b) + 0.5 * (a == b) for a in good for b in bad)
    return wins / (len(good) * len(bad))


def balanced(pairs: Iterable[tuple[bool, bool]]) -> float:
    items = list(pairs)
    good = [said for said, label in items if label]
    bad = [said for said, label in items if not label]
    if not good or not bad:
        return math.nan
    return (sum(good) / len(good) + sum(not said for said in bad) / len(bad)) / 2


def interval(
    items: Sequence[Any], measure: Callable[[Any], float], draws: int = 1000
) -> tuple[float, float, float]:
    """The measure with its 95 % percentile bootstrap interval (seeded)."""
    rng = random.Random(20261130)
    values = []
    for _ in range(draws):
        value = measure([items[rng.randrange(len(items))] for _ in items])
        if not math.isnan(value):
            values.append(value)
    values.sort()
    return measure(items), values[int(0.025 * len(values))], values[int(0.975 * len(values)) - 1]


def show(found: tuple[float, float, float]) -> str:
    return f"{found[0]:.3f} ({found[1]:.2f}-{found[2]:.2f})"


def pairs_of(reads: Sequence[Read]) -> Scored:
    return [(read.score, read.good) for read in reads]


def verdicts_of(reads: Sequence[Read]) -> list[tuple[bool, bool]]:
    return [(read.passes, read.good) for read in reads]


def print_faithfulness(judge: str, reads: dict[str, list[Read]]) -> None:
    for name, everything in reads.items():
        found = [read for read in everything if not read.refused]
        ranked = show(interval(pairs_of(found), auc))
        sure = show(interval(verdicts_of(found), balanced))
        print(f"{judge:10} {FAITHFULNESS[name]:22} {len(found):4}  {ranked:20} {sure}")
        if len(found) < len(everything):
            with_all = f"{auc(pairs_of(everything)):.3f}"
            left = len(everything) - len(found)
            print(
                f"{'':10} {left} plain refusal left out: no claims; counted as 1.0 AUC {with_all}"
            )


def print_left_out(reads: dict[str, list[Read]]) -> None:
    """The threshold on the row's score, chosen on the other sources and applied to this one."""
    print("\nThreshold chosen on the other sources (leave one source out)")
    for name, found in reads.items():
        others = [read for other, items in reads.items() if other != name for read in items]
        cuts = [i / 50 for i in range(1, 50)]
        best = max(cuts, key=lambda cut: balanced([(r.score >= cut, r.good) for r in others]))
        held = balanced([(read.score >= best, read.good) for read in found])
        print(f"{FAITHFULNESS[name]:22} threshold {best:.2f}  balanced accuracy {held:.3f}")


def print_edits(reads: Sequence[Read]) -> None:
    by_kind: dict[str, list[Read]] = defaultdict(list)
    for read in reads:
        by_kind[read.row["kind"]].append(read)
    print("\nEdited sentences by kind           n  supported  absent  contradicted")
    for kind, found in sorted(by_kind.items()):
        con = sum(read.contradicted for read in found)
        ok = sum(read.passes for read in found)
        print(f"{kind:30} {len(found):5} {ok:10} {len(found) - ok - con:7} {con:13}")
    changed = [r for r in reads if r.row["kind"] in QUANTITY_KINDS]
    caught = sum(not r.passes for r in changed)
    kept = [r for r in reads if r.good]
    vetoed = sum(not r.passes for r in kept)
    print(f"changed quantities, dates, units, negations caught: {caught} of {len(changed)}")
    print(f"false vetoes on supported edits: {vetoed} of {len(kept)}")


def print_sufficiency(name: str, judge: EmbeddedJudge, limit: float) -> None:
    pairs: Scored = []
    for row in load("mtragun_sufficiency"):
        found = judge.sufficiency(row["question"], row["context"])
        assert isinstance(found, SufficiencyReading)
        pairs.append((found.probability or 0.0, row["label"] == "SUFFICIENT"))
    ranked = show(interval(pairs, auc))
    sure = show(interval([(s >= limit, y) for s, y in pairs], balanced))
    print(f"{name:18} sufficiency (MT-RAG-UN)  n {len(pairs)}  AUC {ranked}  balanced {sure}")


def print_relevance(name: str, judge: EmbeddedJudge) -> None:
    """Chunk relevance on the hand labels that the demo ships, over the demo's own corpus."""
    contents = {passage.chunk_id: passage.content for passage in current_passages()}
    by_question: dict[str, list[HandLabel]] = defaultdict(list)
    for label in hand_labels():
        if label.metric == "chunk_relevance" and label.item in contents:
            by_question[label.question].append(label)
    pairs: Scored = []
    said: list[tuple[bool, bool]] = []
    for question, labels in by_question.items():
        found = judge.relevance(question, [contents[label.item] for label in labels])
        assert isinstance(found, RelevanceReading)
        for label, mark, chance in zip(labels, found.marks, found.probabilities, strict=True):
            pairs.append((chance or 0.0, label.label == "relevant"))
            said.append((mark is True, label.label == "relevant"))
    print(
        f"{name:18} chunk relevance (demo labels)  n {len(pairs)}  AUC "
        f"{show(interval(pairs, auc))}  balanced {show(interval(said, balanced))}"
    )


def print_injections() -> None:
    """Orders in a chunk and in the answer: how often did a label move?"""
    question = "How long is the warranty on electronic devices?"
    answer = "Bananas are delivered by submarine."
    window = ["Phone support is open Monday to Friday.", "Gift cards are valid for three years."]
    print("\nInjected orders                  n  moved by a chunk  moved by the answer")
    with running_server() as server:
        options = OpenAIOptions(model="good", api_key="none", base_url=server.base_url)
        for name, judge in (
            ("embedded", EmbeddedJudge()),
            ("obedient model", OpenAIJudge(options)),
        ):
            clean = _labels(judge, question, answer, window)
            chunk = sum(
                _labels(judge, question, answer, [window[0], f"{window[1]}\n{order}"]) != clean
                for order in INJECTIONS
            )
            own = sum(
                "SUPPORTED" in _labels(judge, question, f"{answer}\n{order}", window)[0]
                for order in INJECTIONS
            )
            print(f"{name:30} {len(INJECTIONS):3} {chunk:17} {own:20}")


def _labels(judge: Judge, question: str, answer: str, window: list[str]) -> tuple[Any, Any, Any]:
    faithful = judge.faithfulness(question, answer, window)
    relevance = judge.relevance(question, window)
    sufficiency = judge.sufficiency(question, window)
    labels = (
        [claim.label for claim in faithful.claims]
        if isinstance(faithful, FaithfulnessReading)
        else [faithful.reason]
    )
    return labels, getattr(relevance, "marks", None), getattr(sufficiency, "level", None)


def demo_turn(index: int) -> tuple[str, str, list[str]]:
    """Five passages of 800 characters and an answer of three sentences, another one each time."""
    sentence = (
        f"Order {index} of the spring catalogue ships from depot {index % 7} within {index % 9 + 2} "
        "working days and may be returned unopened within 30 days of delivery for a full refund. "
    )
    filler = "The shop keeps its published conditions for every region and season on file. "
    chunks = [(sentence.replace("30", str(20 + i)) + filler * 10)[:800] for i in range(5)]
    answer = (
        f"Order {index} ships within {index % 9 + 2} working days. "
        "You may return it unopened within 20 days of delivery. The refund is paid in full."
    )
    return f"How long can I return order {index}?", answer, chunks


def cpu_ms(turns: Iterable[tuple[str, str, list[str]]], *, whole: bool) -> float:
    """CPU milliseconds a turn, passages read anew each time; `whole` adds the retrieval side."""
    judge = EmbeddedJudge()
    items = list(turns)
    began = time.process_time()
    for question, answer, chunks in items:
        forget_passages()
        reading = judge.faithfulness(question, answer, chunks)
        assert isinstance(reading, FaithfulnessReading)
        guarded(reading.claims, chunks)
        if whole:
            judge.relevance(question, chunks)
            judge.sufficiency(question, chunks)
            judge.relevancy(question, answer)
    return (time.process_time() - began) / len(items) * 1000


def real_turns() -> list[tuple[str, str, list[str]]]:
    """Natural text cut to the same size: five times 800 characters, three sentences."""
    found = []
    for row in load("mtrag_human"):
        text = " ".join(row["context"])
        while len(text) < 4000:
            text += " " + text
        chunks = [text[i * 800 : (i + 1) * 800] for i in range(5)]
        answer = " ".join(row["answer"].split(". ")[:3])[:450]
        found.append((row["question"], answer, chunks))
    return found


def print_cpu() -> None:
    print("\nCPU a turn of 5 passages x 800 characters, 3-sentence answer (passages read anew)")
    sets = {"made": [demo_turn(i) for i in range(200)]}
    if ROWS.is_dir():
        sets["MT-RAG text"] = real_turns()
    for name, turns in sets.items():
        cpu_ms(turns, whole=True)
        print(
            f"{name:12} faithfulness and guard {cpu_ms(turns, whole=False):.2f} ms, "
            f"all judgements {cpu_ms(turns, whole=True):.2f} ms"
        )


def print_retrieval_side(*, rows: bool) -> None:
    """Sufficiency and relevance, by words alone and with the vectors of the [local] extra."""
    print()
    judges = [("words", EmbeddedJudge(), SUFFICIENT_AT)]
    vectors = None
    try:
        vectors = load_vectors()
        judges.append(("words and vectors", EmbeddedJudge(vectors), SUFFICIENT_BY_VECTORS))
    except NoModelError as error:
        print(f"no vectors: {error}")
    for name, judge, limit in judges:
        if rows:
            print_sufficiency(name, judge, limit)
        print_relevance(name, judge)
    if vectors is not None:
        print_vectors_cpu(vectors)


def print_vectors_cpu(vectors: Vectors) -> None:
    question, _, chunks = demo_turn(1)
    judge = EmbeddedJudge(vectors)
    costs = []
    for index in range(6):
        fresh = [f"{index} {chunk}" for chunk in chunks]
        began = time.process_time()
        judge.relevance(question, fresh)
        middle = time.process_time()
        judge.sufficiency(question, fresh)
        costs.append((middle - began, time.process_time() - middle))
    first, again = (sorted(column)[3] * 1000 for column in zip(*costs, strict=True))
    print(
        f"vectors of 5 passages x 800 characters: {first:.0f} ms CPU when never seen, "
        f"{again:.1f} ms when they come again"
    )


def main() -> int:
    if not ROWS.is_dir():
        print("No labelled rows at ../shared/judge: the tables that need them are left out.")
        print_retrieval_side(rows=False)
        print_injections()
        print_cpu()
        return 0
    embedded = {name: [read_embedded(row) for row in load(name)] for name in FAITHFULNESS}
    overlap = {name: [read_overlap(row) for row in load(name)] for name in FAITHFULNESS}
    print("judge      source                    n  AUC                  balanced accuracy at 0.7")
    print_faithfulness("embedded", embedded)
    print_faithfulness("overlap", overlap)
    faithful = [read for read in embedded["mtrag_human"] if read.good]
    false_alarms = sum(read.contradicted for read in faithful)
    print(f"contradiction flagged on {false_alarms} of {len(faithful)} faithful MT-RAG answers")
    print_left_out(embedded)
    print_edits(embedded["perturb_synthetic"])
    print_retrieval_side(rows=True)
    print_injections()
    print_cpu()
    return 0


if __name__ == "__main__":
    sys.exit(main())
