#!/bin/sh
# openmpi.sh - a run under Open MPI, on this machine or on the hosts of a file.
#
#   openmpi.sh 8 ./train --data corpus.bin --out run
#   HOSTFILE=hosts openmpi.sh 16 ./train --data corpus.bin --out run     a line a host: "node1 slots=8"
#
# OPENMPI_OPTIONS has more for mpirun, as "--mca btl_tcp_if_include eth0".
set -eu
ranks=${1:?the number of ranks, and the command of the run}
shift
mpirun=$(command -v mpirun.openmpi || command -v mpirun)

# Programs for GPUs send by TCP, and find each other by these; those of processors send by MPI.
MGC_SECRET=${MGC_SECRET:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
MGC_PORT=${MGC_PORT:-29600}
export MGC_SECRET MGC_PORT
set -- -x MGC_SECRET -x MGC_PORT ${MASTER_ADDR:+-x MASTER_ADDR} "$@"

# A program saves when it is told to stop, which takes longer than mpirun's one second.
# shellcheck disable=SC2086 # words of options
exec "$mpirun" ${HOSTFILE:+--hostfile "$HOSTFILE"} --mca odls_base_sigkill_timeout 120 ${OPENMPI_OPTIONS-} \
    -n "$ranks" "$@"
