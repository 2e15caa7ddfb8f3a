"""The repositories against the real engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stagewatch.core.errors import InvalidInputError, StoreError
from stagewatch.core.model import (
    Chunk,
    Claim,
    Decision,
    Diagnosis,
    Feedback,
    Retrieval,
    Score,
    Turn,
)
from stagewatch.core.store import Store, migrate
from stagewatch.core.store.documents import (
    delete_document,
    get_document,
    list_documents,
    put_document,
)
from stagewatch.core.store.feedback import (
    Flag,
    feedback_of_trace,
    flags_of,
    put_feedback,
    put_flags,
    rescore_on_demand,
    unjoined_feedback,
)
from stagewatch.core.store.scores import (
    Evaluated,
    claims_of,
    decisions_of,
    diagnoses_of,
    put_evaluated,
    readings,
    scores_of,
)
from stagewatch.core.store.turns import (
    TurnFilter,
    count_turns,
    get_turn,
    list_turns,
    put_turns,
    retire_turns,
    turns_of_trace,
    undecided_turns,
)

T0 = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def a_turn(project: str, n: int = 0, *, at: datetime = T0, question: str = "How long?") -> Turn:
    trace = f"{abs(hash((project, n))):032x}"[-32:]
    span = f"{n + 1:016x}"
    return Turn(
        turn_id=f"{trace}-{span}",
        trace_id=trace,
        span_id=span,
        project=project,
        service="bot",
        started_at=at,
        duration_ms=12.5,
        question=question,
        answer="Thirty days «ß» 🏷",
        release="1.4",
        retrievals=(
            Retrieval("r", question, 5, (Chunk(1, "c#1", "c", "v1", "30 days", 0.5, "bm25"),)),
        ),
        window=(Chunk(1, "c#1", "c", "v1", "30 days"),),
    )


def put(store: Store, *turns: Turn, revision: int = 1, at: datetime = T0) -> None:
    put_turns(store, turns, assembled_at=at, revision=revision)


def test_a_turn_comes_back_as_it_was(store: Store, project: str) -> None:
    turn = a_turn(project)
    put(store, turn)
    assert get_turn(store, turn.turn_id) == turn
    assert turns_of_trace(store, turn.trace_id) == [turn]


def test_the_newest_revision_wins_even_when_the_start_moves(store: Store, project: str) -> None:
    old = a_turn(project)
    new = a_turn(project, at=T0 - timedelta(minutes=5), question="How long is it?")
    put(store, old)
    retire_turns(store, [old], replaced_by=new.turn_id, assembled_at=T0, revision=2)
    put(store, new, revision=2)
    found, _ = list_turns(store, TurnFilter(project=project))
    assert [row["question"] for row in found] == ["How long is it?"]
    assert get_turn(store, old.turn_id) == new


def test_pages_cover_everything_once_in_order(store: Store, project: str) -> None:
    put(store, *[a_turn(project, n, at=T0 + timedelta(seconds=n // 3)) for n in range(25)])
    seen: list[str] = []
    cursor = None
    while True:
        page, cursor = list_turns(store, TurnFilter(project=project), limit=7, cursor=cursor)
        seen += [row["turn_id"] for row in page]
        if cursor is None:
            break
    assert len(seen) == 25
    assert len(set(seen)) == 25
    assert count_turns(store, TurnFilter(project=project)) == (25, True)


def test_a_cursor_of_somebody_else_is_refused(store: Store, project: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor"):
        list_turns(store, TurnFilter(project=project), cursor="zzz")


def test_words_find_turns_in_any_case(store: Store, project: str) -> None:
    put(store, a_turn(project, 0, question="Refund WINDOW for shoes?"), a_turn(project, 1))
    found, _ = list_turns(store, TurnFilter(project=project, q="window refund"))
    assert [row["question"] for row in found] == ["Refund WINDOW for shoes?"]


def test_scoring_twice_reads_as_once(store: Store, project: str) -> None:
    turn = a_turn(project)
    put(store, turn)
    pending = [
        p
        for p in undecided_turns(store, assembled_after=T0, limit=9999, now=T0)
        if p.turn.project == project
    ]
    assert [p.turn for p in pending] == [turn]
    item = Evaluated(
        turn=turn,
        revision=1,
        decision=Decision("scored", "default", 0.5, "sampled", T0 + timedelta(seconds=9)),
        scores=[
            Score(
                "faithfulness",
                "scored",
                0.5,
                "fail",
                True,
                "judge",
                "embedded",
                "f1",
                "x",
                threshold=0.7,
            )
        ],
        claims=[Claim("30 days", 0, 7, "SUPPORTED", "SUPPORTED", chunk_rank=1)],
        diagnosis=Diagnosis("generation", "why"),
        passed=False,
        relevance=[1],
        fingerprint="f1",
    )
    put_evaluated(store, [item])
    put_evaluated(store, [item])
    scores = scores_of(store, [turn.turn_id])[turn.turn_id]
    assert [(s.metric, s.value, s.hard_fail, s.threshold) for s in scores] == [
        ("faithfulness", 0.5, True, 0.7)
    ]
    assert claims_of(store, turn.turn_id) == list(item.claims)
    assert diagnoses_of(store, [turn.turn_id])[turn.turn_id].relevance == (1,)
    assert decisions_of(store, [turn.turn_id])[turn.turn_id].inclusion == 0.5
    live = readings(store, project, "faithfulness", T0, T0 + timedelta(hours=1))
    assert [(r.value, r.inclusion) for r in live] == [(0.5, 0.5)]
    assert not [
        p
        for p in undecided_turns(store, assembled_after=T0, limit=9999, now=T0)
        if p.turn.project == project
    ]
    wanted = TurnFilter(project=project, diagnosis="generation", metric="faithfulness", below=0.7)
    assert len(list_turns(store, wanted)[0]) == 1
    assert not list_turns(store, TurnFilter(project=project, metric="faithfulness", below=0.5))[0]


def test_a_dispute_asks_for_a_score_until_it_has_one(store: Store, project: str) -> None:
    turn = a_turn(project)
    late = Feedback("f1", project, turn.trace_id, "disputed", T0, external_id="case-1")
    put_feedback(store, late)
    put_feedback(store, late)
    assert len(feedback_of_trace(store, project, turn.trace_id)) == 1
    assert project not in {f.project for f in unjoined_feedback(store, since=T0)}
    put(store, turn)
    assert project in {f.project for f in unjoined_feedback(store, since=T0)}
    put_flags(store, [Flag(project, turn.turn_id, "disputed", "open", T0)])
    assert turn.turn_id in rescore_on_demand(store, since=T0)
    flagged = list_turns(store, TurnFilter(project=project, flagged=True))[0]
    assert [row["turn_id"] for row in flagged] == [turn.turn_id]
    assert not list_turns(store, TurnFilter(project=project, flagged=False))[0]
    decision = Decision("scored", "on demand", None, "disputed", T0 + timedelta(seconds=1))
    put_evaluated(store, [Evaluated(turn=turn, revision=1, decision=decision)])
    assert turn.turn_id not in rescore_on_demand(store, since=T0)
    assert [f.state for f in flags_of(store, [turn.turn_id])[turn.turn_id]] == ["open"]


def test_documents_are_replaced_and_deleted(store: Store, project: str) -> None:
    put_document(store, "rules", "a", {"n": 1}, at=T0, project=project)
    put_document(store, "rules", "a", {"n": 2}, at=T0 + timedelta(seconds=1), project=project)
    assert get_document(store, "rules", "a", project=project) == {"n": 2}
    assert list_documents(store, "rules", project=project) == [{"n": 2}]
    delete_document(store, "rules", "a", at=T0 + timedelta(seconds=2), project=project)
    assert get_document(store, "rules", "a", project=project) is None


def test_migrations_run_once(store: Store) -> None:
    assert migrate(store) == []


def test_an_insert_error_never_quotes_the_row(store: Store, project: str) -> None:
    with pytest.raises(StoreError) as caught:
        store.put("flags", [{"project": project, "turn_id": "t", "at": "SECRET not a date"}])
    told = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert "SECRET" not in told
    assert "column at" in told


def test_a_value_that_its_type_cannot_hold_is_the_callers_mistake(store: Store) -> None:
    with pytest.raises(InvalidInputError, match="outside its range"):
        store.rows("SELECT {n:UInt32} AS n", {"n": -1})
