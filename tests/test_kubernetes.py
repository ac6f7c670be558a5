"""deploy/kubernetes says what the product and Kubernetes take, as far as that can be told without a cluster:
every object against Kubernetes' own schemas, the configuration, ports, probes, commands and times against
the code, and a ConfigMap's volume as the kubelet changes it against what watches it."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import latest_version

from analysis.policy import Policy
from shadow.cli import supervised
from shadow.cli.commands import cli
from shadow.config import Config, ConfigError, load
from shadow.control import health_app
from shadow.steering.kill_switch import kill_reason
from shadow.steering.looks import stamp

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "deploy/kubernetes"
PAGE = (ROOT / "docs/kubernetes.md").read_text()
FILES = {path.name: list(yaml.safe_load_all(path.read_text())) for path in FOLDER.glob("*.yaml")}
NO_SCHEMA = {"kustomization.yaml", "podmonitor.yaml"}
OBJECTS = [
    (f"{file} {each['kind']} {each['metadata']['name']}", each)
    for file, objects in sorted(FILES.items())
    if file not in NO_SCHEMA
    for each in objects
]
SIDECARS = "1.29"
"""The first version whose pods have sidecars without a switch."""
INSIDE = "/etc/shadow-compare/shadow.yaml"
SECRETS = {"CLICKHOUSE_PASSWORD": "p", "SHADOW_TOKEN": "t", "SUBJECT_SALT": "0123456789abcdef"}
VERBS = {"proxy": "proxy", "collector": "collect", "analysis": "analyze", "sidecar": "proxy"}


def one(file, kind, name=None):
    found = [
        each
        for each in FILES[f"{file}.yaml"]
        if each["kind"] == kind and name in {None, each["metadata"]["name"]}
    ]
    assert len(found) == 1, (file, kind, name)
    return found[0]


def pod(file):
    return one(file, "Deployment")["spec"]["template"]


def ours(file):
    """The container that runs shadow."""
    spec = pod(file)["spec"]
    (found,) = [
        each
        for each in [*spec.get("initContainers", []), *spec["containers"]]
        if each["name"] == "shadow"
    ]
    return found


def ports(file):
    return {port["name"]: port["containerPort"] for port in ours(file)["ports"]}


def text():
    return one("config", "ConfigMap", "shadow-config")["data"]["shadow.yaml"]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """The ConfigMap's file as a container loads it: with the Secret's keys and nothing else."""
    path = tmp_path_factory.mktemp("config") / "shadow.yaml"
    path.write_text(text())
    return load(path, Config, SECRETS)


@pytest.mark.parametrize("version", [SIDECARS, latest_version()])
@pytest.mark.parametrize("each", [each for _, each in OBJECTS], ids=[name for name, _ in OBJECTS])
def test_every_object_is_kubernetes_own(each, version):
    """Of the first version with sidecars and of the newest that is known; unknown fields are refused."""
    kubernetes_validate.validate(each, version, strict=True)


def test_the_check_has_teeth():
    """A misspelt field is found."""
    broken = one("collector", "Deployment") | {"specs": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, SIDECARS, strict=True)


def test_what_is_applied_together_is_there():
    """The kustomization names the files of the whole; the two alternatives are not among them."""
    (kustomization,) = FILES["kustomization.yaml"]
    assert set(kustomization["resources"]) == set(FILES) - {"sidecar.yaml", *NO_SCHEMA}


def test_the_configuration_loads_with_the_secrets_keys(config, tmp_path):
    """What the file refers to is what the comment beside it makes the Secret of; each is needed."""
    made = re.findall(r"--from-literal=(\w+)=", (FOLDER / "config.yaml").read_text())
    assert set(made) == set(SECRETS) == set(re.findall(r"\$\{(\w+)\}", text()))
    assert set(re.findall(r"--from-literal=(\w+)=", PAGE)) == set(SECRETS)
    path = tmp_path / "shadow.yaml"
    path.write_text(text())
    for missing in SECRETS:
        with pytest.raises(ConfigError, match=missing):
            load(path, Config, {key: SECRETS[key] for key in SECRETS if key != missing})
    for file in VERBS:
        assert ours(file)["envFrom"] == [{"secretRef": {"name": "shadow"}}]


@pytest.mark.parametrize("file", VERBS)
def test_commands_are_the_command_lines(file):
    """The image's entry point takes the arguments; the file is in a volume that follows its ConfigMap."""
    verb, *arguments = ours(file)["args"]
    assert verb == VERBS[file]
    context = cli.commands[verb].make_context(verb, list(arguments))
    assert str(context.params["config_path"]) == INSIDE
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert ours(file)["image"] == f"shadow-compare:{version}"
    assert volume_at(file, INSIDE)["configMap"]["name"] == "shadow-config"


