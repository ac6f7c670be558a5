"""One embedded store a module, and the two clients that everything must look the same through."""

import itertools
from dataclasses import replace

import pytest

from collector.embedded import EmbeddedStore
from collector.store import StoreSettings, connect

PASSWORD = "s3cret:%/ü"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    with EmbeddedStore.open(folder, ("127.0.0.1", 0), "shadow", "default", PASSWORD) as opened:
        yield opened


@pytest.fixture(scope="module")
def settings(store):
    return StoreSettings(store.url, "shadow", "default", PASSWORD, timeout_s=60)


@pytest.fixture(scope="module")
def http_client(settings):
    client = connect(settings)
    yield client
    client.close()


@pytest.fixture(scope="module", params=["in process", "http"])
def client(request, store, settings):
    opened = store.client() if request.param == "in process" else connect(replace(settings))
    yield opened
    opened.close()


@pytest.fixture
def table():
    """A name that no other test uses."""
    return f"t{next(_numbers)}"
