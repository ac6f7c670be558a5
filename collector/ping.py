"""Whether ClickHouse answers at a URL, asked before anything else is sent there.

A statement or a password belongs to no stranger who happens to listen at the address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from clickhouse_connect.driver.httputil import check_env_proxy, get_pool_manager
from urllib3 import Timeout

if TYPE_CHECKING:
    from pathlib import Path

_OK = b"Ok.\n"
_MOST_BYTES = 64


def stranger(url: str, ca: Path | None, connect_s: float, answer_s: float) -> str | None:
    """None where ClickHouse's `/ping` answers `Ok.`; else one line that says what did.

    Raises:
        urllib3's HTTPError, OSError: nothing answers, or not in time.
    """
    parts = urlsplit(url)
    port = parts.port or (8443 if parts.scheme == "https" else 8123)
    proxy = check_env_proxy(parts.scheme, str(parts.hostname), port)
    options: dict[str, Any] = {f"{parts.scheme}_proxy": proxy} if proxy else {}
    if ca is not None:
        options["ca_cert"] = str(ca)
    pool = get_pool_manager(**options)
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    try:
        answer = pool.request(
            "GET",
            f"{parts.scheme}://{host}:{port}{parts.path}/ping",
            timeout=Timeout(connect=connect_s, read=answer_s),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        said = answer.read(_MOST_BYTES)
        answer.release_conn()
    finally:
        pool.clear()
    if answer.status >= 500 or answer.status == 429:
        return None  # overloaded, or behind a gateway that is: the client says which
    if answer.status != 200:
        return (
            f"store at {url}: HTTP status {answer.status}: no ClickHouse at that host, port, path"
        )
    return None if said == _OK else f"store at {url}: what answers is no ClickHouse"
