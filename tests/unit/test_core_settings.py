"""Settings: what a person typed wrong is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from stagewatch.core.errors import SettingsError
from stagewatch.core.settings import load_settings, option_table


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    config = tmp_path / "stagewatch.toml"
    config.write_text('port = 9000\nhost = "0.0.0.0"\n[attribute_map]\n"app.q" = "question"\n')
    found = load_settings({"STAGEWATCH_PORT": "9100"}, config)
    assert (found.port, found.host, found.otlp_http_port) == (9100, "0.0.0.0", 4318)
    assert found.attribute_map == {"app.q": "question"}


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"STAGEWATCH_PROT": "1"}, "did you mean STAGEWATCH_PORT?"),
        ({"STAGEWATCH_PORT": "eight"}, "STAGEWATCH_PORT: 'eight' is not a whole number"),
        ({"STAGEWATCH_PORT": "70000"}, "not a port"),
        ({"STAGEWATCH_SAMPLE_RATE": "7"}, "not in 0..1"),
        ({"STAGEWATCH_ACK": "maybe"}, "use 'spool' or 'insert'"),
        ({"STAGEWATCH_JUDGE": "oracle"}, "use 'embedded' or 'openai'"),
        ({"STAGEWATCH_JUDGE": "openai"}, "STAGEWATCH_JUDGE_MODEL"),
        ({"STAGEWATCH_TLS_CERT": "x", "STAGEWATCH_LOG_JSON": "perhaps"}, "LOG_JSON"),
        ({"STAGEWATCH_ATTRIBUTE_MAP": '{"a"="questoin"}'}, "did you mean question?"),
        ({"STAGEWATCH_TLS_CLIENT_CA": "ca.pem"}, "TLS_CLIENT_CA needs"),
        ({"STAGEWATCH_TLS_KEY": "key.pem"}, "go together"),
        ({"STAGEWATCH_SEGMENT_SECONDS": "nan"}, "not a number to work with"),
        ({"STAGEWATCH_BUDGET_USD_PER_DAY": "inf"}, "not a number to work with"),
        ({"STAGEWATCH_MAX_REQUEST_MB": "0"}, "the least is 1"),
        ({"STAGEWATCH_SPOOL_MAX_MB": "-1"}, "the least is 1"),
        ({"STAGEWATCH_RETENTION_DAYS": "-4"}, "the least is 1"),
        ({"STAGEWATCH_HOST": "", "STAGEWATCH_OTLP_HTTP_PORT": "tcp://1:2"}, "OTLP_HTTP_PORT"),
        ({"STAGEWATCH_CLICKHOUSE_URL": "junk"}, "use http(s)://"),
    ],
)
def test_a_wrong_setting_stops_the_start(environ: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)
    assert says in str(caught.value)


def test_names_that_kubernetes_injects_are_ignored() -> None:
    environ = {
        "STAGEWATCH_PORT_80_TCP": "tcp://10.0.0.1:80",
        "STAGEWATCH_PORT": "tcp://10.0.0.1:80",
        "STAGEWATCH_SERVICE_HOST": "10.0.0.1",
        "STAGEWATCH_SERVICE_PORT_HTTP": "80",
    }
    assert load_settings(environ).port == 8600


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("port = ", "is not TOML"),
        ("prot = 1", "did you mean port?"),
        ('port = "x"', "is not a whole number"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    config = tmp_path / "s.toml"
    config.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings({}, config)
    assert says in str(caught.value)
    assert str(config) in str(caught.value)


def test_a_missing_file_is_said() -> None:
    with pytest.raises(SettingsError, match="cannot read /nowhere"):
        load_settings({"STAGEWATCH_CONFIG": "/nowhere"})


def test_secrets_do_not_show() -> None:
    found = load_settings({"STAGEWATCH_CLICKHOUSE_URL": "http://u:hunter2@db/x"})
    assert "hunter2" not in repr(found)


def test_every_option_is_documented() -> None:
    text = Path("docs/settings.md").read_text()
    for name, _, explained in option_table():
        assert f"`{name}`" in text, name
        assert explained in text, name
