"""Messages through `apprise`: which of its services may be used, and a process that uses them.

apprise opens its own connections, some to hosts named in the address. It therefore runs in a
process of its own, in which every connection is checked (`service_process`), which has no
environment of ours to give away, and which can be stopped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit

import orjson

from stagewatch.core.errors import InvalidInputError
from stagewatch.scorer.channels.addresses import Network
from stagewatch.scorer.channels.post import Outcome, short

_COMMON = frozenset({"format", "overflow", "to", "image"})
SERVICES: Mapping[str, frozenset[str]] = {
    "discord": _COMMON | {"thread", "footer", "avatar", "tts"},
    "gchat": _COMMON | {"workspace", "key", "token", "thread"},
    "gotifys": _COMMON | {"priority"},
    "gotify": _COMMON | {"priority"},
    "incidentio": _COMMON | {"source", "token"},
    "mailto": _COMMON | {"from", "name", "smtp", "mode", "reply", "cc", "bcc"},
    "mailtos": _COMMON | {"from", "name", "smtp", "mode", "reply", "cc", "bcc"},
    "mmost": _COMMON | {"channel", "channels", "team", "botname", "mode"},
    "mmosts": _COMMON | {"channel", "channels", "team", "botname", "mode"},
    "ntfy": _COMMON | {"priority", "xtags", "mode", "token", "auth"},
    "ntfys": _COMMON | {"priority", "xtags", "mode", "token", "auth"},
    "opsgenie": _COMMON | {"region", "priority", "entity", "alias", "tags"},
    "pagerduty": _COMMON | {"group", "class", "region", "severity"},
    "pover": _COMMON | {"priority", "sound", "interval", "expire", "key"},
    "rocket": _COMMON | {"mode", "avatar", "webhook"},
    "rockets": _COMMON | {"mode", "avatar", "webhook"},
    "slack": _COMMON | {"footer", "blocks", "timestamp", "mode", "token"},
    "splunk": _COMMON | {"apikey", "routing_key", "route", "entity_id"},
    "tgram": _COMMON | {"silent", "preview", "topic", "thread", "mdv"},
    "workflows": _COMMON | {"id", "pa", "route", "wrap", "sig", "ver"},
    "wxteams": _COMMON | {"token", "mode"},
}
"""Scheme → options its address may hold. apprise knows many more: those left out read local files
(`template`, `pgp…`), switch checks off (`verify`, `redirect`), or add headers (`+…`).
"""

_START_S = 20.0
"""What the process may need to start, beside the time of the message."""


def check_service_url(url: str) -> None:
    """Raise InvalidInputError unless `url` is of an allowed service with allowed options only."""
    scheme, found, rest = url.partition("://")
    allowed = SERVICES.get(scheme.lower())
    if not found or not rest or allowed is None:
        raise InvalidInputError(f"url: use one of {', '.join(sorted(SERVICES))}, as scheme://…")
    if any(ord(ch) <= ord(" ") for ch in url) or len(url) > 2000:
        raise InvalidInputError("url: at most 2,000 characters, no spaces")
    try:
        query = urlsplit(url).query
    except ValueError:
        raise InvalidInputError("url: not an address") from None
    for name, _ in parse_qsl(query, keep_blank_values=True):
        if name.lower() not in allowed:
            raise InvalidInputError(
                f"url: option {name[:40]!r} is not allowed for {scheme.lower()}; "
                f"allowed: {', '.join(sorted(allowed))}"
            )


def send_service(
    url: str, title: str, text: str, *, allowed: Sequence[Network], timeout_s: float
) -> Outcome:
    """Send one message through apprise; never raises for what the service does.

    apprise doesn't tell a refusal from an outage, so every failure may be tried again.
    """
    check_service_url(url)
    asked = {
        "url": url,
        "title": for_people(title),
        "text": for_people(text),
        "networks": [str(net) for net in allowed],
        "timeout_s": timeout_s,
    }
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "stagewatch.scorer.channels.service_process"],
            input=orjson.dumps(asked),
            capture_output=True,
            timeout=timeout_s + _START_S,
            env=_bare_environment(os.environ),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(ok=False, status=0, said=f"no answer in {timeout_s:g} s", again=True)
    try:
        told = orjson.loads(ended.stdout)
        ok, said = bool(told["ok"]), str(told["said"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return Outcome(ok=False, status=0, said="apprise ended without an answer", again=True)
    return Outcome(ok=ok, status=0, said=short(without_secrets(said, url)), again=not ok)


def for_people(text: str) -> str:
    """`text` without what chat services act on: names of releases and people in it come from
    outside, and must not ring everybody (`<!channel>`, `@everyone`) or make links.
    """
    plain = "".join(ch if ch.isprintable() or ch == "\n" else " " for ch in text[:_MOST_CHARS])
    return plain.translate(_ACTING)


_MOST_CHARS = 4000
_ACTING = str.maketrans({"<": "‹", ">": "›", "@": "@\u200b", "[": "(", "]": ")", "`": "'"})


def _bare_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What Python and TLS need, and nothing else: no keys, no proxies."""
    kept = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")
    return {name: environ[name] for name in kept if name in environ}


def without_secrets(said: str, url: str) -> str:
    """`said` without the parts of the service's address: most of them are tokens."""
    parts = {part for part in _parts(url) if len(part) >= 4}
    for part in sorted(parts, key=len, reverse=True):
        said = said.replace(part, "•••")
    return said


def _parts(url: str) -> list[str]:
    rest = url.partition("://")[2]
    for mark in "/?&=:@":
        rest = rest.replace(mark, " ")
    return rest.split()
