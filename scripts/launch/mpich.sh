#!/bin/sh
# mpich.sh - a run under MPICH (or Intel MPI, MVAPICH), on this machine or on the hosts of a file.
#
#   mpich.sh 8 ./train --data corpus.bin --out run
#   HOSTFILE=hosts mpich.sh 16 ./train --data corpus.bin --out run       a line a host: "node1:8"
#
# MPICH_OPTIONS has more for mpirun, as "-iface eth0".
set -eu
ranks=${1:?the number of ranks, and the command of the run}
shift
mpirun=$(command -v mpirun.mpich || command -v mpiexec.hydra || command -v mpirun)

# Programs for GPUs send by TCP, and find each other by these; those of processors send by MPI.
MGC_SECRET=${MGC_SECRET:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
MGC_PORT=${MGC_PORT:-29600}
export MGC_SECRET MGC_PORT

# shellcheck disable=SC2086 # words of options
exec "$mpirun" ${HOSTFILE:+-f "$HOSTFILE"} -genvlist "MGC_SECRET,MGC_PORT${MASTER_ADDR:+,MASTER_ADDR}" \
    ${MPICH_OPTIONS-} -n "$ranks" "$@"
