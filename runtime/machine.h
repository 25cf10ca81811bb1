/* machine.h - what the ranks on one machine have in common; private to ranks.c, wait.c,
 * rendezvous.c, watchdog.c, images.c, comm.c and pipe.c.
 *
 * One piece of shared memory, which has no name: the first rank of the machine makes it and hands
 * it to the others, who inherit it (a bare start) or are given it over a socket (a launcher's). It
 * goes with the last process that has it. Behind the structure below lie the arenas. */
#ifndef MG_MACHINE_H
#define MG_MACHINE_H

#include <sys/types.h>

#include "runtime/net/ranks.h"
#include "runtime/net/wire.h"

enum { RT_WORKS, RT_AWAITS_RANKS, RT_AWAITS_ORDERS };
enum { RT_MEETINGS = 3 }; /* of a collective of async_comm.c */

/* What the others see of a rank. */
typedef struct rt_slot {
    _Alignas(64) _Atomic uint64_t beats; /* of its watchdog, while its process runs */
    _Atomic uint64_t begun;              /* actions */
    _Atomic uint64_t met;                /* waits that are over */
    _Atomic int action;                  /* in which it was last, or -1: between programs */
    _Atomic int waits;                   /* RT_WORKS, ... */
    _Atomic int peer;                    /* on another machine, for which it waits, or -1 */
    _Atomic int held;        /* 1 + the collective in which its device waits for others, or 0 */
    _Atomic uint64_t device; /* which GPU it has, or 0 */
    _Atomic int parted;      /* 1 + the code with which it ended itself, or 0 */
    _Atomic int pid;
    _Atomic uint64_t pid_space; /* in which that number means something */
} rt_slot;

/* Where some of the machine's ranks meet. */
typedef struct rt_barrier {
    _Alignas(64) _Atomic uint32_t came, turn; /* of the present turn; meetings so far */
    uint32_t members;
} rt_barrier;

typedef struct rt_machine {
    _Atomic int verdict;              /* watchdog.c: what ends the program, or 0 */
    _Atomic bool ending;              /* whoever goes now was told to */
    _Atomic uint64_t cpus[1024 / 64]; /* those which any of the ranks may use */
    rt_slot slot[MG_RANKS_MAX];       /* by rank; of those elsewhere: what they said last */
    rt_barrier barrier[];             /* by set of axes, by group */
} rt_machine;

typedef struct rt_watchdog rt_watchdog;

struct rt_ranks {
    int n;                         /* of the mesh */
    int here[MG_RANKS_MAX], nhere; /* those of this machine, in order; the first keeps watch */
    bool is_here[MG_RANKS_MAX];
    bool launched;             /* by a launcher, not by rank 0 */
    int link[MG_RANKS_MAX];    /* sockets: of the first to all others here, and back; or -1 */
    pid_t child[MG_RANKS_MAX]; /* of a bare start */
    rt_machine *shared;
    char *arenas;         /* of rank 0; see ranks.h */
    int64_t *first;       /* per set of axes: its first barrier */
    int64_t pipes;        /* byte of the shared memory where what pipe.c has there begins */
    struct rt_pipe *pipe; /* NULL: there are no stages */
    rt_wire *wire;        /* to ranks of other machines; NULL: there are none */
    char *in, *out;       /* of comm.c, for what goes over the wire */
    struct rt_async_comm *async_comm; /* async_comm.c; NULL: nothing runs beside the rest */
    _Atomic uint32_t *meetings;       /* shared: by rank, by set of axes, RT_MEETINGS */
    rt_watchdog *watchdog;
};

/* rendezvous.c: links the processes of this machine, which a launcher started apart from each
 * other: whoever is `me` of k->here. The first has the memory `*fd` to give; the others get it.
 * Ends the program (69) where some are not met within `limit` seconds (0: none), or (78) are of
 * another program than `fingerprint`. */
void rt_rendezvous(struct rt_ranks *k, const char *job, int me, uint64_t fingerprint, double limit,
                   int *fd);

/* watchdog.c: a thread of each rank that sees when another is gone, or does not go on, and then
 * ends the program. */
rt_watchdog *rt_watchdog_new(mg_run *r);
void rt_watchdog_free(rt_watchdog *v); /* NULL: nothing */

/* wait.c: a wait, as the watchdog sees it. */
void rt_wait_begins(mg_run *r, int kind);
void rt_wait_ends(mg_run *r);
/* The i-th time in turn that there was nothing to do. */
void rt_nap(int i);
/* Until a word of shared memory is not `old` any more; what was begun on the wire goes on. And the
 * next number in one, of which those hear who wait for it. */
void rt_word_await(mg_run *r, _Atomic uint32_t *word, uint32_t old);
void rt_word_next(_Atomic uint32_t *word);
/* Until what has this ticket is done. */
void rt_wire_wait(mg_run *r, const rt_ticket *t);

#endif
