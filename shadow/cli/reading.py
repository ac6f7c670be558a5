"""Commands that read the store: report, gate, migrate. They work while the services run, and after."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from analysis.policy import Policy
from shadow.config import Config, ConfigError, config_hash, load

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from analysis.service import Settings

HOLD = 3
