"""Who said what of mirroring, written down in the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

Connect = Callable[[], "Client"]


def record(connect: Connect, experiment: str, action: str, said: Mapping[str, Any]) -> str:
    """Write down who said it, and when; why it could not be."""
    from analysis.events import append

    detail = {key: said[key] for key in ("by", "reason", "rate") if key in said}
    try:
        with closing(connect()) as client:
            arm = str(said.get("arm", ""))
            append(client, experiment, f"mirror_{action}", arm, detail, time.time_ns())
    except Exception as error:  # noqa: BLE001 whatever keeps us from the store
        return " ".join(str(error).split())[:300]
    return ""
