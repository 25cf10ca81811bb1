/* wire_openmpi.c - the rt_carrier of Open MPI's binary interface (libmpi.so.40: releases 3 to
 * 5). Handles are pointers; the predefined handles are addresses of objects in the library. */
#define TABLE      rt_carrier_openmpi
#define LIBRARIES  "libmpi.so.40", "libmpi.so"
#define HANDLE     void *
#define WORLD(l)   dlsym(l, "ompi_mpi_comm_world")
#define BYTE(l)    dlsym(l, "ompi_mpi_byte")
#define KNOWN_BY   "ompi_mpi_comm_world", "ompi_mpi_byte"
#define UNKNOWN_BY NULL
#define IGNORE     NULL
#define ENDED(l)   false
#include "runtime/net/wire_body.h"
