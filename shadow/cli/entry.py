"""The console entry. Only the standard library before the guard: a broken install is exit 70,
never a status that a rollout could take for a verdict.
"""

from __future__ import annotations

import os
import sys
import traceback

UNCAUGHT = 70
INTERRUPTED = 130


def main() -> None:
    """Run the command line; the exit status is documented in docs/operations.md."""
    try:
        from shadow.cli.commands import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe left; nothing more can be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except SystemExit:
        raise
    except BaseException:  # noqa: BLE001 the last guard
        traceback.print_exc()
        sys.stderr.write("shadow: this is a fault of shadow itself; see the lines above\n")
        status = UNCAUGHT
    sys.exit(status)
