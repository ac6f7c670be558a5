"""What the analysis is told of a configuration: the policy, names and identities."""

from __future__ import annotations

from pathlib import Path

from analysis.policy import Policy, policy_hash
from analysis.settings import Settings, Stop
from shadow.config import Config, ConfigError, comparison_id, config_hash, load
from shadow.config.units import show_duration


def read_policy(config: Config) -> Policy:
    """The policy that the configuration names, or the default one.

    Raises:
        ConfigError: a mistake in it, as one line with its file; or nothing could ever be promoted.
    """
    policy, kept_s = _policy(config), config.retention.measures
    if policy.min_span > kept_s:
        raise ConfigError(
            f"retention.measures: {show_duration(kept_s)} is shorter than the policy's min_span, "
            f"{show_duration(policy.min_span)}: nothing could ever be promoted"
        )
    return policy


def _policy(config: Config) -> Policy:
    if config.policy is None:
        return Policy()
    try:
        return load(config.policy, Policy, overrides=False)
    except ConfigError as error:
        raise ConfigError(f"policy: {error}{_counted_from(config.policy)}") from None


def _counted_from(path: Path) -> str:
    """Where a file that is not there was looked for."""
    if path.is_absolute() or path.exists():
        return ""
    return f" (relative paths count from the current directory: {path.absolute()})"


def analysis_settings(config: Config) -> Settings:
    """What the analysis is told of a configuration: names and identities, nothing else."""
    policy = read_policy(config)
    arms = {"primary": config.primary, **config.arms}
    measured = config_hash(config)
    return Settings(
        experiment=config.experiment,
        config_hash=measured,
        candidates=tuple(config.candidates),
        control=config.control,
        comparisons={arm: _comparison(config, arm, measured, policy) for arm in config.arms},
        policy=policy,
        builds={name: arm.build for name, arm in arms.items()},
        copies={name: arm.amplify for name, arm in config.arms.items()},
        factors={name: arm.factors for name, arm in config.arms.items()},
        attach=config.attach,
        replicas={
            name: upstream.replicas
            for name, upstream in arms.items()
            if upstream.replicas is not None
        },
        deadlines_s={name: arm.deadline for name, arm in config.arms.items()},
        off_period_s=None if config.isolated is None else config.isolated.period_s,
        stop=_stop(config),
    )


def _stop(config: Config) -> Stop:
    said = config.stop_at
    prices = {
        name: (arm.price.prompt_per_million, arm.price.completion_per_million)
        for name, arm in config.arms.items()
        if arm.price is not None
    }
    return Stop(said.pairs, said.hours, said.cost, prices, said.on_verdict == "stop")


def _comparison(config: Config, arm: str, measured: str, policy: Policy) -> str:
    builds = {"primary": config.primary.build, arm: config.arms[arm].build}
    if config.control is not None:
        builds[config.control] = config.arms[config.control].build
    return comparison_id(config.experiment, arm, measured, policy_hash(policy), builds, {})
