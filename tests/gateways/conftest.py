"""Tests with a real gateway run by `-m gateway` (make test-real), loudly skipped where there is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from gateways.gateway import INSTALL

from bench.peers import envoy_path


def _missing(what: str) -> None:
    if os.environ.get("SHADOW_REQUIRE_ENVOY") == "1":
        pytest.fail(f"SHADOW_REQUIRE_ENVOY=1, but {what}", pytrace=False)
    pytest.skip(what)


@pytest.fixture
def with_envoy() -> None:
    """Envoy is installed, or the test is skipped, or fails where it is required."""
    if envoy_path() is None:
        _missing(INSTALL)


@pytest.fixture
def with_nginx() -> None:
    """nginx is installed, or the test is skipped: it is no PyPI package."""
    if not (shutil.which("nginx") or Path("/usr/sbin/nginx").exists()):
        pytest.skip("nginx is not installed: apt-get install nginx-light")
