"""Which messages are due, which addresses are refused, what of a channel is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.channels_alerts import AT, SECRET, alert, channel

from stagewatch.core.clock import rfc3339
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.store.alerts import with_mark
from stagewatch.core.store.deliveries import Delivery
from stagewatch.scorer.channels.addresses import (
    AddressRefusedError,
    checked_addresses,
    is_public,
    parse_networks,
)
from stagewatch.scorer.channels.channel import parse_channel, resolved, shown
from stagewatch.scorer.channels.due import (
    BACKOFF_S,
    LOST_AFTER,
    due_messages,
    due_retries,
    pause_before,
)
from stagewatch.scorer.channels.message import compose, read_message, severity_of
from stagewatch.scorer.channels.replay import replay
from stagewatch.scorer.channels.services import check_service_url, without_secrets
from stagewatch.scorer.channels.sign import signed_headers


def test_a_signature_is_the_one_of_the_published_example() -> None:
    """The example of the Standard Webhooks documentation."""
    headers = signed_headers(
        SECRET,
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        datetime.fromtimestamp(1614265330, UTC),
        b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
        "100.64.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1",
        "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1", "fec0::1", "2001:db8::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_a_public_address_is_not(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_hiding_an_ipv4_address_in_an_ipv6_one_changes_nothing(address: Any) -> None:
    plain = is_public(str(address))
    packed = address.packed
    nat64 = ".".join(str(part) for part in packed)
    assert is_public(f"::ffff:{address}") == plain
    assert is_public(f"64:ff9b::{nat64}") == plain


def test_one_bad_address_refuses_the_name() -> None:
    def answers(*found: str) -> list[str]:
        return checked_addresses("h", 443, allowed=(), resolver=lambda _h, _p: found)

    assert answers("8.8.8.8", "1.1.1.1") == ["8.8.8.8", "1.1.1.1"]
    with pytest.raises(AddressRefusedError, match=r"10\.0\.0\.9"):
        answers("8.8.8.8", "10.0.0.9")
    networks = parse_networks("10.0.0.0/24, ::1/128")
    resolver = lambda _h, _p: ["::ffff:10.0.0.9", "::1"]  # noqa: E731
    assert checked_addresses("h", 443, allowed=networks, resolver=resolver)
    with pytest.raises(OSError, match="no address"):
        answers()


def sent(event: str, at: datetime, *, number: int = 0, state: Any = "sent") -> Delivery:
    return Delivery(
        project="p", delivery_id=f"{event}-{number}", channel="ops", alert_id="a1", event=event,
        created_at=at, at=at, number=number, state=state,
    )  # fmt: skip


def due(alerts: list[dict[str, Any]], log: list[Delivery], now: datetime, **fields: Any) -> Any:
    found = due_messages("p", [channel(**fields)], alerts, log, now)
    return [(item.event, item.number) for item in found]


def test_a_new_alert_is_told_once() -> None:
    assert due([alert()], [], AT) == [("opened", 0)]
    for state in ("sent", "retry", "sending", "failed"):
        log = [sent("opened", AT, state=state)]
        assert due([alert()], log, AT + timedelta(hours=1)) == []


def test_an_alert_from_before_the_channel_is_not_told() -> None:
    old = alert(noticed_at=rfc3339(AT - timedelta(hours=2)))
    assert due([old], [], AT) == []
    assert due([alert()], [], AT, enabled=False) == []


def test_reminders_come_while_it_is_open_and_nobody_acknowledged_it() -> None:
    log = [sent("opened", AT)]
    day = timedelta(hours=24)
    assert due([alert()], log, AT + day) == [("reminder", 1)]
    log.append(sent("reminder", AT + day, number=1))
    assert due([alert()], log, AT + day * 1.5) == []
    assert due([alert()], log, AT + day * 2) == [("reminder", 2)]
    assert due([alert()], log, AT + day * 2, renotify_hours=0) == []
    acked = alert(state="acked")
    assert due([acked], log, AT + day * 2) == [("acked", 0)]
    log.append(sent("acked", AT + day * 2))
    assert due([acked], log, AT + day * 9) == []
    assert due([alert(state="closed")], log, AT + day * 9) == [("closed", 0)]
    log.append(sent("closed", AT + day * 9))
    assert due([alert(state="closed")], log, AT + day * 10) == []


def test_an_alert_that_was_never_told_is_not_closed_either() -> None:
    assert due([alert(state="closed")], [], AT) == []
    assert due([alert(state="acked")], [], AT) == []


def test_nothing_follows_a_message_that_is_under_way() -> None:
    for state in ("sending", "retry"):
        log = [sent("opened", AT, state=state)]
        for now in ("acked", "closed", "open"):
            assert due([alert(state=now)], log, AT + timedelta(days=2)) == []
    log = [sent("opened", AT), sent("acked", AT, state="retry")]
    assert due([alert(state="closed")], log, AT + timedelta(hours=1)) == []
    log[1] = replace(log[1], state="failed")
    assert due([alert(state="closed")], log, AT + timedelta(hours=1)) == [("closed", 0)]


def test_an_alert_that_never_got_through_is_told_anew_and_not_closed() -> None:
    log = [sent("opened", AT, state="failed")]
    day = timedelta(hours=24)
    for state in ("acked", "closed"):
        assert due([alert(state=state)], log, AT + day * 2) == []
    assert due([alert()], log, AT + day) == [("opened", 1)]
    assert due([alert()], log, AT + day, renotify_hours=0) == []
    log.append(sent("opened", AT + day, number=1))
    assert due([alert(state="closed")], log, AT + day * 2) == [("closed", 0)]


def test_a_channel_knows_nothing_of_an_older_one_of_its_name() -> None:
    log = [sent("opened", AT)]
    made = rfc3339(AT + timedelta(hours=1))
    later = AT + timedelta(days=2)
    assert due([alert(state="closed")], log, later, made=made, since=made) == []
    assert due([alert(state="closed")], log, later) == [("closed", 0)]


def test_a_snooze_is_quiet_and_then_reminds() -> None:
    log = [sent("opened", AT)]
    end = AT + timedelta(hours=30)
    mark = {"state": "snoozed", "by": "x", "at": rfc3339(AT), "until": rfc3339(end)}
    asleep = with_mark(alert(), mark, AT + timedelta(hours=29))
    assert asleep["state"] == "snoozed"
    assert due([asleep], log, AT + timedelta(hours=29)) == []
    awake = with_mark(alert(), mark, end)
    assert awake["state"] == "open"
    assert due([awake], log, end, renotify_hours=0) == [("reminder", 1)]
    assert due([awake], [*log, sent("reminder", end, number=1)], end, renotify_hours=0) == []


def test_filters_let_through_what_they_name() -> None:
    assert due([alert()], [], AT, stages=["retrieval"]) == []
    assert due([alert()], [], AT, stages=["generation"], metrics=["faithfulness"]) != []
    assert due([alert()], [], AT, severities=["warning"]) == []
    assert due([alert(to=0.9)], [], AT, severities=["warning"]) != []
    assert due([alert()], [], AT, events=["opened"]) == [("opened", 0)]


def test_severity() -> None:
    assert severity_of(alert()) == "critical"
    assert severity_of(alert(to=0.9)) == "warning"
    assert severity_of(alert(stage="no_data", to=0.97)) == "critical"
    assert severity_of(alert(stage="judge")) == "warning"


def test_a_try_that_a_crash_cut_short_is_made_again() -> None:
    stuck = sent("opened", AT, state="sending")
    waiting = replace(sent("opened", AT, state="retry"), next_at=AT + timedelta(seconds=5))
    assert due_retries([stuck], AT + LOST_AFTER) == []
    assert due_retries([stuck, waiting], AT + LOST_AFTER * 2) == [stuck, waiting]
    assert due_retries([sent("opened", AT), sent("x", AT, state="failed")], AT + LOST_AFTER) == []


def test_pauses_grow_and_end() -> None:
    pauses = [pause_before(n, None) for n in range(1, len(BACKOFF_S) + 2)]
    assert pauses[-1] is None
    known = [p for p in pauses if p is not None]
    assert known == sorted(known)
    assert pause_before(1, 77.0) == timedelta(seconds=77)
    assert pause_before(1, 1e9) == timedelta(hours=1)


def test_the_ids_of_messages_are_apart_and_stay() -> None:
    found = due_messages(
        "p", [channel("a"), channel("b")], [alert("x"), alert("y")], [], AT
    ) + due_messages("q", [channel("a")], [alert("x")], [], AT)
    assert len({item.delivery_id for item in found}) == 5
    again = due_messages("p", [channel("a")], [alert("x")], [], AT + timedelta(days=1))
    assert again[0].delivery_id == found[0].delivery_id


def test_a_message_reads_and_keeps_words_of_users_out_unless_asked() -> None:
    kinds = [
        {"what": "release", "sentence": "Release 2 has 40 % of them."},
        {"what": "words", "sentence": 'Questions with "refund".'},
    ]
    told = alert(kinds=kinds)
    plain = compose("opened", told, message_id="m", at=AT, public_url="https://w", words=False)
    assert plain.title == "Alert: generation in p (critical)"
    assert "Release 2" in plain.text
    assert "refund" not in plain.body
    assert "https://w/turns/t-1?project=p" in plain.text
    assert f"https://w/alerts?project=p#alert-{told['alert_id']}" in plain.text
    body = orjson.loads(plain.body)
    assert (body["type"], body["data"]["from"]) == ("alert.opened", 0.97)
    assert read_message("m", plain.body) == plain
    open_one = compose("opened", told, message_id="m", at=AT, public_url="", words=True)
    assert "refund" in open_one.text


def test_secrets_are_never_shown() -> None:
    hook = parse_channel(
        {"name": "a", "url": "https://hooks.example:8443/T0KEN/abc?k=v", "secret": SECRET}
    )
    text = orjson.dumps(shown(hook)).decode()
    assert "T0KEN" not in text
    assert SECRET not in text
    assert shown(hook)["url"] == "https://hooks.example/•••"
    service = parse_channel({"name": "b", "kind": "service", "url": "slack://AAA/BBB/CCC/#ops"})
    assert shown(service)["url"] == "slack://•••"
    named = parse_channel({"name": "c", "url": "env:HOOK", "secret": "env:HOOK_SECRET"})
    assert (shown(named)["url"], shown(named)["secret"]) == ("env:HOOK", "env:HOOK_SECRET")


def test_variables_are_read_only_when_they_are_named() -> None:
    assert resolved("env:HOOK", {"HOOK": "https://x"}, {"HOOK"}) == "https://x"
    with pytest.raises(InvalidInputError, match="STAGEWATCH_ALERT_ENV"):
        resolved("env:OPENAI_API_KEY", {"OPENAI_API_KEY": "sk"}, {"HOOK"})
    with pytest.raises(InvalidInputError, match="not set"):
        resolved("env:HOOK", {}, {"HOOK"})


@pytest.mark.parametrize(
    "body",
    [
        {"url": "ftp://x/y"}, {"url": "https://user:pw@x/y"}, {"url": "https://x/#y"},
        {"url": "https://x:99999/"}, {"url": "https://x/a b"}, {"secret": "short"},
        {"secret": ""}, {"renotify_hours": -1}, {"timeout_s": 0}, {"stages": ["No Such"]},
        {"name": "../x"}, {"kind": "pigeon"}, {"severities": ["mild"]}, {"unknown": 1},
        {"stages": ["kitchen"]}, {"metrics": ["beauty"]}, {"events": ["closed"]}, {"events": []},
        {"url": "https://hooks..example.com/x"}, {"url": f"https://{'a' * 64}.example.com/x"},
        {"url": "https://.x/"}, {"url": "https://a b/"}, {"url": "https://[::1/"},
        {"url": "https://" + "a." * 127 + "com/"}, {"url": "slack://\ud800/x", "kind": "service"},
    ],
)  # fmt: skip
def test_a_channel_that_does_not_fit_is_refused_without_its_secrets(body: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_channel({"name": "a", "url": "https://x/T0KEN", "secret": SECRET, **body})
    assert "T0KEN" not in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "json://host/x", "file:///etc/passwd", "exec://x", "syslog://", "dbus://",
        "slack://A/B/C/?template=/etc/passwd", "slack://A/B/C/?redirect=yes",
        "mailto://u:p@h?pgpprv=/root/key", "ntfy://h/t?attach=http://169.254.169.254/",
        "discord://A/B?verify=no", "mmost://h/t?+X-A=b", "slack://", "slack", "ntfy://h/a b",
    ],
)  # fmt: skip
def test_services_and_options_beyond_the_list_are_refused(url: str) -> None:
    with pytest.raises(InvalidInputError):
        check_service_url(url)


def test_what_a_service_says_is_told_without_its_tokens() -> None:
    said = without_secrets("404 at /services/AAAA/BBBBB for u5er", "slack://u5er:AAAA@BBBBB/x")
    assert said == "404 at /services/•••/••• for •••"


def test_a_dry_run_lists_what_would_have_gone_out() -> None:
    now = AT + timedelta(hours=60)
    back = {"back": True, "at": rfc3339(AT + timedelta(hours=50)), "value": 1.0, "n": 40,
            "what": "release 2 → 3"}  # fmt: skip
    alerts = [
        alert("a1", recovery=back),
        alert("a2", calibrated=False, stage="retrieval"),
        alert(
            "a3",
            opened_at=rfc3339(AT - timedelta(hours=180)),
            closed_at=rfc3339(AT - timedelta(hours=100)),
            mark={"state": "acked", "by": "x", "at": rfc3339(AT - timedelta(hours=150))},
        ),
    ]
    found = replay(channel(), alerts, since=now - timedelta(days=7), now=now)
    told = [(item.event, item.alert_id) for item in found if not item.held_back]
    assert told == [
        ("closed", "a3"), ("opened", "a1"), ("reminder", "a1"), ("reminder", "a1"), ("closed", "a1"),
    ]  # fmt: skip
    assert {item.alert_id for item in found if item.held_back} == {"a2"}
    only = channel(stages=["retrieval"], renotify_hours=0)
    assert len(replay(only, alerts, since=now - timedelta(days=7), now=now)) == 1
