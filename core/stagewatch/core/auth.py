"""API keys: per project, with roles, hashed at rest; and the keyless mode of a loopback server.

A key is `sw_<id>_<secret>` with 256 random bits, so one SHA-256 is enough at rest: there is
nothing to guess by dictionary. Found by id, compared in constant time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from stagewatch.core.clock import Clock, rfc3339
from stagewatch.core.errors import (
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    UnauthorizedError,
)
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import (
    delete_document,
    get_document,
    list_documents,
    put_document,
)

Role = Literal["ingest", "read", "write", "admin"]
ROLES: tuple[str, ...] = get_args(Role)
ANY_PROJECT = "*"
_COLLECTION = "keys"
_PROJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_CACHE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking. `project` "*" may name any project; `verified` is False without a key."""

    name: str
    project: str
    roles: frozenset[str]
    verified: bool = True

    def may(self, role: Role) -> bool:
        """True when the key has the role; admin has them all, write includes read."""
        if "admin" in self.roles or role in self.roles:
            return True
        return role == "read" and "write" in self.roles

    def need(self, role: Role) -> None:
        """Raise ForbiddenError unless the key has the role."""
        if not self.may(role):
            raise ForbiddenError(f"this key has no '{role}' role; ask for one that has")

    def pick_project(self, asked: str | None) -> str:
        """The project of a request: the key's own, or the one asked for where it may.

        Raises:
            ForbiddenError: the key belongs to another project.
            InvalidInputError: not a project name.
        """
        if asked and not _PROJECT_NAME.fullmatch(asked):
            raise InvalidInputError(
                "project: use 1 to 64 letters, digits, '_', '.' or '-', not starting with a sign"
            )
        if self.project == ANY_PROJECT:
            return asked or "default"
        if asked and asked != self.project:
            raise ForbiddenError(f"this key belongs to project {self.project!r}")
        return self.project


def presented_key(headers: Mapping[str, str]) -> str | None:
    """The key in `Authorization: Bearer`, Basic (as password, Langfuse style) or `x-api-key`.

    `headers` has lower-case names.
    """
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and rest.strip():
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).decode().partition(":")[2] or None
        except (binascii.Error, UnicodeDecodeError):
            return None
    return headers.get("x-api-key") or None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class Auth:
    """Turns request headers into a principal. Safe to call from any thread."""

    def __init__(self, store: Store, clock: Clock, *, keyless: bool) -> None:
        self._store = store
        self._clock = clock
        self.keyless = keyless
        # Guards `_seen`: receivers and API threads look keys up side by side.
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, Principal]] = {}

    def principal(self, headers: Mapping[str, str]) -> Principal:
        """Who sends these headers (lower-case names).

        Raises:
            UnauthorizedError: no key where one is needed, or one that is not known.
        """
        key = presented_key(headers)
        if key is None:
            if self.keyless:
                name = headers.get("x-stagewatch-user", "").strip()[:80] or "unverified"
                return Principal(name, ANY_PROJECT, frozenset(ROLES), verified=False)
            raise UnauthorizedError("no API key: send 'Authorization: Bearer sw_…'")
        return self._known(key)

    def _known(self, key: str) -> Principal:
        now = self._clock.monotonic()
        digest = _hash(key)
        with self._lock:
            cached = self._seen.get(digest)
        if cached and now - cached[0] < _CACHE_SECONDS:
            return cached[1]
        parts = key.split("_", 2)
        body = None
        if len(parts) == 3 and parts[0] == "sw" and parts[1].isalnum():
            body = get_document(self._store, _COLLECTION, parts[1], project=ANY_PROJECT)
        if body is None or not hmac.compare_digest(str(body["hash"]), digest):
            raise UnauthorizedError("this API key is not known (revoked, or mistyped)")
        found = Principal(body["name"], body["project"], frozenset(body["roles"]))
        with self._lock:
            if len(self._seen) > 10_000:
                self._seen.clear()
            self._seen[digest] = (now, found)
        return found

    def create(self, name: str, project: str, roles: list[str]) -> tuple[str, str]:
        """Make a key and return (its id, the key itself, which is shown this once).

        Raises:
            InvalidInputError: no name, an unknown role, or not a project name.
        """
        unknown = [role for role in roles if role not in ROLES]
        if unknown or not roles:
            raise InvalidInputError(f"roles: use some of {', '.join(ROLES)}")
        if not name.strip() or len(name) > 80:
            raise InvalidInputError("name: a person's or service's name of 1 to 80 characters")
        if project != ANY_PROJECT and not _PROJECT_NAME.fullmatch(project):
            raise InvalidInputError("project: letters, digits, '_', '.' or '-', or '*' for all")
        key_id = secrets.token_hex(6)
        key = f"sw_{key_id}_{secrets.token_urlsafe(32)}"
        now = self._clock.now()
        body = {
            "id": key_id,
            "name": name.strip(),
            "project": project,
            "roles": sorted(set(roles)),
            "hash": _hash(key),
            "created_at": rfc3339(now),
        }
        put_document(self._store, _COLLECTION, key_id, body, at=now, project=ANY_PROJECT)
        return key_id, key

    def list(self) -> list[dict[str, Any]]:
        """Every key without its hash."""
        return [
            {name: value for name, value in body.items() if name != "hash"}
            for body in list_documents(self._store, _COLLECTION, project=ANY_PROJECT)
        ]

    def revoke(self, key_id: str) -> None:
        """Make a key unusable (elsewhere within `_CACHE_SECONDS`).

        Raises:
            NotFoundError: there is no such key.
        """
        if get_document(self._store, _COLLECTION, key_id, project=ANY_PROJECT) is None:
            raise NotFoundError(f"no key {key_id!r}; 'stagewatch key list' shows them")
        delete_document(self._store, _COLLECTION, key_id, at=self._clock.now(), project=ANY_PROJECT)
        with self._lock:
            self._seen.clear()
