/* wire_mpich.c - the binary interface of MPICH, which Intel MPI, MVAPICH and Cray MPI share (their
 * ABI initiative; library version 12). Handles are numbers. */
#define TABLE      rt_mpi_mpich
#define LIBRARIES  "libmpich.so.12", "libmpi.so.12"
#define HANDLE     int
#define WORLD(l)   0x44000000
#define BYTE(l)    0x4c00010d
#define KNOWN_BY   NULL
#define UNKNOWN_BY "ompi_mpi_comm_world"
#define IGNORE     ((void *)1)
#include "runtime/wire_body.h"
