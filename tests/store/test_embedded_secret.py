"""The store's secret outlives its starts; a configured password takes its place."""

import urllib.error
import urllib.request

from collector.embedded import EmbeddedStore
from collector.folder import secret_of

LOCAL = ("127.0.0.1", 0)


def asked(store, password=""):
    """The status of a question that shows this password."""
    url = f"{store.url}/?password={password}"
    try:
        with urllib.request.urlopen(url, b"SELECT 1", timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_secret_stays_and_a_password_takes_its_place(tmp_path):
    """Over restarts; with a password of the configuration nobody enters without it."""
    with EmbeddedStore.open(tmp_path, LOCAL, "shadow", "default", "") as first:
        secret = first.settings.password
    assert secret_of(tmp_path) == secret
    with EmbeddedStore.open(tmp_path, LOCAL, "shadow", "default", "") as again:
        assert again.settings.password == secret
        assert asked(again) == 200
    with EmbeddedStore.open(tmp_path, LOCAL, "shadow", "default", "s3") as closed:
        assert asked(closed) == 401
        assert asked(closed, secret) == 403
        assert asked(closed, "s3") == 200
    assert secret_of(tmp_path / "nowhere") == ""
