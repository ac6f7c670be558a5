"""shadow: compare a new inference engine deployment with the one in production, on live traffic.

The sidecar's package: relay (bytes), mirror (decisions), capture (what was seen), publisher and
stream (the way out), config and control (the way in). See README.md in this folder.
"""

__version__ = "0.1.0"
