"""Kafka behind the stream's interface, by kafka-python. See the README, section Kafka.

Nothing connects before its first use, and every call may block for a stated time: these are for
sender and collector threads, never for the event loop.
"""

import logging

from shadow.stream.kafka.consumer import KafkaConsumerStream
from shadow.stream.kafka.producer import DeadLetter, KafkaDeadLetters, KafkaProducerStream
from shadow.stream.kafka.settings import KafkaSettings, Sasl, Tls

__all__ = [
    "DeadLetter",
    "KafkaConsumerStream",
    "KafkaDeadLetters",
    "KafkaProducerStream",
    "KafkaSettings",
    "Sasl",
    "Tls",
]

# kafka-python logs each of its many attempts as an error; ours says once what was the matter. Who
# configures logging hears all of it still.
logging.getLogger("kafka").addHandler(logging.NullHandler())
