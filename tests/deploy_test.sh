#!/bin/sh
# The files under deploy/, as far as the tools that are here can judge them: `deploy_test.sh BRAID`.
set -eu
cd "$(dirname "$0")/../deploy"
braid=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The configuration is one that the daemon takes, and Kubernetes' copy is the same.
sed "s|/usr/local/share/braid/models|$PWD/../models|; s|/var/lib/braid|$work|" serve.yaml >"$work/serve.yaml"
"$braid" serve --check --config "$work/serve.yaml" >"$work/said"
grep -q '^resnet20: loaded' "$work/said"
grep -v '^#' serve.yaml >"$work/one"
awk '/^  serve.yaml: \|/ { on = 1; next } /^---/ { on = 0 } on' kubernetes.yaml | sed 's/^    //' >"$work/other"
diff "$work/one" "$work/other"

# Options that the files name are the command's.
"$braid" serve --help >"$work/help"
cat braid-serve.service kubernetes.yaml slurm.sh | grep -oE '(^|[ -])--(config|cluster|node|node-address|grace)\b' |
  grep -oE '[a-z-]+$' | sed 's/^-*//' | sort -u | while read -r option; do
  grep -q -- "--$option\b" "$work/help" || { echo "braid serve has no --$option" >&2 && exit 1; }
done

if command -v systemd-analyze >/dev/null; then
  sed "s|/usr/local/bin/braid|$braid|; /^Documentation=/d" braid-serve.service >"$work/braid-serve.service"
  systemd-analyze verify "$work/braid-serve.service"
fi
if command -v shellcheck >/dev/null; then shellcheck slurm.sh; fi
sh -n slurm.sh
if python3 -c 'import yaml' 2>/dev/null; then
  python3 - <<'EOF'
import yaml
documents = list(yaml.safe_load_all(open("kubernetes.yaml")))
names = {(d["kind"], d["metadata"]["name"]) for d in documents}
stateful = next(d for d in documents if d["kind"] == "StatefulSet")["spec"]
pod = stateful["template"]["spec"]
ports = {p["name"]: p["containerPort"] for p in pod["containers"][0]["ports"]}
config = yaml.safe_load(next(d for d in documents if d["kind"] == "ConfigMap")["data"]["serve.yaml"])
assert ("Service", stateful["serviceName"]) in names
assert ports == {"http": config["port"], "grpc": config["grpc_port"], "wire": config["wire_port"]}
mounts = {m["name"] for m in pod["containers"][0]["volumeMounts"]}
volumes = {v["name"] for v in pod["volumes"]} | {v["metadata"]["name"] for v in stateful["volumeClaimTemplates"]}
assert mounts == volumes, (mounts, volumes)
for d in documents:
    if d["kind"] == "Service":
        assert d["spec"]["selector"].items() <= stateful["template"]["metadata"]["labels"].items()
EOF
fi
