"""The embedded log: one SQLite file a worker, a partition each, behind the stream's interface.

Rules:

1. A batch is one row, so an append is one statement and one transaction: after `kill -9` the
   whole batch is there or none of it, and the sender thread gives the interpreter's lock away
   once a batch instead of once a record.
2. A new file's offsets begin at the microsecond of its birth, and an old file goes on above what
   any group has committed: an offset never names two records, whatever was deleted or undone.
3. What a group has not committed is unread. Its number is added to `expired_unread` in the
   transaction that deletes it. What every group has committed is given up as the log goes on;
   a log that is full of unread records, or whose disk is down to its reserve, refuses.
"""

from shadow.stream.embedded.consumer import EmbeddedConsumer
from shadow.stream.embedded.producer import EmbeddedProducer

__all__ = ["EmbeddedConsumer", "EmbeddedProducer"]
