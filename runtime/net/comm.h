/* comm.h - the parts of a collective among ranks of which some are on other machines; private to
 * comm.c, which makes one at once, and async_comm.c, which carries it on while others compute. */
#ifndef MG_COMM_H
#define MG_COMM_H

#include "runtime/machine.h"

enum { RT_POST = 4 << 20 }; /* bytes: of what is on the wire in one direction */

/* Rows of bytes, `step` apart, the first at `first`; the second half of each may begin `jump`
 * behind the first (zigzag order), 0: they are in one piece. */
typedef struct rt_share {
    int64_t rows, row, step, first, jump;
} rt_share;

typedef struct rt_comm {
    const mg_comm_desc *d;
    mg_run *run;
    int member[MG_RANKS_MAX]; /* ranks of the group, in order */
    bool here[MG_RANKS_MAX];  /* on this machine */
    bool all_here;
    int me; /* this rank's place among them */
    const char *x;
    char *y;
    int64_t width, bytes; /* of an element; of x */
    int64_t line;         /* bytes of y that one rank gives, side by side with the others' */
    rt_share mine;        /* what each gives to this rank */
    int64_t most;         /* bytes that any of them is given by one */
    int64_t begin, end;   /* the chunk of it, bytes */
    const char *came[MG_RANKS_MAX]; /* the chunk, of members elsewhere */
} rt_comm;

/* Who is in it, and who gives what. */
void rt_comm_set(rt_comm *c, mg_run *r, const mg_comm_desc *d, const void *x, void *y);
/* Makes [begin, begin + size) of what is given the chunk, and begins its messages; `in` and `out`
 * are memory for (n - 1) times `size` bytes. */
void rt_comm_post(rt_comm *c, int64_t begin, int64_t size, char *in, char *out, rt_ticket *t);
/* Makes y of the chunk, whose messages have come: elements [from, to) of it. */
void rt_comm_take(rt_comm *c, int64_t from, int64_t to);
/* Is each part of the sum added up by one of them for all? Then, once all here have theirs: those
 * of the others here, and messages for the rest, which lie in y. */
bool rt_comm_parts(const rt_comm *c);
void rt_comm_copy_sums(const rt_comm *c);
void rt_comm_post_sums(const rt_comm *c, int64_t at, rt_ticket *t);
/* Round the ring, or from one to all, as it is: does it only move? Then what comes from this
 * machine; messages from byte `at` on, at most RT_WIRE_MOST. */
bool rt_comm_moves(const rt_comm *c);
void rt_comm_copy(rt_comm *c);
void rt_comm_post_move(const rt_comm *c, int64_t at, rt_ticket *t);

/* ---- async_comm.c -------------------------------------------------------------------------------
 */

/* Memory for collectives that run beside the rest; after the wire is open. */
void rt_async_comm_open(mg_run *r);
/* Begins one, if what follows runs beside the rest now. False: it is to be made at once, and none
 * is under way. */
bool rt_async_comm_begin(mg_run *r, int action, const mg_comm_desc *d, const void *x, void *y);

#endif
