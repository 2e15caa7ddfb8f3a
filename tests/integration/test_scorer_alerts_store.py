"""An alert from scores in the store to what people read, acknowledge and see closed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.alerts_scores import often, put_scores
from tests.support.channels_alerts import channel

from stagewatch.api.routes.compare import load_comparison
from stagewatch.api.web.compare_pages import seen_values
from stagewatch.core.clock import ManualClock, rfc3339
from stagewatch.core.model import Turn
from stagewatch.core.service import Context
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store
from stagewatch.core.store.alerts import get_alert, list_alerts, mark_alert
from stagewatch.core.store.turns import put_turns
from stagewatch.scorer.channels.due import due_messages
from stagewatch.scorer.watch import refresh_alerts

AT = datetime(2026, 11, 20, tzinfo=UTC)
GOOD, BAD, MENDED = 1400, 120, 200


class Story:
    """1,400 good turns, then questions about refunds fail with index b, then index c mends it."""

    def __init__(self, store: Store, project: str) -> None:
        self.store, self.project = store, project

    def minute(self, n: int) -> datetime:
        return AT + timedelta(minutes=n)

    def healthy(self) -> None:
        put_scores(self.store, self.project, AT, 0, GOOD, often(0.99))

    def broken(self) -> None:
        fails = self.fails
        put_scores(
            self.store, self.project, AT, GOOD, BAD, lambda i: not fails(i), index_version="b"
        )
        turns = [
            Turn(
                turn_id=f"{self.project}-{i}", trace_id=f"{i:032x}", span_id="s",
                project=self.project, service="bot", started_at=self.minute(i), duration_ms=1.0,
                question="When is my refund paid?" if fails(i) else "Where is my parcel now?",
                answer="a",
            )
            for i in range(GOOD, GOOD + BAD)
        ]  # fmt: skip
        put_turns(self.store, turns, assembled_at=AT, revision=1)

    def fails(self, i: int) -> bool:
        return i % 2 == 0

    def mended(self) -> None:
        put_scores(self.store, self.project, AT, GOOD + BAD, MENDED, often(1.0), index_version="c")

    def alerts(self, now: datetime, *, calibrated: bool = True) -> list[dict[str, Any]]:
        refresh_alerts(self.store, self.project, now, is_calibrated=lambda *_: calibrated)
        return list_alerts(self.store, self.project, now)


@pytest.fixture
def story(store: Store, project: str) -> Story:
    return Story(store, project)


def test_an_alert_says_which_questions_fail_and_closes_when_they_no_longer_do(
    story: Story,
) -> None:
    story.healthy()
    assert story.alerts(story.minute(GOOD)) == []
    story.broken()
    noticed = story.minute(GOOD + BAD)
    (alert,) = story.alerts(noticed)
    assert (alert["state"], alert["noticed_at"]) == ("open", rfc3339(noticed))
    assert alert["near"] == ["index version a → b"]
    (kind,) = [kind for kind in alert["kinds"] if kind["value"] == "refund"]
    assert kind["what"] == "words"
    assert "failing turns ask with “refund”, 0 of" in kind["sentence"]
    assert "refund" not in alert["sentence"]

    # What a person does is not undone by new numbers, and not by the end of the story.
    mark_alert(story.store, story.project, alert["alert_id"], "acked", by="Ada", at=noticed)
    (acked,) = story.alerts(noticed + timedelta(seconds=10))
    assert (acked["state"], acked["mark"]["by"]) == ("acked", "Ada")
    story.mended()
    done = story.minute(GOOD + BAD + MENDED)
    (closed,) = story.alerts(done)
    assert (closed["state"], closed["closed_at"]) == ("closed", rfc3339(done))
    assert closed["noticed_at"] == rfc3339(noticed)
    assert closed["recovery"]["what"] == "index version b → c"
    again = get_alert(story.store, story.project, alert["alert_id"], done + timedelta(days=1))
    assert again == closed


def test_an_uncalibrated_judge_opens_nothing_and_tells_nobody(story: Story) -> None:
    story.healthy()
    story.broken()
    found = story.alerts(story.minute(GOOD + BAD), calibrated=False)
    assert found == []
    assert (
        due_messages(
            story.project, [channel(since=rfc3339(AT))], found, [], story.minute(GOOD + BAD)
        )
        == []
    )


def test_an_alert_is_told_once_by_every_channel_that_hears_it(story: Story) -> None:
    story.healthy()
    story.broken()
    now = story.minute(GOOD + BAD)
    found = story.alerts(now)
    since = rfc3339(AT)
    channels = [channel("all", since=since), channel("ranks", stages=["ranking"], since=since)]
    due = due_messages(story.project, channels, found, [], now)
    assert [(item.channel.name, item.event) for item in due] == [("all", "opened")]


def test_two_releases_of_live_traffic_are_compared(
    store: Store, settings: Settings, project: str
) -> None:
    put_scores(store, project, AT, 0, 600, often(0.95), release="1.4")
    put_scores(store, project, AT, 600, 600, often(0.7), release="1.5")
    put_scores(store, project, AT, 1200, 50, often(0.1), release="1.5", inclusion=None)
    context = Context(
        settings=settings, store=store, clock=ManualClock(AT + timedelta(days=3)),
        registry=CollectorRegistry(),
    )  # fmt: skip
    found = load_comparison(context, project, "release", "1.4", "1.5")
    assert found.sentence == ("Release 1.5 against 1.4: went down: faithfulness (95% → 70%).")
    (item,) = found.items
    assert item.b is not None
    # What feedback added is in no estimate.
    assert item.b.n == 600
    assert seen_values(store, project, "release") == ["1.5", "1.4"]
    assert seen_values(store, project, "body") == []
