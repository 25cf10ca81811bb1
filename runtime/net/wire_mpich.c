/* wire_mpich.c - the rt_carrier of MPICH's binary interface, which Intel MPI, MVAPICH and Cray
 * MPI share (their ABI initiative; library version 12). Handles are numbers. */
#include <dlfcn.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sends a line to the launcher (PMI 1) and waits for its answer. */
static bool ask(int fd, const char *line, const char *answer)
{
    enum { LIMIT_MS = 10000 };
    char text[256];
    size_t n = 0;
    if (write(fd, line, strlen(line)) < 0)
        return false;
    while (n < sizeof text - 1 && (!n || text[n - 1] != '\n')) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, LIMIT_MS) <= 0 || read(fd, text + n, 1) != 1)
            return false;
        n++;
    }
    text[n] = 0;
    return strstr(text, answer);
}

/* MPICH 4.0 over UCX hangs in MPI_Finalize in every other run if UCX uses TCP: one rank waits
 * for other ranks to disconnect, while these wait for it at the launcher and do not react. Here
 * all ranks wait at the launcher instead, and tell it that they end, as MPI_Finalize would. */
static bool ends_by_launcher(void *library)
{
    enum { VERSION_BYTES = 8192 };
    static char version[VERSION_BYTES];
    int (*get)(char *, int *), n = 0;
    void *f = dlsym(library, "MPI_Get_library_version");
    const char *fd = getenv("PMI_FD");
    memcpy(&get, &f, sizeof f);
    if (!f || !fd || get(version, &n) || !strstr(version, "ch4:ucx"))
        return false;
    return ask(atoi(fd), "cmd=barrier_in\n", "cmd=barrier_out") &&
           ask(atoi(fd), "cmd=finalize\n", "cmd=finalize_ack");
}

#define TABLE      rt_carrier_mpich
#define LIBRARIES  "libmpich.so.12", "libmpi.so.12"
#define HANDLE     int
#define WORLD(l)   0x44000000
#define BYTE(l)    0x4c00010d
#define KNOWN_BY   NULL
#define UNKNOWN_BY "ompi_mpi_comm_world"
#define IGNORE     ((void *)1)
#define ENDED(l)   ends_by_launcher(l)
#include "runtime/net/wire_body.h"
