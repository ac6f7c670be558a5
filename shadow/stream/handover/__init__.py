"""Records handed to a process on the same host, in memory, which passes them on to the stream.

`producer` is the proxy's end: `shadow.stream.Producer` like any other. `server` is the other end,
in `shadow measure`. A batch is acknowledged when it is on the stream: what is lost on the way is
sent again, or waits in the proxy's queue, where a full queue drops and counts.
"""

from shadow.stream.handover.producer import HandoverProducer
from shadow.stream.handover.server import Handover

__all__ = ["Handover", "HandoverProducer"]
