"""A channel: where messages go, which alerts it hears of, and what of it may be shown."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from stagewatch.core.clock import rfc3339
from stagewatch.core.codec import to_text
from stagewatch.core.errors import ConflictError, InvalidInputError, NotFoundError
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import (
    delete_document,
    get_document,
    last_change,
    list_documents,
    put_document,
)
from stagewatch.core.store.firsts import is_first
from stagewatch.scorer.channels.post import split_url
from stagewatch.scorer.channels.services import check_service_url
from stagewatch.scorer.channels.sign import new_secret, secret_bytes
from stagewatch.scorer.plans.plan import KNOWN_METRICS
from stagewatch.scorer.strict import STRICT, Many, fault

COLLECTION = "channels"
Event = Literal["opened", "reminder", "acked", "closed"]
EVENTS: tuple[str, ...] = get_args(Event)
Severity = Literal["warning", "critical"]

STAGES: tuple[str, ...] = (
    "rewrite", "stale_source", "memory", "retrieval_and_generation", "retrieval", "ranking",
    "generation", "evasion", "no_data", "judge",
)  # fmt: skip
"""What a channel can be narrowed to."""

METRICS: tuple[str, ...] = (*KNOWN_METRICS, "turns", "chunk_relevance")
"""Metrics of alerts; `turns` is what stops coming, `chunk_relevance` the judge's other label."""

_OURS = ("since", "made", "by")
# Guards the look for a channel of a name and its change: threads of one process take turns.
_SAVING = threading.Lock()

_REFERENCE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_HIDDEN = "•••"
Word = Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]


class Channel(BaseModel):
    """One channel.

    `kind` is `webhook` (signed JSON, our own client) or `service` (an apprise address). `url` and
    `secret` are the values themselves or `env:NAME`. Empty `stages`, `metrics`, `severities` let
    everything through. `renotify_hours` 0 sends no reminders. `words` lets words of users'
    questions into the message. Alerts opened before `since` are not told; what was planned
    before `made` is another channel's that had the name.
    """

    model_config = STRICT

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    kind: Literal["webhook", "service"] = "webhook"
    url: Annotated[str, Field(min_length=1, max_length=2000)]
    secret: Annotated[str, Field(max_length=200)] = ""
    stages: Many[Word] = ()
    metrics: Many[Word] = ()
    severities: Many[Severity] = ()
    events: Many[Event] = ("opened", "reminder", "acked", "closed")
    renotify_hours: Annotated[float, Field(ge=0, le=720)] = 24.0
    timeout_s: Annotated[float, Field(ge=0.2, le=60)] = 10.0
    words: bool = False
    enabled: bool = True
    since: str = ""
    made: str = ""
    by: str = ""


def parse_channel(body: object) -> Channel:
    """A channel from plain data, its address and secret checked as far as they are at hand.

    Raises:
        InvalidInputError: naming the first field that does not fit; never with its value.
    """
    try:
        found = Channel.model_validate(body)
    except ValidationError as error:
        raise InvalidInputError(f"channel: {fault(error)}") from None
    _check_filters(found)
    if not is_reference(found.url):
        check = check_service_url if found.kind == "service" else split_url
        check(found.url)
    if found.kind == "webhook" and not is_reference(found.secret):
        secret_bytes(found.secret)
    try:
        to_text(found.model_dump(mode="json"))
    except (TypeError, ValueError):
        raise InvalidInputError("channel: holds what is not text") from None
    return found


def _check_filters(found: Channel) -> None:
    for field, given, known in (
        ("stages", found.stages, STAGES), ("metrics", found.metrics, METRICS),
    ):  # fmt: skip
        odd = [word for word in given if word not in known]
        if odd:
            raise InvalidInputError(
                f"channel: {field}: {odd[0]!r} is not known; use {', '.join(known)}"
            )
    if "opened" not in found.events:
        # The others follow it: such a channel would never say a word.
        raise InvalidInputError("channel: events: 'opened' has to be among them")


def check_sent(sent: Mapping[str, Any]) -> None:
    """Raise InvalidInputError when a person's body holds what this server writes itself."""
    for field in _OURS:
        if field in sent:
            raise InvalidInputError(f"channel: {field}: is not for callers to set")


def is_reference(text: str) -> bool:
    """Whether the value stands in a variable: `env:NAME`."""
    return _REFERENCE.fullmatch(text) is not None


def resolved(text: str, environ: Mapping[str, str], allowed: Collection[str]) -> str:
    """The value itself, read from the environment when `text` says so.

    Raises:
        InvalidInputError: the variable is not set, or not one that channels may read.
    """
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return text
    name = found.group(1)
    if name not in allowed:
        raise InvalidInputError(f"{name} may not be read: name it in STAGEWATCH_ALERT_ENV")
    if not environ.get(name):
        raise InvalidInputError(f"{name} is not set in the environment")
    return environ[name]


