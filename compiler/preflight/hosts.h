/* hosts.h - starts the ranks of a program on hosts, by ssh or by a launcher's command, and hands on
 * what they say. Private to compiler/preflight/. */
#ifndef MGC_HOSTS_H
#define MGC_HOSTS_H

#include "compiler/session.h"

/* A start of `command`, a line for a shell: on hosts by ssh, or by the launcher's command, or by
 * itself. */
typedef struct Start {
    const char *command; /* "./train --data corpus.bin" */
    const char *option;  /* what is put behind it: "--preflight" */
    const char *launch;  /* "srun -N 2", or NULL */
    Words hosts;         /* or none */
    bool quiet;          /* what rank 0 writes to standard output is not shown, but kept */
} Start;

typedef struct Started {
    int status;       /* of rank 0's host: 0, or what its shell ended with */
    const char *said; /* rank 0's standard output, in the session's arena */
    bool met;         /* rank 0 reported: the ranks had met */
} Started;

/* Reads "a,b:c" as hosts, separated by commas, or a file with one a line. */
Exit hosts_read(Session *s, const char *text, Words *hosts);
/* The number of ranks of the program, by its --info. */
Exit hosts_ranks(Session *s, const char *command, int64_t *n);
/* Runs it to its end. Told what went wrong where ranks did not meet. */
Exit hosts_run(Session *s, const Start *start, Started *end);

/* preflight.c, commbench.c */
Exit command_preflight(Session *s);
Exit command_commbench(Session *s);

#endif
