#!/usr/bin/env bash
# Trains on the machines of the hostfile, a rank for each of their slots: ./train.sh train.yaml [--set KEY=VALUE]...
# After a failure it goes on from the newest checkpoint, up to TRIES times.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
config=${1:?usage: ./train.sh train.yaml [--set KEY=VALUE]...}
hostfile=${HOSTFILE:-$here/hostfile}
ranks=$(awk -F 'slots=' '/slots=/ {sum += $2} END {print sum + 0}' "$hostfile")
for ((try = 1; try <= ${TRIES:-3}; ++try)); do
  mpirun --hostfile "$hostfile" -n "$ranks" --bind-to none -x PATH \
    ingot train "$config" --resume "${@:2}" && exit 0
  code=$?
  # By Ctrl-C or SIGTERM it was told to stop; a rank that is killed, or out of memory, is a failure like others.
  ((code != 130 && code != 143)) || break
  sleep 5
done
exit "$code"
