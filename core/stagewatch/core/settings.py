"""Settings: built once from `STAGEWATCH_*` variables and one TOML file, frozen, passed down.

An unknown name stops the start and the nearest right one is named. A value in the environment
wins over the file, the file over the default.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from stagewatch.core.errors import SettingsError

PREFIX = "STAGEWATCH_"

MAPPED_FIELDS = (
    "question", "answer", "rewritten_query", "query", "conversation_id", "turn_index", "user_id",
    "release", "index_version", "prompt_version", "environment", "documents", "reranked", "top_k",
    "prompt", "completion", "model", "input_tokens", "output_tokens",
)  # fmt: skip
"""Turn fields that an app's own attributes may be mapped to, beside `tags.NAME`. Those from
`documents` on, and `query`, are read where they stand: they tell what a span did.
"""

# Names that other parts read from the environment themselves.
_CLIENT_NAMES = frozenset({"STAGEWATCH_URL", "STAGEWATCH_API_KEY", "STAGEWATCH_CONFIG"})
# The SDK's own variables (stagewatch.sdk reads them in the app's process).
_SDK_NAMES = re.compile(r"STAGEWATCH_SDK_[A-Z_]+|STAGEWATCH_TEST_[A-Z_]+|STAGEWATCH_ENDPOINT")
_LINKED_PORT = "STAGEWATCH_PORT"
# Kubernetes puts these beside a service called "stagewatch".
_SERVICE_LINK = re.compile(
    r"STAGEWATCH_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?)"
)


def setting(default: Any, *, help: str, secret: bool = False) -> Any:  # noqa: A002, ANN401
    """A settings field with its help text; secrets are kept out of `repr`."""
    meta = {"help": help, "secret": secret}
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=meta, repr=not secret)
    return field(default=default, metadata=meta, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every option of the server processes. The environment name is STAGEWATCH_ + upper case."""

    data_dir: Path = setting(Path(".stagewatch"), help="Folder of the embedded engine and spool.")
    host: str = setting("127.0.0.1", help="Address that all three listeners bind.")
    port: int = setting(8600, help="Port of the API and UI.")
    otlp_grpc_port: int = setting(4317, help="Port of the OTLP gRPC receiver.")
    otlp_http_port: int = setting(4318, help="Port of the OTLP HTTP receiver.")
    clickhouse_url: str = setting(
        "", help="http(s)://user:password@host:8123/db; empty means embedded.", secret=True
    )
    log_level: str = setting("info", help="debug, info, warning or error.")
    log_json: bool = setting(False, help="One JSON object a log line instead of text.")
    allow_keyless: bool = setting(
        False, help="Listen beyond loopback although no key is configured."
    )
    engine_memory_mb: int = setting(4096, help="Memory cap of the embedded engine.")
    quiet_seconds: float = setting(5.0, help="Quiet time after a root arrives before assembly.")
    orphan_seconds: float = setting(
        30.0, help="Quiet time for a trace whose root has not come before it is assembled anyway."
    )
    assembly_share: str = setting(
        "1/1", help="Share of the traces this collector assembles: '2/3' is the second of three."
    )
    reopen_hours: float = setting(24.0, help="How long late spans re-open a turn.")
    ack: str = setting("spool", help="When a sender gets its yes: 'spool' or 'insert'.")
    spool_max_mb: int = setting(4096, help="Size of the spool at which senders are told to wait.")
    spool_min_free_mb: int = setting(512, help="Free disk below which senders are told to wait.")
    segment_mb: float = setting(16.0, help="Size at which a spool segment is sealed.")
    segment_seconds: float = setting(1.0, help="Age at which a spool segment is sealed.")
    max_request_mb: int = setting(64, help="Largest request, on the wire and inflated.")
    max_connections: int = setting(
        2000, help="HTTP connections, and gRPC calls, that are served at once."
    )
    key_requests_per_second: float = setting(
        0.0, help="OTLP requests a second that one key may send; 0 is no limit."
    )
    key_mb_per_second: float = setting(
        0.0, help="Inflated megabytes a second that one key may send; 0 is no limit."
    )
    retention_days: int = setting(90, help="Days after which spans and turns are dropped.")
    judge: str = setting("embedded", help="Which judge reads turns: 'embedded' or 'openai'.")
    judge_model: str = setting("", help="Model of the openai judge.")
    judge_input_usd: float = setting(2.5, help="Price of a million tokens the judge reads, USD.")
    judge_output_usd: float = setting(10.0, help="Price of a million tokens it writes, USD.")
    judge_concurrency: int = setting(16, help="Calls to the openai judge that run side by side.")
    first_pass: bool = setting(
        True, help="The embedded judge reads every turn, the openai judge the sample of them."
    )
    vectors: str = setting(
        "off",
        help="`local` lets the embedded judge compare sentence vectors too (`make local` first).",
    )
    sample_rate: float = setting(1.0, help="Share of eligible turns the scorer reads, 0 to 1.")
    rules: list[dict[str, Any]] = setting(
        [], help="Scoring rules of all projects, in TOML as [[rules]] (docs/scoring.md)."
    )
    score_every_seconds: float = setting(5.0, help="How often the scorer looks for new turns.")
    budget_usd_per_day: float = setting(5.0, help="Hard limit of judge spending per UTC day.")
    budget_calls_per_day: int = setting(
        0, help="Hard limit of paid judge calls per UTC day; 0 is no limit."
    )
    leftover_days: int = setting(
        1, help="Days back that turns over budget are read when a later day can pay; 0 is never."
    )
    plan_env: str = setting(
        "", help="Variables that plans run by this server may read, separated by commas."
    )
    public_url: str = setting(
        "", help="Address of the UI as people reach it, for links in messages."
    )
    alert_networks: str = setting(
        "", help="Private networks that alert channels may reach, e.g. '10.1.0.0/16'."
    )
    alert_env: str = setting(
        "", help="Variables that alert channels may read, separated by commas."
    )
    canary_hours: float = setting(
        24.0, help="How often the judge reads its frozen set, in hours; 0 is never."
    )
    attribute_map: dict[str, str] = setting(
        {},
        help="Custom attribute names to turn fields, e.g. 'app.user_question' = 'question'; "
        "a table in the file, JSON or an inline TOML table in the variable (docs/settings.md).",
    )
    tls_cert: str = setting("", help="PEM certificate for the OTLP listeners.")
    tls_key: str = setting("", help="PEM private key for the OTLP listeners.")
    tls_client_ca: str = setting("", help="PEM CA: senders must show a certificate it signed.")

    @property
    def embedded(self) -> bool:
        """True when the store is the in-process engine."""
        return not self.clickhouse_url


