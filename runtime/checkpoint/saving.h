/* saving.h - checkpoints that are written beside the steps; private to saving.c, snapshot.c,
 * scribe.c, and to commands.c, which carries the leader's orders.
 *
 * A save is a short stop in which each rank copies what it keeps of the state into a snapshot
 * (snapshot.c), and then a thread of each rank, its scribe (scribe.c), which writes pieces of the
 * files from the snapshot while the steps go on. The leader decides between steps (saving.c): when
 * all scribes are done and their files are synced, its own publishes the checkpoint. There is one
 * snapshot, so there is one save at a time.
 *
 * An in-memory checkpoint (keeper/keeper.h) is the same, but for where the pieces go. */
#ifndef MG_SAVING_H
#define MG_SAVING_H

#include <pthread.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/parts.h"
#include "runtime/keeper/keeper.h"
#include "runtime/save.h"

/* ---- the leader's orders; each rank answers each of them ------------------------------------- */

typedef enum rt_save_order {
    RT_SAVE_OPEN,   /* prepare; `number` is that of the leader's probe in OUT/ckpt */
    RT_SAVE_MAP,    /* take the memory of the snapshot */
    RT_SAVE_COPY,   /* copy the state after step `number` */
    RT_SAVE_WRITE,  /* the files are there: begin to write */
    RT_SAVE_KEEP,   /* begin to send it to the keepers */
    RT_SAVE_ASK,    /* how far is it? */
    RT_SAVE_CANCEL, /* stop writing */
    RT_SAVE_CLOSE   /* there will be no save */
} rt_save_order;

typedef struct rt_save_answer {
    int32_t sees;                   /* OPEN: the rank sees the leader's OUT/ckpt */
    int32_t busy;                   /* ASK, CANCEL: its scribe is at work */
    int32_t error;                  /* errno of the first failure, or 0, */
    int32_t file;                   /* and in which file of tensors */
    uint32_t part[RT_TENSOR_FILES]; /* what its pieces add to each file's checksum (when done) */
    int64_t bytes;  /* OPEN: memory that it will take: its part of the snapshot, lists, a piece */
    int64_t room;   /* OPEN: what this machine has left; -1: unknown */
    int64_t writes; /* OPEN: bytes of its pieces */
} rt_save_answer;

/* A follower carries out an order. */
void rt_saving_obey(mg_run *r, rt_save_order order, int64_t number, rt_save_answer *answer);

/* ---- the work of a scribe -------------------------------------------------------------------- */

typedef enum rt_task {
    RT_REST,
    RT_SEND,    /* send this rank's pieces to its keepers */
    RT_ALONE,   /* the leader's: have the keepers drop all sets before */
    RT_WRITE,   /* write this rank's pieces; without other ranks publish, too */
    RT_PUBLISH, /* the leader's: seal, rename, and remove what is not kept */
    RT_DROP,    /* the leader's: remove what was written */
    RT_QUIT
} rt_task;

/* A piece of the copy: bytes of the arena from `offset` on, into the snapshot of rank `to`. */
typedef struct rt_copy {
    int64_t offset, bytes;
    int to;
} rt_copy;

typedef enum rt_phase { RT_IDLE, RT_WRITES, RT_STOPS, RT_PUBLISHES, RT_DROPS } rt_phase;

typedef struct rt_saving {
    mg_run *run;
    rt_parts *parts[RT_TENSOR_FILES];
    /* the snapshot */
    rt_places places; /* `apart` bytes from one rank's to the next; as many are reserved */
    char *snapshot;   /* the address of rank 0's; NULL: not mapped */
    char *reserved;   /* what was mapped, and */
    int64_t reserved_bytes;
    rt_copy *copy;              /* what this rank copies, */
    int64_t ncopy, cap, copied; /* so many pieces, of so many bytes together */
    int64_t memory; /* bytes that this rank takes; of the leader: all ranks of its machine */

    /* the scribe */
    pthread_t thread;
    bool lives;
    pthread_mutex_t lock;
    pthread_cond_t more;
    rt_task task;        /* under the lock: what it does */
    _Atomic bool cancel; /* it is to stop writing */
    char *piece;         /* RT_PIECE bytes, aligned for direct writes */
    rt_save_answer result;
    uint64_t id;        /* of this start of the run: a random number, the same on all ranks */
    bool keeps;         /* the save under way is in memory; then */
    uint64_t set;       /* ... its number */
    rt_keep_line *line; /* to keepers, by their number: those that were called; NULL: none was */
    int own, other;     /* its own, and its neighbour's or -1 */
    _Atomic int64_t sent_ns; /* when all was sent */
    int64_t step;            /* of the checkpoint */
    rt_state state;          /* the leader's: of the run, when it was copied */
    rt_unpublished u;        /* the leader's */
    bool published;
    _Atomic int64_t over_ns; /* when its last task was over */
    rt_seal seals[RT_TENSOR_FILES];

    /* the leader's */
    rt_phase phase;
    bool writes, keeping; /* checkpoints are written beside the steps; there are some in memory */
    bool late;            /* an in-memory checkpoint was due while another save was under way */
    int64_t kept;         /* bytes of in-memory checkpoints on this machine, */
    int64_t sent;         /* and those that a machine sends for each, at most */
    int64_t tried_ns;     /* when the last one began */
    int64_t nkept; /* how many there were, and ms that steps stood still, and until all was sent */
    double kept_stop_ms, kept_sent_ms;
    int64_t largest; /* bytes that a rank copies, at most */
    int64_t began_ns, stopped_ns, waited_ns;
    bool said; /* that saves wait for each other */
    bool good; /* the last save */
} rt_saving;

/* commands.c: the leader gives the others an order; and hears their answers, by rank, of which its
 * own is left as it is. Nothing, where there is one rank. */
void rt_ranks_save(mg_run *r, rt_save_order order, int64_t number);
void rt_ranks_saved(mg_run *r, rt_save_answer *answer);

/* saving.c: an order to all ranks, the leader too, and their answers by rank. */
void rt_saving_order(mg_run *r, rt_save_order order, int64_t number, rt_save_answer *answer);
/* The leader's probe has a name that is removed at the next start, if a kill left it. */
rt_words rt_saving_probe(int64_t number);
/* saving_open.c: predicted seconds, 0: unknown: that steps wait for a copy; of writing a
 * checkpoint; of sending one to the keepers. */
double rt_saving_stop(const mg_run *r);
double rt_saving_write(const mg_run *r);
double rt_saving_send(const mg_run *r);

/* snapshot.c: the list of copies and this rank's memory, in bytes; the memory; the copy. */
void rt_snapshot_plan(mg_run *r, rt_saving *s);
void rt_snapshot_map(mg_run *r, rt_saving *s);
void rt_snapshot_copy(mg_run *r, rt_saving *s);
void rt_snapshot_free(rt_saving *s);

/* scribe.c: the thread. Only a scribe that is not busy is given a task. */
void rt_scribe_start(rt_saving *s);
/* The leader makes the files of a checkpoint with their headers; false: result.error says why. */
bool rt_scribe_make(rt_saving *s);
void rt_scribe_give(rt_saving *s, rt_task task);
bool rt_scribe_busy(rt_saving *s);
void rt_scribe_end(rt_saving *s); /* nothing, if there is none */

#endif
