#!/bin/sh
# torchrun.sh - the ranks of one host, with the variables that torchrun sets and without PyTorch. It runs
# on each host of a run; the manifests for Kubernetes use it, too.
#
#   NNODES=2 NODE_RANK=0 NPROC=8 MASTER_ADDR=node1 MGC_SECRET=... torchrun.sh ./train --data corpus.bin
#
# NNODES hosts of NPROC ranks each; NODE_RANK of this one counts from 0, on which MASTER_ADDR is. Ends
# when all ranks have, with the code of the first that ended badly; a signal goes to all of them.
set -u
NNODES=${NNODES:-1} NODE_RANK=${NODE_RANK:-0} NPROC=${NPROC:-1}
WORLD_SIZE=$((NNODES * NPROC)) LOCAL_WORLD_SIZE=$NPROC
MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} MASTER_PORT=${MASTER_PORT:-29500}
export WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
if [ $# = 0 ] || [ "$NODE_RANK" -ge "$NNODES" ]; then
    echo "torchrun.sh: a command is wanted, and NODE_RANK ($NODE_RANK) below NNODES ($NNODES)" >&2
    exit 2
fi
# No secret from outside: enough for one host, where none is needed.
if [ "$NNODES" -gt 1 ] && [ -z "${MGC_SECRET-}" ]; then
    echo "torchrun.sh: MGC_SECRET is not set: export MGC_SECRET=\$(openssl rand -hex 16), the same on all hosts" >&2
    exit 2
fi

all=
i=0
while [ $i -lt "$NPROC" ]; do
    RANK=$((NODE_RANK * NPROC + i)) LOCAL_RANK=$i "$@" &
    all="$all $!"
    i=$((i + 1))
done
# shellcheck disable=SC2064,SC2086 # the ranks of now
trap "kill -TERM $all 2>/dev/null" TERM INT
code=0
for p in $all; do
    # A signal ends a wait, and not the rank: it is waited for again.
    wait "$p"
    c=$?
    while kill -0 "$p" 2>/dev/null; do
        wait "$p"
        c=$?
    done
    [ $code != 0 ] || code=$c
done
exit $code
