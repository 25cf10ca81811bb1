/* machine.h - the shared memory of the ranks on one machine; private to ranks.c, wait.c,
 * rendezvous.c, watchdog.c, images.c, snapshot.c, saving.c, comm.c, pipe.c and levels.c.
 *
 * The memory has no name: the first rank of the machine makes it, and the other ranks inherit it (a
 * bare start) or get it over a socket (a launcher's). The kernel frees it with the last process
 * that has it. The arenas are behind the structure below.
 *
 * Memory order: processors other than x86-64 reorder stores. Each word below that a rank writes
 * while another may read it is _Atomic and used by plain operators, which are sequentially
 * consistent: what a rank wrote into an arena before it moves a word (a barrier's turn, a meeting,
 * a letter) is seen by whoever sees that word moved. `members` of a barrier is written before the
 * other ranks get the memory. What rank 0 writes into arenas before an order is seen by the rank
 * that has received the order, because both use the kernel's locks of the socket. */
#ifndef MG_MACHINE_H
#define MG_MACHINE_H

#include <sys/types.h>

#include "runtime/net/ranks.h"
#include "runtime/net/wire.h"

enum { RT_WORKS, RT_AWAITS_RANKS, RT_AWAITS_ORDERS };
enum { RT_MEETINGS = 3 }; /* of a collective of async_comm.c */

/* The public state of a rank, which other ranks read. */
typedef struct rt_slot {
    _Alignas(64) _Atomic uint64_t beats; /* heartbeats of its watchdog, while its process runs */
    _Atomic uint64_t begun;              /* number of actions begun */
    _Atomic uint64_t met;                /* number of waits that are over */
    _Atomic int64_t waited;              /* ns in waits for other ranks that are over */
    _Atomic int action;                  /* current or last action, or -1: between programs */
    _Atomic int waits;                   /* RT_WORKS, ... */
    _Atomic int peer;                    /* the rank on another machine for which it waits, or -1 */
    _Atomic int held;        /* 1 + the collective in which its device waits for others, or 0 */
    _Atomic uint64_t device; /* id of its GPU, or 0 */
    _Atomic uint64_t disk;   /* 1 + the file system that it offloads to, or 0 */
    _Atomic int file;        /* its descriptor of the file there */
    _Atomic int parted;      /* 1 + its exit code, if it ended itself, or 0 */
    _Atomic int pid;
    _Atomic uint64_t pid_space; /* the namespace of that process id */
} rt_slot;

/* A barrier of some of the machine's ranks. */
typedef struct rt_barrier {
    _Alignas(64) _Atomic uint32_t came, turn; /* ranks in this turn; number of turns so far */
    uint32_t members;
} rt_barrier;

typedef struct rt_machine {
    _Atomic int verdict;              /* watchdog.c: what ends the program, or 0 */
    _Atomic bool ending;              /* the run ends: a rank that goes now was told to */
    _Atomic uint64_t cpus[1024 / 64]; /* processors that any of the ranks may use */
    rt_slot slot[MG_RANKS_MAX];       /* by rank; for ranks elsewhere: their last words */
    rt_barrier barrier[];             /* by set of axes, then by group */
} rt_machine;

typedef struct rt_watchdog rt_watchdog;

struct rt_ranks {
    int n;                         /* ranks of the mesh */
    int here[MG_RANKS_MAX], nhere; /* ranks on this machine, in order; the first has links to all */
    bool is_here[MG_RANKS_MAX];
    bool launched;          /* started by a launcher, not by rank 0 */
    int link[MG_RANKS_MAX]; /* sockets: from the first rank here to the others, and back; or -1 */
    pid_t child[MG_RANKS_MAX]; /* in a bare start */
    rt_machine *shared;
    int16_t host[MG_RANKS_MAX]; /* by rank: the first rank of its machine */
    int memory;                 /* the descriptor of the shared memory, */
    int64_t memory_bytes;       /* and its size at the start */
    char *arenas;               /* address of rank 0's arena; see ranks.h */
    int64_t *first;             /* per set of axes: the index of its first barrier */
    int64_t pipes;              /* byte of the shared memory where pipe.c's part begins */
    struct rt_pipe *pipe;       /* NULL: no stages */
    int64_t copying;    /* ... and where that of collectives by copies does (cuda/copies.c) */
    char *copies;       /* its address */
    rt_wire *wire;      /* to ranks of other machines; NULL: none */
    char *in, *out;     /* of comm.c: buffers for messages on the wire */
    int64_t wait_began; /* ns: the wait that this rank is in */
    struct rt_async_comm *async_comm; /* async_comm.c; NULL: all collectives are synchronous */
    char **far; /* rank 0: images of open tensors that lie on other levels, by the part's number */
    int nfar;
    _Atomic uint32_t *meetings; /* shared: by rank, by set of axes, RT_MEETINGS each */
    rt_watchdog *watchdog;
};

/* rendezvous.c: connects the processes of this machine that a launcher started; `me` is this rank,
 * one of k->here. The first rank gives the memory `*fd`; the others get it in `*fd`. Ends the
 * program if a rank has not come within `limit` seconds (exit 69; 0: no limit), or has a program
 * with another `fingerprint` (exit 78). */
void rt_rendezvous(struct rt_ranks *k, const char *job, int me, uint64_t fingerprint, double limit,
                   int *fd);

/* watchdog.c: a thread of each rank that detects that another rank is gone or hangs, and then ends
 * the program. */
rt_watchdog *rt_watchdog_new(mg_run *r);
void rt_watchdog_free(rt_watchdog *v); /* NULL: nothing */

/* wait.c: mark a wait for the watchdog. */
void rt_wait_begins(mg_run *r, int kind);
void rt_wait_ends(mg_run *r);
/* Yields or sleeps; i counts the calls in a row without progress. */
void rt_nap(int i);
/* rt_word_await waits until a word of shared memory differs from `old`; messages on the wire make
 * progress. rt_word_next increments a word and wakes the processes that wait for it. */
void rt_word_await(mg_run *r, _Atomic uint32_t *word, uint32_t old);
void rt_word_next(_Atomic uint32_t *word);
/* Waits until the ticket is done. */
void rt_wire_wait(mg_run *r, const rt_ticket *t);

#endif
