"""What of a connector is a credential, and what readers are shown of it."""

from __future__ import annotations

import pytest

from stagewatch.scorer.plans.credentials import literal_secret, shown_literals, shown_url


@pytest.mark.parametrize(
    ("name", "value", "literal"),
    [
        ("authorization", "Bearer ${BOT_TOKEN}", False),
        ("authorization", "Token token=${T}", False),
        ("authorization", "${WHOLE}", False),
        ("authorization", "Bearer abc", True),
        ("authorization", "Bearer abc ${X}", True),
        ("cookie", "session=${A}; csrf=${B}", False),
        ("cookie", "session=${A}; csrf=b7", True),
        ("Proxy-Authorization", "Basic dTpw", True),
        ("x-api-key", "k${A}", True),
        ("x-tenant", "Basic dTpw", True),
        ("x-tenant", "acme", False),
    ],
)
def test_a_credential_names_a_variable(name: str, value: str, literal: bool) -> None:
    assert literal_secret(name, value) is literal


def test_literals_under_names_of_credentials_are_hidden_at_any_depth() -> None:
    shown = shown_literals(
        {
            "question": "{{question}}",
            "session_id": "{{row_id}}",
            "userPassword": 1234,
            "max_tokens": 300,
            "stream_key": True,
            "auth": {"user": "u", "pass": [{"v": "w"}]},
            "deep": [{"access_token": "t", "note": "n"}],
            "note": "send Bearer abc",
        }
    )
    assert shown == {
        "question": "{{question}}",
        "session_id": "{{row_id}}",
        "userPassword": "•••",
        "max_tokens": 300,
        "stream_key": True,
        "auth": {"user": "•••", "pass": [{"v": "•••"}]},
        "deep": [{"access_token": "•••", "note": "n"}],
        "note": "•••",
    }


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://h:9/a?q={{question}}&api_key=x", "http://h:9/a?q={{question}}&api_key=•••"),
        ("https://u:p@h/a", "https://•••@h/a"),
        ("http://h/a", "http://h/a"),
        ("http://[h/a?key=x", "•••"),
    ],
)
def test_an_address_is_shown_without_what_opens_it(url: str, shown: str) -> None:
    assert shown_url(url) == shown
