/* A table of an MPI's binary interface (runtime/net/wire_*.c) against that MPI's own header. */
#ifdef NO_MPI
int main(void)
{
    return 77; /* it is not installed */
}
#else
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>

#include ABI

_Static_assert(sizeof(MPI_Comm) == sizeof(HANDLE), "communicators");
_Static_assert(sizeof(MPI_Datatype) == sizeof(HANDLE), "datatypes");
_Static_assert(sizeof(MPI_Request) == sizeof(HANDLE), "requests");

int main(void)
{
    state s;
    void *me = dlopen(NULL, RTLD_NOW);
    const char *lacks = find(&s, me);
    if (lacks)
        return printf("it lacks %s\n", lacks), 1;
    if ((uintptr_t)s.world != (uintptr_t)MPI_COMM_WORLD || (uintptr_t)s.byte != (uintptr_t)MPI_BYTE)
        return printf("other handles\n"), 1;
    if ((void *)IGNORE != (void *)MPI_STATUS_IGNORE || (int)THREADS != (int)MPI_THREAD_MULTIPLE)
        return printf("other constants\n"), 1;
    if ((void *)s.Isend != (void *)MPI_Isend || (void *)s.Test != (void *)MPI_Test)
        return printf("other functions\n"), 1;
    return 0;
}
#endif
