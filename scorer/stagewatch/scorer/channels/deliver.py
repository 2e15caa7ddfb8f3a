"""Sending: plan what is due, try it, write down what became of it.

A row is written before a message leaves and again after it. A crash in between leaves the first
one, and the message is sent once more with the same id: a receiver that keeps ids sees each
message exactly once, others may see one twice.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.clock import Clock
from stagewatch.core.errors import InvalidInputError, StoreUnavailableError
from stagewatch.core.settings import Settings
from stagewatch.core.store.alerts import list_alerts
from stagewatch.core.store.client import Store
from stagewatch.core.store.deliveries import (
    Delivery,
    DeliveryState,
    bodies_of,
    deliveries_since,
    put_delivery,
)
from stagewatch.scorer.channels.addresses import (
    Network,
    Resolver,
    parse_networks,
    system_resolver,
)
from stagewatch.scorer.channels.channel import (
    Channel,
    list_channels,
    projects_with_channels,
    resolved,
)
from stagewatch.scorer.channels.due import Due, due_messages, due_retries, is_of, pause_before
from stagewatch.scorer.channels.message import (
    Message,
    compose,
    message_id,
    read_message,
    sample_alert,
)
from stagewatch.scorer.channels.post import Outcome, Wire, post
from stagewatch.scorer.channels.services import send_service
from stagewatch.scorer.channels.sign import signed_headers

log = logging.getLogger("stagewatch.scorer.channels")

LOG_KEPT = timedelta(days=60)
"""How far back a message counts as told; an alert that is open longer is told anew."""

_AT_ONCE = 4
_AGENT = "stagewatch-alerts"


@dataclass(frozen=True, slots=True)
class Office:
    """What sending needs: store, time, and what channels may read and reach."""

    store: Store
    clock: Clock
    environ: Mapping[str, str]
    allowed_env: Collection[str]
    networks: Sequence[Network]
    public_url: str = ""
    resolver: Resolver = system_resolver


def open_office(
    store: Store, clock: Clock, settings: Settings, environ: Mapping[str, str]
) -> Office:
    """The office of a process with these settings.

    Raises:
        SettingsError: the networks cannot be read.
    """
    names = {name.strip() for name in settings.alert_env.split(",") if name.strip()}
    networks = parse_networks(settings.alert_networks)
    return Office(store, clock, environ, names, networks, settings.public_url)


def send(channel: Channel, message: Message, office: Office) -> Outcome:
    """One try of one message; never raises for what the channel or the network is like."""
    try:
        url = resolved(channel.url, office.environ, office.allowed_env)
        secret = resolved(channel.secret, office.environ, office.allowed_env)
        if channel.kind == "service":
            return send_service(
                url, message.title, message.text,
                allowed=office.networks, timeout_s=channel.timeout_s,
            )  # fmt: skip
        body = message.body.encode()
        headers = {
            "content-type": "application/json",
            "user-agent": _AGENT,
            **signed_headers(secret, message.message_id, office.clock.now(), body),
        }
        wire = Wire(office.networks, office.resolver, channel.timeout_s, office.clock)
        return post(url, headers, body, wire)
    except InvalidInputError as error:
        return Outcome(ok=False, status=0, said=str(error))
    except Exception as error:  # noqa: BLE001 - one channel must not silence the others
        kind = type(error).__name__
        log.warning("a message broke", extra={"channel": channel.name, "kind": kind})
        return Outcome(ok=False, status=0, said=f"cannot be sent: {kind}")


def send_test(office: Office, project: str, channel: Channel) -> Delivery:
    """A marked message through a channel, now; its line in the log, with what the peer said."""
    now = office.clock.now()
    identity = message_id(project, channel.name, "test", "test", int(now.timestamp() * 1e6))
    message = compose(
        "test", sample_alert(project, now), message_id=identity, at=now,
        public_url=office.public_url, words=False,
    )  # fmt: skip
    planned = Delivery(
        project=project, delivery_id=identity, channel=channel.name, alert_id="test",
        event="test", created_at=now, at=now, attempt=1, body=message.body,
    )  # fmt: skip
    put_delivery(office.store, planned)
    return _after(office, planned, send(channel, message, office), last=True)


def _after(office: Office, tried: Delivery, outcome: Outcome, *, last: bool = False) -> Delivery:
    """Write down what became of a try. The row is newer than the one before, whatever the clock
    says.
    """
    now = max(office.clock.now(), tried.at + timedelta(microseconds=1))
    pause = pause_before(tried.attempt, outcome.wait_s) if outcome.again and not last else None
    state: DeliveryState = "sent" if outcome.ok else "failed" if pause is None else "retry"
    ended = replace(
        tried, at=now, state=state, status=outcome.status, said=outcome.said,
        next_at=now + pause if pause is not None else None,
    )  # fmt: skip
    put_delivery(office.store, ended)
    return ended


def notify_pass(office: Office, stopping: Callable[[], bool] = lambda: False) -> Counter[str]:
    """Send what is due in every project; messages by the state they are in now.

    What goes wrong with one message, channel or project stays there: it is logged by its class,
    and what is due stays due.

    Raises:
        StoreUnavailableError: the store is away, for all of them.
    """
    counts: Counter[str] = Counter()
    for project in projects_with_channels(office.store):
        if stopping():
            break
        try:
            counts += _notify_project(office, project, stopping)
        except StoreUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - one project must not silence the others
            log.warning(
                "the messages of a project are not sent",
                extra={"project": project, "kind": type(error).__name__},
            )
    return counts


def _notify_project(office: Office, project: str, stopping: Callable[[], bool]) -> Counter[str]:
    now = office.clock.now()
    channels = list_channels(office.store, project)
    known = deliveries_since(office.store, project, now - LOG_KEPT)
    alerts = list_alerts(office.store, project, now)
    by_channel: dict[str, list[Delivery]] = defaultdict(list)
    again = due_retries(known, now)
    bodies = bodies_of(office.store, project, [item.delivery_id for item in again])
    for item in again:
        by_channel[item.channel].append(replace(item, body=bodies.get(item.delivery_id, "")))
    told: dict[tuple[str, str], list[Delivery]] = defaultdict(list)
    for item in known:
        told[item.channel, item.alert_id].append(item)
    for channel in channels:
        for alert in alerts:
            before = told.get((channel.name, alert["alert_id"]), [])
            by_channel[channel.name] += _due_of(office, project, channel, alert, before, now)
    named = {channel.name: channel for channel in channels}
    work = [(named.get(name), items) for name, items in by_channel.items() if items]
    if not work:
        return Counter()
    # A channel's messages go one after another, in order; a slow one must not hold up others.
    with ThreadPoolExecutor(min(_AT_ONCE, len(work)), "notify") as pool:
        counts = pool.map(lambda item: _send_all(office, item[0], item[1], stopping), work)
        return sum(counts, Counter())


def _due_of(
    office: Office,
    project: str,
    channel: Channel,
    alert: Mapping[str, Any],
    before: Sequence[Delivery],
    now: datetime,
) -> list[Delivery]:
    """What a channel has to be told of an alert; nothing when one of them cannot be read."""
    try:
        found = due_messages(project, [channel], [alert], before, now)
        return [_planned(office, project, item, now) for item in found]
    except Exception as error:  # noqa: BLE001 - one alert must not silence the others
        log.warning(
            "a message cannot be written",
            extra={"channel": channel.name, "kind": type(error).__name__},
        )
        return []


def _planned(office: Office, project: str, due: Due, now: datetime) -> Delivery:
    message = compose(
        due.event, due.alert, message_id=due.delivery_id, at=now,
        public_url=office.public_url, words=due.channel.words,
    )  # fmt: skip
    return Delivery(
        project=project, delivery_id=due.delivery_id, channel=due.channel.name,
        alert_id=due.alert["alert_id"], event=due.event, number=due.number,
        created_at=now, at=now, body=message.body,
    )  # fmt: skip


def _send_all(
    office: Office,
    channel: Channel | None,
    items: Sequence[Delivery],
    stopping: Callable[[], bool],
) -> Counter[str]:
    counts: Counter[str] = Counter()
    for item in items:
        if stopping():
            break
        try:
            counts[_attempt(office, channel, item).state] += 1
        except Exception as error:  # noqa: BLE001 - one message must not hold up the others
            log.warning(
                "a message's fate could not be stored; it is tried again",
                extra={"channel": item.channel, "kind": type(error).__name__},
            )
            counts["unstored"] += 1
    return counts


def _attempt(office: Office, channel: Channel | None, item: Delivery) -> Delivery:
    """One try, with a row before and a row after it."""
    at = max(office.clock.now(), item.at + timedelta(microseconds=1))
    tried = replace(item, attempt=item.attempt + 1, state="sending", next_at=None, at=at)
    gone = _gone(channel, item)
    if channel is None or gone:
        return _after(office, tried, Outcome(ok=False, status=0, said=gone))
    put_delivery(office.store, tried)
    try:
        message = read_message(item.delivery_id, item.body)
    except (ValueError, KeyError, TypeError):
        return _after(office, tried, Outcome(ok=False, status=0, said="its text cannot be read"))
    ended = _after(office, tried, send(channel, message, office))
    if ended.state != "sent":
        log.warning(
            "a message was not delivered",
            extra={"channel": ended.channel, "state": ended.state, "status": ended.status},
        )
    return ended


def _gone(channel: Channel | None, item: Delivery) -> str:
    """Why the message's channel takes it no more; "" while it does."""
    if channel is None or not is_of(channel, item):
        return "the channel was deleted"
    return "" if channel.enabled else "the channel is switched off"
