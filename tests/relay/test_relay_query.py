"""No key in a query reaches an arm, and nothing else of the query changes."""

from __future__ import annotations

from time import thread_time_ns

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.credentials import SECRETS
from shadow.target import MAX_PARAMETERS, without_secrets

GONE = {name.encode() for name in SECRETS | {"code"}}


@pytest.mark.parametrize(
    ("target", "kept", "gone"),
    [
        (b"/v1/x", b"/v1/x", []),
        (b"/v1/x?", b"/v1/x?", []),
        (b"/v1/x?a=1&&b;c=%7E&keys=1&a=2", b"/v1/x?a=1&&b;c=%7E&keys=1&a=2", []),
        (b"/v1/x?key=s", b"/v1/x", ["key"]),
        (b"/v1/x?a=1&API_Key=s&b=%20", b"/v1/x?a=1&b=%20", ["api-key"]),
        (b"/v1/x?api-key=s&b", b"/v1/x?b", ["api-key"]),
        (b"/v1/x?%6Bey=s&b", b"/v1/x?b", ["key"]),
        (b"/v1/x?a=1;token=s&b", b"/v1/x?a=1&b", ["token"]),
        (b"/v1/x?sig=s&sv=1&code=t&Signature=u", b"/v1/x?sv=1", ["sig", "code", "signature"]),
        (b"/v1/x?token", b"/v1/x", ["token"]),
        (b"/v1/x?access_token=a?b=c&d", b"/v1/x?d", ["access-token"]),
        (
            b"/v1/x?oauth_token=s&client-key=t&max_tokens=1",
            b"/v1/x?max_tokens=1",
            ["oauth-token", "*"],
        ),
        (
            b"/v1/x?accessToken=s&APIKey=t&maxTokens=1&KEy=u",
            b"/v1/x?maxTokens=1",
            ["access-token", "apikey", "key"],
        ),
        (
            b"/v1/x?key[0]=s&token%5B%5D=t&api.key=u&key%00=v&a[]=1",
            b"/v1/x?a[]=1",
            ["key", "token", "api-key", "key"],
        ),
        (b"/v1/x?%FF-secret=s&a=-key", b"/v1/x?a=-key", ["*"]),
    ],
)
def test_secrets_do_not_travel(target, kept, gone):
    """By name, in whatever case and coding; the others keep their bytes and order."""
    assert without_secrets(target) == (kept, gone)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*sorted(GONE), b"a", b"model", b"%41"]),
            st.sampled_from([b"", b"=", b"=v%20"]),
        ),
        max_size=12,
    )
)
def test_what_stays_is_what_came(parameters):
    """The query of what is no secret, joined as it was."""
    joined = b"&".join(name + value for name, value in parameters)
    kept = [name + value for name, value in parameters if name not in GONE]
    target, gone = without_secrets(b"/p?" + joined)
    assert len(gone) == len(parameters) - len(kept)
    if gone:
        assert target == (b"/p?" + b"&".join(kept) if kept else b"/p")
    else:
        assert target == b"/p?" + joined


def test_a_long_name_is_not_decoded():
    """Taken for a secret's in no time, whatever is in it."""
    begun = thread_time_ns()
    assert without_secrets(b"/p?a=1&" + b"%41" * 20_000 + b"=s") == (b"/p?a=1", ["*"])
    assert thread_time_ns() - begun < 1_000_000


def test_a_query_without_end_goes_as_a_whole():
    """It would hold the loop."""
    assert without_secrets(b"/p?" + b"a&" * MAX_PARAMETERS) == (b"/p", ["*"])
