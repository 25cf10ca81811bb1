/* comm.h - the steps of a collective whose ranks may be on several machines. Private to comm.c,
 * which runs a collective synchronously, and async_comm.c, which runs it while ranks compute. */
#ifndef MG_COMM_H
#define MG_COMM_H

#include "runtime/machine.h"

enum { RT_POST = 4 << 20 }; /* bytes in flight in one direction */

/* A set of rows of bytes with stride `step`; the first row begins at `first`. In zigzag order
 * the second half of each row begins `jump` bytes after the first half; 0: a row is in one
 * piece. */
typedef struct rt_share {
    int64_t rows, row, step, first, jump;
} rt_share;

typedef struct rt_comm {
    const mg_comm_desc *d;
    mg_run *run;
    int member[MG_RANKS_MAX]; /* ranks of the group, in order */
    bool here[MG_RANKS_MAX];  /* on this machine */
    bool all_here;
    int me; /* this rank's place in the group */
    const char *x;
    char *y;
    int64_t width, bytes;           /* bytes of an element; bytes of x */
    int64_t line;                   /* bytes of y that one rank gives in one piece */
    rt_share mine;                  /* the rows that each rank gives to this rank */
    int64_t max_bytes;              /* the most bytes that one rank gives to another */
    int64_t begin, end;             /* the current chunk of the share, bytes */
    const char *came[MG_RANKS_MAX]; /* the chunk from members on other machines */
} rt_comm;

/* Finds the members of the group and the share of each. */
void rt_comm_set(rt_comm *c, mg_run *r, const mg_comm_desc *d, const void *x, void *y);
/* Makes [begin, begin + size) of the share the current chunk, and begins its messages. `in` and
 * `out` are memory for (n - 1) times `size` bytes each. */
void rt_comm_post(rt_comm *c, int64_t begin, int64_t size, char *in, char *out, rt_ticket *t);
/* Makes elements [from, to) of the chunk in y; the messages of the chunk have arrived. */
void rt_comm_take(rt_comm *c, int64_t from, int64_t to);
/* True if each rank sums one part for all. Then, once all ranks here have their sums:
 * rt_comm_copy_sums copies the parts of ranks on this machine, rt_comm_post_sums begins the
 * messages for the others, from y and into y. */
bool rt_comm_parts(const rt_comm *c);
void rt_comm_copy_sums(const rt_comm *c);
void rt_comm_post_sums(const rt_comm *c, int64_t at, rt_ticket *t);
/* True for a ring shift and a broadcast, which only move x. Then rt_comm_copy copies from this
 * machine, and rt_comm_post_move begins messages from byte `at` on, of at most RT_WIRE_MAX
 * bytes. */
bool rt_comm_moves(const rt_comm *c);
void rt_comm_copy(rt_comm *c);
void rt_comm_post_move(const rt_comm *c, int64_t at, rt_ticket *t);

#endif