def test_the_policy_stands_beside_the_configuration(config):
    """A second key of the same ConfigMap, where shadow.yaml says it is; as applied, the defaults."""
    data = one("config", "ConfigMap", "shadow-config")["data"]
    assert config.policy.name in data
    assert config.policy.parent == Path(INSIDE).parent
    said = yaml.safe_load(data[config.policy.name])
    assert Policy.model_validate(said) == Policy()


def test_the_taps_route_names_the_proxies_service():
    """attach.md's HTTPRoute mirrors to what the manifests make."""
    page = (ROOT / "docs/attach.md").read_text()
    (route,) = re.findall(r"```yaml\n(apiVersion: gateway\.networking.*?)```", page, re.DOTALL)
    (rule,) = yaml.safe_load(route)["spec"]["rules"]
    (mirror,) = [each["requestMirror"]["backendRef"] for each in rule["filters"]]
    service = one("proxy", "Service")
    leads = {port["port"]: port["targetPort"] for port in service["spec"]["ports"]}
    assert mirror["name"] == service["metadata"]["name"]
    assert leads[mirror["port"]] == "http"


def volume_at(file, path):
    """The volume that a path lies in."""
    spec, mounts = pod(file)["spec"], ours(file)["volumeMounts"]
    assert not any("subPath" in mount for mount in mounts)  # the kubelet never updates one
    (mount,) = [each for each in mounts if Path(path).is_relative_to(each["mountPath"])]
    (volume,) = [each for each in spec["volumes"] if each["name"] == mount["name"]]
    return volume | {"readOnly": mount.get("readOnly", False)}


def test_ports_are_the_configurations(config):
    """Each container's, and whoever is reached by another container listens on all addresses."""
    admin = config.admin
    wanted = {
        "proxy": {"http": config.listen, "metrics": admin.health},
        "sidecar": {"shadow": config.listen, "metrics": admin.health},
        "collector": {"metrics": admin.collector},
        "analysis": {"control": admin.control, "metrics": admin.analysis},
    }
    for file, addresses in wanted.items():
        assert ports(file) == {name: each.port for name, each in addresses.items()}
        assert all(each.host == "0.0.0.0" for each in addresses.values())
        annotations = pod(file)["metadata"]["annotations"]
        assert annotations["prometheus.io/port"] == str(ports(file)["metrics"])
    assert config.workers == 1  # the second worker's health port would have no name


def test_services_lead_to_pods(config):
    """Each selects its pods and a port that they name; the proxies follow the analysis' own Service."""
    for file in ("proxy", "analysis", "sidecar"):
        service = one(file, "Service")["spec"]
        labels = pod(file)["metadata"]["labels"]
        assert service["selector"].items() <= labels.items()
        assert all(port["targetPort"] in ports(file) for port in service["ports"])
    follow = urlsplit(config.admin.follow)
    control = one("analysis", "Service")
    assert follow.hostname == control["metadata"]["name"]
    (port,) = control["spec"]["ports"]
    assert follow.port == port["port"]
    assert ports("analysis")[port["targetPort"]] == config.admin.control.port


