#!/bin/sh
# A cluster of daemons for the time of a Slurm job: sbatch --nodes=3 deploy/slurm.sh CONFIG. One etcd on the first node,
# a daemon on each; it ends with the job's time, or by scancel. CONFIG is as deploy/serve.yaml, of paths that all nodes
# see, with a `state` of a node's own or none.
#SBATCH --job-name=braid
#SBATCH --ntasks-per-node=1
#SBATCH --signal=TERM@30
set -eu
config=${1:?usage: sbatch --nodes=N deploy/slurm.sh CONFIG}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
umask 077
BRAID_CLUSTER_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export BRAID_CLUSTER_TOKEN

data=$(mktemp -d)
trap 'kill "$etcd" 2>/dev/null || :; rm -rf "$data"' EXIT
srun --overlap --nodes=1 --ntasks=1 --nodelist="$first" etcd --data-dir "$data" \
  --listen-client-urls "http://0.0.0.0:$port" --advertise-client-urls "http://$first:$port" \
  --listen-peer-urls "http://127.0.0.1:$((port + 10000))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 10000))" \
  --initial-cluster "default=http://127.0.0.1:$((port + 10000))" >"braid-$SLURM_JOB_ID-etcd.log" 2>&1 &
etcd=$!

# shellcheck disable=SC2016 # each node names itself
srun --overlap --ntasks-per-node=1 --kill-on-bad-exit=0 sh -c '
  exec braid serve --config "$1" --cluster "etcd:$2" --node "$(hostname -s)" --node-address "$(hostname)"
' braid "$config" "$first:$port"
