/* child.h - a function in a process of its own, which may fail, or be ended, without harm: what it
 * writes comes through a pipe. */
#ifndef MGC_CHILD_H
#define MGC_CHILD_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct Child {
    pid_t pid; /* 0: none; also the group of the processes that it starts */
    int fd;    /* what it writes is read here, without waiting; at its end: nothing more */
} Child;

/* Its standard input, output and error are nowhere. */
typedef void (*ChildRun)(void *ctx, FILE *out);

/* False: there is no process to be had. */
bool child_start(Child *c, ChildRun run, void *ctx);
/* Ends it and what it started, and closes fd. It does not wait until all of it is gone, which takes
 * long where it had much memory. */
void child_end(Child *c);
/* Takes leave of those that were ended and are gone: to be called now and then. */
void child_reap(void);

#endif