def test_the_gateways_cluster_is_the_services():
    """Its name and both its ports: on the second one the check asks what readiness asks."""
    block = re.search(r"```yaml\n# envoy: kubernetes\n(.*?)```", PAGE, re.DOTALL)
    (cluster,) = yaml.safe_load(block[1])
    shadow, engine = (
        priority["lb_endpoints"][0]["endpoint"]
        for priority in sorted(cluster["load_assignment"]["endpoints"], key=lambda e: e["priority"])
    )
    service = one("proxy", "Service")
    leads = {port["port"]: port["targetPort"] for port in service["spec"]["ports"]}
    address = shadow["address"]["socket_address"]
    assert address["address"] == service["metadata"]["name"]
    assert leads[address["port_value"]] == "http"
    asked = ours("proxy")["readinessProbe"]["httpGet"]
    assert leads[shadow["health_check_config"]["port_value"]] == asked["port"]
    (check,) = cluster["health_checks"]
    assert check["http_health_check"]["path"] == asked["path"]
    beyond = engine["address"]["socket_address"]
    assert (beyond["address"], beyond["port_value"]) == ("engine", 8000)


def test_a_sidecar_stands_before_its_engine(config):
    """It runs beside the engine, whose port is the primary's in the line that the file tells to change."""
    assert ours("sidecar")["restartPolicy"] == "Always"
    said = urlsplit(re.search(r"a sidecar's: (\S+)", text())[1])
    (engine,) = pod("sidecar")["spec"]["containers"]
    assert (said.hostname, said.port) == ("127.0.0.1", engine["ports"][0]["containerPort"])
    assert urlsplit(config.primary.url).port == said.port
    (port,) = one("sidecar", "Service")["spec"]["ports"]
    assert ports("sidecar")[port["targetPort"]] == config.listen.port
    assert ours("proxy")["resources"] == ours("sidecar")["resources"]


@pytest.mark.parametrize("file", VERBS)
def test_probes_ask_for_what_should_be_known(file):
    """Nobody is ended or left out for what stands behind him: only the collector is not ready then."""
    paths = {
        str(route.resource.canonical)
        for route in health_app(lambda: (200, {}), str).router.routes()
    }
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = ours(file)[name]["httpGet"]
        wanted = "/readyz" if (file, name) == ("collector", "readinessProbe") else "/healthz"
        assert asked == {"path": wanted, "port": "metrics"}
        assert wanted in paths
    live = ours(file)["livenessProbe"]
    assert live["failureThreshold"] * live.get("periodSeconds", 10) >= 60


def pause_s(container):
    stop = container["lifecycle"]["preStop"]["exec"]["command"]
    assert stop[0] == "sleep"
    return int(stop[1])


def test_nobody_is_killed_while_draining(config):
    """Kubernetes waits longer than the pause before SIGTERM and each service's own bound."""
    grace = {file: pod(file)["spec"]["terminationGracePeriodSeconds"] for file in VERBS}
    drained = config.drain + supervised.PUBLISHER_GRACE_S + supervised.SPARE_S
    assert grace["proxy"] >= pause_s(ours("proxy")) + drained
    assert grace["sidecar"] >= pause_s(pod("sidecar")["spec"]["containers"][0]) + drained
    assert grace["collector"] >= supervised.COLLECTOR_GRACE_S + supervised.SPARE_S
    assert grace["analysis"] >= supervised.ANALYSIS_GRACE_S + supervised.SPARE_S


