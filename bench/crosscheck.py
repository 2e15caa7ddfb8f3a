"""Our formulas beside those of ragas, deepeval and Phoenix evals, on the same random verdicts.

Runs in an environment of its own (`make bench-crosscheck` makes it): the libraries are no
dependency of ours. Only the arithmetic is compared; no model is asked.
"""

from __future__ import annotations

import asyncio
import os
import random
import warnings
from types import SimpleNamespace

os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
warnings.filterwarnings("ignore")

from deepeval.metrics import ContextualPrecisionMetric, FaithfulnessMetric
from phoenix.evals.metrics import PrecisionRecallFScore
from ragas.dataset_schema import SingleTurnSample
from ragas.metrics import Faithfulness, IDBasedContextPrecision, IDBasedContextRecall
from ragas.metrics._context_precision import NonLLMContextPrecisionWithReference

from stagewatch.scorer.metrics.faithfulness import faithfulness
from stagewatch.scorer.metrics.precision import context_precision, context_precision_at_k
from stagewatch.scorer.metrics.recall import recall_of_needs
from stagewatch.scorer.results import value_of

CASES = 2000
chance = random.Random(5)


def marks() -> list[bool]:
    return [chance.random() < chance.choice((0.1, 0.5, 0.9)) for _ in range(chance.randint(1, 12))]


def deepeval(kind, verdicts, **more):
    """A deepeval metric with given verdicts; its constructor would ask for a model."""
    made = object.__new__(kind)
    made.verdicts = [SimpleNamespace(verdict=v) for v in verdicts]
    made.strict_mode, made.threshold = False, 0.5
    for name, value in more.items():
        setattr(made, name, value)
    return made._calculate_score()


def ragas_ids(kind, retrieved, wanted):
    sample = SingleTurnSample(retrieved_context_ids=retrieved, reference_context_ids=wanted)
    return asyncio.run(kind()._single_turn_ascore(sample, None))


def rows():
    """(our metric, the other's, largest difference over the cases, what explains it)."""
    ap = NonLLMContextPrecisionWithReference()
    vectors = [marks() for _ in range(CASES)]
    ours = [value_of(context_precision_at_k(v)) for v in vectors]
    yield (
        "context_precision_at_k",
        "ragas context precision",
        [
            abs(a - ap._calculate_average_precision([int(x) for x in v]))
            for a, v in zip(ours, vectors, strict=True)
        ],
        "ragas adds 1e-10 to the denominator, so a perfect list is 0.9999999999",
    )
    yield (
        "context_precision_at_k",
        "deepeval contextual precision",
        [
            abs(a - deepeval(ContextualPrecisionMetric, ["yes" if x else "no" for x in v]))
            for a, v in zip(ours, vectors, strict=True)
        ],
        "",
    )

    sets = [
        ([f"d{i}" for i in range(len(v))], [f"d{i}" for i, x in enumerate(v) if x] or ["none"])
        for v in vectors
    ]
    yield (
        "context_precision",
        "ragas ID-based precision",
        [
            abs(value_of(context_precision(v)) - ragas_ids(IDBasedContextPrecision, got, want))
            for v, (got, want) in list(zip(vectors, sets, strict=True))[:300]
        ],
        "",
    )
    needs = [(got, [*want, *[f"m{i}" for i in range(chance.randint(0, 3))]]) for got, want in sets]
    yield (
        "context_recall (one passage a need)",
        "ragas ID-based recall",
        [
            abs(
                value_of(recall_of_needs([w in got for w in want]))
                - ragas_ids(IDBasedContextRecall, got, want)
            )
            for got, want in needs[:300]
        ],
        "",
    )
    flat = PrecisionRecallFScore(positive_label=1)
    yield (
        "context_precision",
        "Phoenix precision (all shown predicted relevant)",
        [
            abs(
                value_of(context_precision(v))
                - next(
                    s.score
                    for s in flat.evaluate(
                        {"expected": [int(x) for x in v], "output": [1] * len(v)}
                    )
                    if s.name.startswith("precision")
                )
            )
            for v in vectors[:300]
            if any(v)
        ],
        "",
    )

    labels = [
        [
            chance.choice(("SUPPORTED", "ABSENT", "CONTRADICTED"))
            for _ in range(chance.randint(1, 9))
        ]
        for _ in range(CASES)
    ]
    own = [value_of(faithfulness(found)) for found in labels]
    judge = Faithfulness.__new__(Faithfulness)
    yield (
        "faithfulness (value)",
        "ragas faithfulness",
        [
            abs(
                a
                - judge._compute_score(
                    SimpleNamespace(
                        statements=[SimpleNamespace(verdict=int(x == "SUPPORTED")) for x in found]
                    )
                )
            )
            for a, found in zip(own, labels, strict=True)
        ],
        "ours also fails the turn outright on a contradiction",
    )
    word = {"SUPPORTED": "yes", "ABSENT": "borderline", "CONTRADICTED": "no"}
    yield (
        "faithfulness (value)",
        "deepeval faithfulness, ambiguous penalised",
        [
            abs(
                a
                - deepeval(
                    FaithfulnessMetric, [word[x] for x in found], penalize_ambiguous_claims=True
                )
            )
            for a, found in zip(own, labels, strict=True)
        ],
        "",
    )
    yield (
        "faithfulness (value)",
        "deepeval faithfulness, its default",
        [
            abs(
                a
                - deepeval(
                    FaithfulnessMetric, [word[x] for x in found], penalize_ambiguous_claims=False
                )
            )
            for a, found in zip(own, labels, strict=True)
        ],
        "differs on purpose: by default an unbacked claim counts as faithful there",
    )


def main() -> None:
    """Print the table."""
    print(f"{'ours':<38}{'theirs':<50}{'cases':>6}{'largest difference':>20}  why")
    for name, other, differences, why in rows():
        print(f"{name:<38}{other:<50}{len(differences):>6}{max(differences):>20.2g}  {why}")
    print("""
Where definitions differ, so that no arithmetic can agree:
  copies of a chunk     ours: noise from the second on; ragas and deepeval count each as relevant again
  no relevant chunk     all give 0 for precision@k
  nothing retrieved     ours: recall 0, precision unscored; ragas: nan; deepeval: 0
  plain refusal         ours: faithfulness 1.0 and `refused`; ragas: nan or random; deepeval: 1.0
  judge left one out    ours: unscored after one repair; ragas and deepeval: scores what came back
  superseded version    ours: never relevant unless a need names it; others know no versions""")


if __name__ == "__main__":
    main()