def shown(channel: Channel) -> dict[str, Any]:
    """The channel as API and UI show it: of the address the host at most, of the secret nothing."""
    body = channel.model_dump(mode="json")
    body["url"] = _masked_url(channel)
    body["secret"] = channel.secret if is_reference(channel.secret) else _hidden(channel.secret)
    return body


def _hidden(secret: str) -> str:
    return _HIDDEN if secret else ""


def _masked_url(channel: Channel) -> str:
    if is_reference(channel.url):
        return channel.url
    scheme = channel.url.partition("://")[0]
    if channel.kind == "service":
        # What looks like a host there is often a token.
        return f"{scheme}://{_HIDDEN}"
    return f"{scheme}://{urlsplit(channel.url).hostname}/{_HIDDEN}"


def hears(channel: Channel, alert: Mapping[str, Any], severity: str) -> bool:
    """Whether the channel's filters let this alert through."""
    return (
        (not channel.stages or alert["stage"] in channel.stages)
        and (not channel.metrics or alert["metric"] in channel.metrics)
        and (not channel.severities or severity in channel.severities)
    )


def put_channel(store: Store, project: str, channel: Channel, *, at: datetime) -> None:
    """Store or replace a channel."""
    body = channel.model_dump(mode="json")
    put_document(store, COLLECTION, channel.name, body, at=at, project=project)


def list_channels(store: Store, project: str) -> list[Channel]:
    """The channels of a project by name."""
    found = [Channel(**body) for body in list_documents(store, COLLECTION, project=project)]
    return sorted(found, key=lambda channel: channel.name)


def find_channel(store: Store, project: str, name: str) -> Channel | None:
    """A channel, or None."""
    body = get_document(store, COLLECTION, name, project=project)
    return Channel(**body) if body else None


def need_channel(store: Store, project: str, name: str) -> Channel:
    """A channel.

    Raises:
        NotFoundError: there is none of this name.
    """
    found = find_channel(store, project, name)
    if found is None:
        raise NotFoundError(f"no channel {name!r} in project {project!r}")
    return found


def drop_channel(store: Store, project: str, name: str, *, at: datetime) -> None:
    """Delete a channel with its address and secret.

    Raises:
        NotFoundError: there is none of this name.
    """
    need_channel(store, project, name)
    delete_document(store, COLLECTION, name, at=at, project=project)


def projects_with_channels(store: Store) -> list[str]:
    """Projects that have a channel."""
    rows = store.rows(
        """SELECT DISTINCT project FROM documents FINAL
           WHERE collection = {collection:String} AND NOT deleted ORDER BY project""",
        {"collection": COLLECTION},
    )
    return [row["project"] for row in rows]


def save_channel(
    store: Store,
    project: str,
    sent: Mapping[str, Any],
    *,
    by: str,
    now: datetime,
    random: bytes,
) -> tuple[Channel, str]:
    """Store what a person sent; the channel, and its new secret ("" when none was made).

    A field left out of a known channel's update keeps its value, so nobody has to type a secret
    again. A webhook without a secret gets one from `random` (32 bytes), shown this once.

    Raises:
        InvalidInputError: as `parse_channel` and `check_sent`.
        ConflictError: somebody else is making a channel of this name.
    """
    check_sent(sent)
    before = _named(store, project, sent)
    with _SAVING:
        # Before the look: whoever makes it after this has claimed the same change.
        last = _last_change(store, project, sent)
        known = _named(store, project, sent)
        if before is None and known is not None:
            raise _made_elsewhere(known.name)
        channel, made = _merged(known, sent, by=by, now=now, random=random)
        # Processes cannot take turns: two first saves would each give away a secret of their own.
        if known is None and not is_first(store, COLLECTION, project, channel.name, str(last)):
            raise _made_elsewhere(channel.name)
        put_channel(store, project, channel, at=now)
    return channel, made


def _made_elsewhere(name: str) -> ConflictError:
    return ConflictError(f"channel {name!r} was just made by somebody else")


def _last_change(store: Store, project: str, sent: Mapping[str, Any]) -> datetime | None:
    name = sent.get("name")
    return last_change(store, COLLECTION, name, project=project) if isinstance(name, str) else None


def _named(store: Store, project: str, sent: Mapping[str, Any]) -> Channel | None:
    name = sent.get("name")
    return find_channel(store, project, name) if isinstance(name, str) and name else None


def _merged(
    known: Channel | None, sent: Mapping[str, Any], *, by: str, now: datetime, random: bytes
) -> tuple[Channel, str]:
    """The channel after a change, and its new secret."""
    body: dict[str, Any] = {**(known.model_dump() if known else {}), **sent}
    made = ""
    if body.get("kind", "webhook") == "service":
        body["secret"] = ""
    elif not body.get("secret"):
        made = body["secret"] = new_secret(random)
    was_on = known is not None and known.enabled
    body["since"] = known.since if known is not None and was_on else rfc3339(now)
    body["made"] = known.made if known is not None else rfc3339(now)
    body["by"] = by
    return parse_channel(body), made
