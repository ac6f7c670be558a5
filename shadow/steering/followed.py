"""Another host's control port: what it says of mirroring, and what is said to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final
from urllib.error import URLError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from shadow.steering.told import MOST_BYTES, NotSteering, Told, told_of

FOLLOW_TIMEOUT_S: Final = 2.0
MIRROR_PATH: Final = "/api/v1/mirror"


@dataclass(frozen=True, slots=True)
class Followed:
    """Another host's control port."""

    url: str
    token: str = ""


class _NoRedirect(HTTPRedirectHandler):
    """The token goes to the host that was named, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER: Final = build_opener(ProxyHandler({}), _NoRedirect())


def ask(followed: Followed) -> Told:
    """What a control port says of mirroring.

    Raises:
        NotSteering: it is away, refuses, or says something else; one line.
    """
    return told_of(fetched(followed))


def fetched(followed: Followed, path: str = MIRROR_PATH, said: object = None) -> object:
    """The JSON that a control port answers; `said` is posted to it.

    Raises:
        NotSteering: it is away, refuses, or answers something else; one line.
    """
    fields = {"Authorization": f"Bearer {followed.token}"} if followed.token else {}
    body = None if said is None else json.dumps(said).encode()
    if body is not None:
        fields["Content-Type"] = "application/json"
    url = f"{followed.url}{path}"
    request = Request(url, data=body, headers=fields)  # noqa: S310 http or https, by the model
    try:
        with _OPENER.open(request, timeout=FOLLOW_TIMEOUT_S) as answer:
            return json.loads(answer.read(MOST_BYTES))
    except URLError as error:
        raise NotSteering(f"{url}: {_why(error)}") from error
    except (OSError, ValueError, HTTPException, RecursionError) as error:
        raise NotSteering(f"{url}: {' '.join(str(error).split())}") from error


def _why(error: URLError) -> str:
    """What the port itself said of its refusal, if it did."""
    read_on = getattr(error, "read", None)
    if read_on is None:
        return str(error.reason)
    with error:  # type: ignore[attr-defined]
        try:
            return str(json.loads(read_on(MOST_BYTES))["error"])
        except (OSError, ValueError, KeyError, TypeError, HTTPException, RecursionError):
            return str(error)