@pytest.mark.parametrize("file", VERBS)
def test_nobody_is_root_and_the_image_is_read_only(file, config):
    """By the user that the image was made for; what is written lies in volumes of the pod."""
    whole, own = pod(file)["spec"].get("securityContext", {}), ours(file)["securityContext"]
    both = {**whole, **own}
    (user,) = re.findall(r"^USER (\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert both["runAsNonRoot"]
    assert both["runAsUser"] == int(user)
    assert own["readOnlyRootFilesystem"]
    assert not own["allowPrivilegeEscalation"]
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert both["seccompProfile"] == {"type": "RuntimeDefault"}
    written = {
        "proxy": [config.state, config.stream.kafka.spill],
        "sidecar": [config.state, config.stream.kafka.spill],
        "analysis": [config.state],
        "collector": [],
    }
    for path in written[file]:
        volume = volume_at(file, path)
        assert not volume["readOnly"]
        assert {"emptyDir", "persistentVolumeClaim"} & set(volume)


def test_a_said_pause_outlives_the_analysis_pod():
    """Its state is a claim that is made, and no two pods write it."""
    claim = volume_at("analysis", "/data/state")["persistentVolumeClaim"]["claimName"]
    assert claim == one("analysis", "PersistentVolumeClaim")["metadata"]["name"]
    spec = one("analysis", "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_memory_and_disk_have_room_for_what_the_configuration_allows(config):
    """The limit is above what the mirror may hold and an idle process together; the spill fits."""
    sizes = {"Mi": 2**20, "Gi": 2**30}

    def of(said):
        return int(said[:-2]) * sizes[said[-2:]]

    held = config.limits.mirror_bytes + of("80Mi")
    resources = ours("proxy")["resources"]
    assert of(resources["limits"]["memory"]) >= 2 * held
    assert of(resources["requests"]["memory"]) >= held
    assert "cpu" not in resources["limits"]  # throttling would stop the clients' loop
    for file in ("proxy", "sidecar"):
        room = volume_at(file, config.stream.kafka.spill)["emptyDir"]["sizeLimit"]
        assert of(room) >= 2 * config.stream.kafka.spill_bytes


def test_clients_stay_served_while_nodes_are_emptied():
    """Of two proxies one may go at a time, and a roll-out takes none away before the next one is there."""
    spec = one("proxy", "Deployment")["spec"]
    budget = one("proxy", "PodDisruptionBudget")["spec"]
    assert spec["replicas"] > budget["maxUnavailable"]
    assert budget["selector"] == spec["selector"]
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    labels = pod("proxy")["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()


def test_the_pod_monitor_finds_the_pods():
    """By a label and a port that each of them has, the engine's with a sidecar too."""
    (monitor,) = FILES["podmonitor.yaml"]
    spec = monitor["spec"]
    for file in VERBS:
        assert spec["selector"]["matchLabels"].items() <= pod(file)["metadata"]["labels"].items()
        assert all(each["port"] in ports(file) for each in spec["podMetricsEndpoints"])


class Volume:
    """A ConfigMap's folder as the kubelet writes it: each key a link through `..data`, which is swapped."""

    def __init__(self, folder):
        self.folder, self._n = folder, 0
        folder.mkdir()

    def put(self, data):
        self._n += 1
        made = self.folder / f"..2026_{self._n}"
        made.mkdir()
        for key, value in data.items():
            (made / key).write_text(value)
            if not (self.folder / key).is_symlink():
                (self.folder / key).symlink_to(f"..data/{key}")
        (self.folder / "..data_tmp").symlink_to(made.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")


def test_the_kill_switch_hears_its_config_map(config, tmp_path):
    """As it is applied mirroring is on; the patch that the file tells stops it, and back."""
    said = one("config", "ConfigMap", "shadow-kill")["data"]
    for file in ("proxy", "sidecar"):
        assert volume_at(file, config.kill_switch)["configMap"]["name"] == "shadow-kill"
    path = tmp_path / "shadow-kill" / config.kill_switch.name
    assert path.name in said
    volume = Volume(path.parent)
    volume.put(said)
    assert kill_reason(path) == ""
    patch = re.search(r"-p '(\{.*\})'", (FOLDER / "config.yaml").read_text())[1]
    volume.put(yaml.safe_load(patch)["data"])
    assert kill_reason(path) != ""
    volume.put(said)
    assert kill_reason(path) == ""


def test_a_changed_config_map_is_seen(tmp_path):
    """Whatever moves in the file moves its stamp, by which the proxy knows to read it again."""
    volume = Volume(tmp_path / "config")
    path = volume.folder / "shadow.yaml"
    volume.put({"shadow.yaml": text()})
    before = stamp(path)
    assert stamp(path) == before
    volume.put({"shadow.yaml": text().replace("0.25", "0.50")})
    assert stamp(path) not in {before, None}


def test_the_page_names_what_is_there():
    """Every file, and of each command the objects and the command line."""
    assert {name for name in FILES if f"`{name}`" in PAGE} == set(FILES)
    deployments = {each["metadata"]["name"] for _, each in OBJECTS if each["kind"] == "Deployment"}
    for target, said in re.findall(r"kubectl exec deploy/(\S+) -- shadow ([^\n`]+)", PAGE):
        assert target in deployments
        verb, *arguments = shlex.split(said)
        cli.commands[verb].make_context(verb, arguments)
