"""What `make demo` and `make demo-engines` run: the whole path on this machine, with a verdict.

`simulated` and `real` are the two demos, `stage` what they share. Around them: `folder` (where
they write), `files` (the configuration they write), `children` (processes), `path` (the product,
used through its own command line as a person would), `prompts` and `questions`, `load` (the
client); `llama` installs real engines.
"""

from shadow.demo.real import run_engines
from shadow.demo.simulated import run

__all__ = ["run", "run_engines"]
