"""The demo's hand labels: claims and passages of its own turns, labelled by reading the corpus.

They calibrate the judge for the demo's own domain; a real app needs labels of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class HandLabel:
    """One label: of a claim (`item` is its text) or a chunk (`item` is its id).

    `question` and `deployment` ("release/index version") tell which turns it is of: the bot
    gives the same answer to the same question in the same deployment.
    """

    question: str
    deployment: str
    metric: str
    item: str
    label: str


def hand_labels() -> list[HandLabel]:
    """The shipped labels."""
    text = resources.files("stagewatch.demo").joinpath("labels.jsonl").read_bytes()
    return [HandLabel(**orjson.loads(line)) for line in text.splitlines() if line.strip()]


def bind(
    labels: Iterable[HandLabel], turns: Sequence[Mapping[str, Any]]
) -> dict[str, list[dict[str, str]]]:
    """Turn id → labels to post, each label bound to the first turn that it is of.

    `turns` are turn summaries of the API. Labels whose turn is not among them are left out.
    """
    first: dict[tuple[str, str], str] = {}
    for turn in turns:
        key = (str(turn["question"]), f"{turn['release']}/{turn['index_version']}")
        first.setdefault(key, str(turn["turn_id"]))
    bound: dict[str, list[dict[str, str]]] = defaultdict(list)
    for label in labels:
        turn_id = first.get((label.question, label.deployment))
        if turn_id is not None:
            bound[turn_id].append(
                {"metric": label.metric, "item": label.item, "label": label.label}
            )
    return dict(bound)
