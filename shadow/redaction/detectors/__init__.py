"""What is looked for in texts: each detector finds stretches of characters that are a secret.

A pattern finds candidates, a check keeps what is one: Luhn, mod 97, a real country's numbers, a
token's own shape.
"""

from shadow.redaction.detectors.addresses import emails, ips
from shadow.redaction.detectors.keys import jwts, keys
from shadow.redaction.detectors.money import cards, ibans
from shadow.redaction.detectors.phones import phones
from shadow.redaction.detectors.search import Find


def builtin(regions: tuple[str, ...]) -> dict[str, Find]:
    """Every detector by its name in the configuration."""
    return {
        "email": emails,
        "phone": phones(regions),
        "card": cards,
        "iban": ibans,
        "key": keys,
        "jwt": jwts,
        "ip": ips,
    }
