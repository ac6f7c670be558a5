"""What makes two measurements the same measurement: hashes over what is measured, nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from shadow.config.model import Config
from shadow.config.references import Place, without_references
from shadow.config.secret_keys import is_value_of_secret
from shadow.config.upstream import Arm, Upstream

MASK = "********"


def digest(value: object) -> str:
    """First 16 hex digits of SHA-256 over the canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _measured(upstream: Upstream) -> dict[str, Any]:
    """What of one upstream changes what is measured. Never rates, limits or secrets."""
    facts: dict[str, Any] = {"url": upstream.url, "build": upstream.build}
    if upstream.replicas is not None:
        facts["replicas"] = upstream.replicas
    if upstream.tokenizer is not None:
        facts["tokenizer"] = str(upstream.tokenizer)
    if isinstance(upstream, Arm):
        facts |= {
            "role": upstream.role,
            "deadline": upstream.deadline,
            "key": upstream.key,
            "models": upstream.models,
            "factors": upstream.factors,
            "headers_set": sorted(upstream.headers.set),
            "headers_removed": sorted(upstream.headers.remove),
        }
        if upstream.params.set or upstream.params.remove:
            facts["params_set"] = {  # with their values: another temperature answers otherwise
                key: _mask(value, ("params", "set", key), {})
                for key, value in upstream.params.set.items()
            }
            facts["params_removed"] = sorted(upstream.params.remove)
        if upstream.include_usage:
            facts["include_usage"] = True
        if upstream.amplify > 1:  # a pair's figures are then a mean of several
            facts["amplify"] = upstream.amplify
        if upstream.start != "with_primary":
            facts["start"] = upstream.start
    return facts


def config_hash(config: Config) -> str:
    """Identity of what is measured: URLs, builds, models, changed parameters (of a credential its
    name alone), names of changed headers, deadlines, capture, sampling key, factors, tokenizers. A
    live change of a rate leaves it as it is.
    """
    redaction: dict[str, Any] = {}
    if config.redaction is not None:  # a masked text compares otherwise
        said = config.redaction.model_dump(mode="json", exclude={"salt", "headers"})
        redaction["redaction"] = said
    return digest(
        {
            **redaction,
            "capture": config.capture,
            "attach": config.attach,
            "primary": _measured(config.primary),
            "arms": {name: _measured(arm) for name, arm in config.arms.items()},
        }
    )


def comparison_id(
    experiment: str,
    candidate: str,
    config: str,
    policy: str,
    builds: dict[str, str],
    fingerprints: dict[str, str],
) -> str:
    """Identity of what one verdict is about: one candidate under one configuration and policy."""
    return digest([experiment, candidate, config, policy, builds, fingerprints])


def masked(config: Config, referring: Mapping[Place, str]) -> dict[str, Any]:
    """The resolved configuration as plain values, with every secret masked; where nothing was, it
    loads again.

    Args:
        config: as it was loaded.
        referring: of the same file, by `document.referring`: whatever came from ${NAME} is masked
            wherever it stands, since nobody knows which of it is a secret.
    """
    tree: dict[str, Any] = config.model_dump(mode="json", exclude_none=True)
    return {key: _mask(value, (key,), referring) for key, value in tree.items()}


def _mask(node: Any, place: Place, referring: Mapping[Place, str]) -> Any:
    if node and is_value_of_secret(place):
        return MASK
    if place in referring:
        return without_references(referring[place], MASK)
    if isinstance(node, dict):
        return {key: _mask(value, (*place, key), referring) for key, value in node.items()}
    if isinstance(node, list):
        return [_mask(value, (*place, str(n)), referring) for n, value in enumerate(node)]
    return node
