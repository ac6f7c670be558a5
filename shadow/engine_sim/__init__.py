"""A simulated engine: an OpenAI-compatible streaming server, for demos and tests.

The text is a function of the prompt alone, so equal engines agree; the timing is drawn from the
engine's own seed, so equal engines still differ as two machines do. `settings` says what may be
asked for, `answer` what is said, `timing` when, `fault` what goes wrong, `dialect` and `frames`
how it looks on the wire; `plan` puts these together for what was `asked`, `engine` performs it on
aiohttp, and `server` is the process around that.
"""

from shadow.engine_sim.settings import Settings

__all__ = ["Settings", "run"]


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT, which end it at once.

    Returns:
        0, or 2 where the address cannot be listened on (one line on stderr says why).
    """
    # The command line reads Settings at every start; only an engine needs aiohttp.
    from shadow.engine_sim.server import run as serve  # noqa: PLC0415 see above

    return serve(settings)