def option_table() -> list[tuple[str, str, str]]:
    """(environment name, default, help) of every setting, for the docs table and `--help`."""
    rows = []
    for spec in fields(Settings):
        made = spec.default_factory() if spec.default_factory is not MISSING else None
        default = spec.default if spec.default is not MISSING else made
        rows.append((PREFIX + spec.name.upper(), str(default), str(spec.metadata["help"])))
    return rows


_KIND_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


def _nearest(name: str, known: list[str]) -> str:
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else f"; known names: {', '.join(known)}"


def _written(raw: object) -> Any:  # noqa: ANN401
    """A list or table as an environment variable holds it: JSON or TOML."""
    try:
        return json.loads(str(raw))
    except json.JSONDecodeError:
        return tomllib.loads(f"x = {raw}")["x"]


def _convert(name: str, kind: Any, raw: Any) -> Any:  # noqa: ANN401
    try:
        if kind is bool:
            if isinstance(raw, bool):
                return raw
            word = str(raw).strip().lower()
            if word in {"1", "true", "yes", "on"}:
                return True
            if word in {"0", "false", "no", "off", ""}:
                return False
            raise ValueError
        if kind is Path:
            return Path(str(raw)).expanduser()
        if kind in {int, float, str}:
            return kind(raw)
        if get_origin(kind) is list:
            return [dict(x) for x in (raw if isinstance(raw, list) else _written(raw))]
        pairs = raw if isinstance(raw, dict) else _written(raw)
        return {str(k): str(v) for k, v in pairs.items()}
    except (ValueError, TypeError, AttributeError, tomllib.TOMLDecodeError):
        word = _KIND_WORDS.get(
            kind, "a list of tables" if get_origin(kind) is list else "a table of names"
        )
        raise SettingsError(f"{name}: {str(raw)!r} is not {word}") from None


# Smallest value that makes sense; every number must be finite as well.
_AT_LEAST: Mapping[str, float] = {
    "engine_memory_mb": 256,
    "quiet_seconds": 0,
    "orphan_seconds": 0,
    "reopen_hours": 0,
    "spool_max_mb": 1,
    "spool_min_free_mb": 0,
    "segment_mb": 0.1,
    "segment_seconds": 0.01,
    "max_request_mb": 1,
    "retention_days": 1,
    "score_every_seconds": 0.1,
    "budget_usd_per_day": 0,
    "canary_hours": 0,
    "budget_calls_per_day": 0,
    "leftover_days": 0,
    "judge_concurrency": 1,
}


