"""What in a statement reaches beyond the store: this machine's files, other servers. Pure, on str.

By the names of the engine's table functions, table and database engines, dictionary sources and
disks. A test holds them against the engine's own lists, so that a later one's new names are seen.
chDB's user has every right and cannot give one back, and read-only mode forbids none of this.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from collector.sql import Token, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

_CALLED = frozenset(
    """
    arrowflight arrowstream azureblobstorage azurequeue backup bigquery cassandra
    catboostevaluate clickhouse cluster clusterallreplicas cosn datalakecatalog deltalake
    dictionary disk eval executable executablepool file filelog filesystem gcs hdfs hive
    http hudi iceberg jdbc kafka library materializedpostgresql mongo mongodb mysql nats
    odbc oss paimon postgres postgresql prometheusquery prometheusqueryrange python query
    queryrunner rabbitmq redis remote remotesecure s3 s3queue source sqlite url ytsaurus
    """.split()  # noqa: SIM905
)
"""In small letters; a name that begins with one of `_FAMILIES` too. Not Distributed: it reaches the
clusters of a server's configuration, and there is none here."""
_FAMILIES = (
    *("azure", "deltalake", "file", "hdfs", "hudi", "iceberg", "paimon", "s3", "url", "remote"),
    *("mongo", "mysql", "postgre", "materializedpostgre", "executable", "prometheus"),
)
_HARMLESS = frozenset({"urlhash", "urlhierarchy", "urlpathhierarchy", "filesystemavailable"})
_LIFTED = frozenset({"file"})
"""Functions, which a higher one calls without brackets behind the name: arrayMap(file, …)."""
_ENGINE_VERBS = frozenset({"CREATE", "ATTACH", "REPLACE"})
_CURLED = re.compile("\xe2\x80[\x98\x99\x9c\x9d]")  # UTF-8 of quotation marks, as Latin-1


def reaching(text: str) -> str | None:
    """The first thing in a statement that reaches beyond the store, in words; None: nothing.

    Names in quoted texts and comments are none. Typographic quotes, which the engine takes for
    quotes, stand in no statement but to hide a name, and are refused outside of quoted texts.
    """
    found = list(tokens(text))
    plain = [token for token in found if token.kind != "sign" or token.text < "\x80"]
    signs = "".join(token.text for token in found if token.kind == "sign")
    if _CURLED.search(signs):
        return "a typographic quotation mark"
    for at, token in enumerate(plain):
        name = name_of(token)
        if name is None:
            continue
        if _is_called(plain, at) and _reaches(name):
            return f"{token.text}()"
        if name in _LIFTED or (_is_engine(plain, at) and _reaches(name)):
            return token.text
    return None


def name_of(token: Token) -> str | None:
    """In small letters; None for what names nothing: a number, a sign, a text in single quotes."""
    if token.kind == "word":
        return token.text.lower()
    if token.kind == "quoted" and token.text[0] in '`"':
        return _unescaped(token.text[1:-1]).lower()
    return None


def _unescaped(name: str) -> str:
    """A quoted name as the engine reads it, as far as letters go."""
    name = re.sub(r"\\x([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), name)
    return name.replace("\\N", "").replace("\\", "")


def _is_called(found: Sequence[Token], at: int) -> bool:
    return at + 1 < len(found) and found[at + 1].text == "("


def _is_engine(found: Sequence[Token], at: int) -> bool:
    if not found[0].says(*_ENGINE_VERBS):
        return False
    before = [token.text.upper() for token in found[max(0, at - 2) : at]]
    return before[-1:] == ["ENGINE"] or before == ["ENGINE", "="]


def _reaches(name: str) -> bool:
    return name in _CALLED or (name.startswith(_FAMILIES) and name not in _HARMLESS)
