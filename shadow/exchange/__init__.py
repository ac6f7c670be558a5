"""Exchange v1 and Accounting v1: what the proxy says on the stream, and nothing else.

This package is the contract between the proxy, the collector and the analysis. It imports the
standard library and pydantic only. Rules:

1. Fields are added, never renamed; readers ignore what they do not know.
2. Vocabularies are open on the wire: an unknown word is stored, never refused.
3. Every duration is an integer of nanoseconds on the monotonic clock; `arrived_at` and
   `started_at` are wall clock (UTC), taken once an exchange.
4. Bodies travel deflated (RFC 1950), then base64, inside the JSON document.
"""

from shadow.exchange.body import MAX_BODY_BYTES, STORED_BYTES, Body, deflated
from shadow.exchange.records import (
    SCHEMA_VERSION,
    Accounting,
    Count,
    Exchange,
    Headers,
    Mark,
    Record,
    RequestFacts,
)
from shadow.exchange.wire import MalformedRecord, decode, encode
from shadow.exchange.words import (
    DROP_REASONS,
    OUTCOMES,
    SKIP_REASONS,
    TRANSPORTS,
    Attach,
    Counter,
    DropReason,
    Outcome,
    Probe,
    Role,
    SkipReason,
    Transport,
)

__all__ = [
    "DROP_REASONS",
    "MAX_BODY_BYTES",
    "OUTCOMES",
    "SCHEMA_VERSION",
    "SKIP_REASONS",
    "STORED_BYTES",
    "TRANSPORTS",
    "Accounting",
    "Attach",
    "Body",
    "Count",
    "Counter",
    "DropReason",
    "Exchange",
    "Headers",
    "MalformedRecord",
    "Mark",
    "Outcome",
    "Probe",
    "Record",
    "RequestFacts",
    "Role",
    "SkipReason",
    "Transport",
    "decode",
    "deflated",
    "encode",
]