def _check_numbers(settings: Settings) -> None:
    for spec in fields(Settings):
        value = getattr(settings, spec.name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        name = f"{PREFIX}{spec.name.upper()}"
        if not math.isfinite(value):
            raise SettingsError(f"{name}: {value} is not a number to work with")
        least = _AT_LEAST.get(spec.name)
        if least is not None and value < least:
            raise SettingsError(f"{name}: {value:g} is too small; the least is {least:g}")


def _check_tls(settings: Settings) -> None:
    """TLS that is half configured must not become no TLS."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingsError("STAGEWATCH_TLS_CERT and STAGEWATCH_TLS_KEY go together")
    if settings.tls_client_ca and not settings.tls_cert:
        raise SettingsError("STAGEWATCH_TLS_CLIENT_CA needs STAGEWATCH_TLS_CERT and _TLS_KEY too")


def _check_messages(settings: Settings) -> None:
    """What alert messages are made and sent with."""
    for part in settings.alert_networks.split(","):
        try:
            if part.strip():
                ipaddress.ip_network(part.strip(), strict=False)
        except ValueError:
            raise SettingsError(
                f"STAGEWATCH_ALERT_NETWORKS: {part.strip()!r}: use networks such as 10.1.0.0/16"
            ) from None
    if settings.public_url and not settings.public_url.startswith(("http://", "https://")):
        raise SettingsError("STAGEWATCH_PUBLIC_URL: use http(s)://host")


def _check(settings: Settings) -> Settings:
    _check_numbers(settings)
    _check_tls(settings)
    _check_messages(settings)
    for name in ("port", "otlp_grpc_port", "otlp_http_port"):
        value = getattr(settings, name)
        if not 0 <= value <= 65535:
            raise SettingsError(f"{PREFIX}{name.upper()}: {value} is not a port (0 to 65535)")
    if settings.ack not in {"spool", "insert"}:
        raise SettingsError(f"{PREFIX}ACK: {settings.ack!r}: use 'spool' or 'insert'")
    share = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", settings.assembly_share)
    if share is None or not 1 <= int(share[1]) <= int(share[2]):
        raise SettingsError(
            f"STAGEWATCH_ASSEMBLY_SHARE: {settings.assembly_share!r}: use '1/1', or '2/3' for the "
            "second of three collectors"
        )
    if settings.judge not in {"embedded", "openai"}:
        raise SettingsError(f"{PREFIX}JUDGE: {settings.judge!r}: use 'embedded' or 'openai'")
    for attribute, name in settings.attribute_map.items():
        if name not in MAPPED_FIELDS and not name.startswith("tags."):
            known = [*MAPPED_FIELDS, "tags.NAME"]
            raise SettingsError(
                f"STAGEWATCH_ATTRIBUTE_MAP: {attribute!r} to {name!r}{_nearest(name, known)}"
            )
    if settings.vectors not in {"off", "local"}:
        raise SettingsError(f"STAGEWATCH_VECTORS: {settings.vectors!r} is not off or local")
    if settings.judge == "openai" and not settings.judge_model:
        raise SettingsError("STAGEWATCH_JUDGE=openai needs STAGEWATCH_JUDGE_MODEL (a model name)")
    if not 0.0 <= settings.sample_rate <= 1.0:
        raise SettingsError(f"STAGEWATCH_SAMPLE_RATE: {settings.sample_rate} is not in 0..1")
    if settings.clickhouse_url and not settings.clickhouse_url.startswith(("http://", "https://")):
        raise SettingsError("STAGEWATCH_CLICKHOUSE_URL: use http(s)://user:password@host:8123/db")
    if settings.log_level.lower() not in {"debug", "info", "warning", "error"}:
        raise SettingsError(f"STAGEWATCH_LOG_LEVEL: {settings.log_level!r}: use debug, info, …")
    return settings


def load_settings(environ: Mapping[str, str], config: Path | None = None) -> Settings:
    """Settings from the TOML file (`config`, else STAGEWATCH_CONFIG, else ./stagewatch.toml
    when it exists) overlaid by `environ`.

    Raises:
        SettingsError: unknown name (with the nearest right one), bad value, unreadable file.
    """
    hints = get_type_hints(Settings)
    known = {spec.name: hints[spec.name] for spec in fields(Settings)}
    values = _from_file(known, config or _config_path(environ))
    names = [PREFIX + name.upper() for name in known]
    for name, raw in environ.items():
        if not name.startswith(PREFIX) or name in _CLIENT_NAMES or _SDK_NAMES.fullmatch(name):
            continue
        if _SERVICE_LINK.fullmatch(name) or (name == _LINKED_PORT and "://" in raw):
            continue
        key = name.removeprefix(PREFIX).lower()
        if key not in known or name != name.upper():
            raise SettingsError(f"unknown setting {name}{_nearest(name, names)}")
        values[key] = _convert(name, known[key], raw)
    return _check(Settings(**values))


def _config_path(environ: Mapping[str, str]) -> Path | None:
    named = environ.get("STAGEWATCH_CONFIG")
    if named:
        return Path(named)
    here = Path("stagewatch.toml")
    return here if here.is_file() else None


def _from_file(known: Mapping[str, Any], path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        loaded = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    for name in loaded:
        if name not in known:
            raise SettingsError(f"unknown setting {name!r} in {path}{_nearest(name, list(known))}")
    return {name: _convert(f"{name} in {path}", known[name], raw) for name, raw in loaded.items()}
