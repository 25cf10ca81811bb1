/* schedule.h - from fused IR to actions on buffers: private to schedule*.c.
 *
 * The place of a value (its Loc) is decided before the instructions of its region are written, from
 * the end backwards: what must end up in a fixed place (a parameter's new value, a stacked slot,
 * the next value of a carried one) is computed there at once if nothing still needs what is there,
 * and copied at the end of the region if something does. All other values get buffers of their own.
 */
#ifndef MGC_PASSES_SCHEDULE_H
#define MGC_PASSES_SCHEDULE_H

#include "plan/plan.h"

/* The place of a value's elements, and its strides in elements per dim of its type. */
typedef struct Loc {
    bool known;
    Place at;
    int64_t stride[MAX_RANK];
} Loc;

/* A place a value should be computed in. `free_from`: the last position (in its region) at which
 * what is there is still read; an instruction at just that position may take it over if it reads
 * `occupant` in place; where that is the root of a larger value, the place is its elements from
 * `from` on. `start`: an accumulating instruction's result belongs there, and the value
 * only starts it: if it cannot be computed there, the instruction copies it. `chain`: behind what a
 * loop stacks there, one more slot is for the carried value that it is a stack of. */
typedef struct Want {
    bool set;
    Loc to;
    int free_from;
    Value occupant;
    int64_t from;
    bool start, chain;
} Want;

/* A value that could not be computed where it is wanted. first: it is moved before all else that
 * its region does, and not behind it. */
typedef struct Move {
    Value from;
    Loc to;
    bool first;
} Move;

/* Storage of one repeat, decided before its region is written. */
typedef struct LoopPlan {
    const Ins *ins;
    int index;       /* of its Loop in the program */
    Want *target;    /* per body result: where it should go */
    Loc *arg;        /* per carried argument: where it lives inside */
    Loc *out;        /* per result: where it is afterwards; unknown: where operand `share` is */
    int *share;      /* per stacked result: the slices whose storage it takes over, or -1 */
    bool *copy_in;   /* per carried value: the start value has to be copied to its place */
    Loc *start;      /* where */
    VEC(Move) after; /* results that are wanted elsewhere than the loop leaves them */
} LoopPlan;

typedef struct Sched {
    Plan *p;
    Module *m;
    Arena *tmp;
    Program *prog;
    int program;
    Loc **loc;             /* per value; NULL: none is known */
    Want **want;           /* ... */
    uint32_t *number;      /* per value, of schedule_kernel.c: where it stands in a kernel */
    VEC(LoopPlan *) loops; /* decided, not yet written */
    StageSet *at;          /* per value */
    VEC(Name) shapes;      /* per kernel: what it computes, of schedule_kernel.c */
    VEC(char) row;         /* the one that is written there */
    VEC(uint32_t) called;  /* per name, of this program: see schedule_name.c */
    bool failed;
} Sched;

/* A value's place, and the place that it should have: at first neither is known. Most of a module's
 * values are of no function any more, and have none. */
static inline Loc *loc_of(const Sched *s, Value v)
{
    return s->loc[v] ? s->loc[v] : (s->loc[v] = NEW(s->tmp, Loc));
}
static inline Want *want_of(const Sched *s, Value v)
{
    return s->want[v] ? s->want[v] : (s->want[v] = NEW(s->tmp, Want));
}

/* schedule.c */
_Noreturn void sched_bug(const Sched *s, const Ins *i, const char *what);

/* schedule_io.c: buffers of a function's arguments; where its results should go. prefix: what the
 * names of the buffers begin with. */
void io_args(Sched *s, const Fn *f, const char *prefix);
void io_results(Sched *s, const Fn *f, const char *prefix, Want *target);

/* schedule_pipe.c: the loop over microbatches that a relay is in, its phases, its messages. False:
 * there is no such schedule, told. */
bool pipe_is_relay(const Sched *s, const Ins *i);
bool pipe_begin(Sched *s, const Ins *loop, int index);
void pipe_phase(Sched *s);
/* Before a loop's end: where the table has weights' gradients apart and no layer has any, that
 * phase is there, and empty. */
void pipe_end(Sched *s, int index);
/* Can a relay's stack have a slot more, for the end? Not between chunks, and not where stages end
 * after different numbers of layers. */
bool pipe_chains(const Sched *s);
/* Does a phase run some of the iterations of this loop alone, because a rank has several stages or
 * stages have different numbers of layers? */
bool pipe_runs_parts(const Sched *s, const Ins *i);
/* Is it the loop of weights' gradients (weights.c)? */
bool pipe_begins_weights(const Sched *s, const Ins *i);
/* Does a region have a relay that runs backwards? */
bool pipe_returns(const Sched *s, const Region *r);
void pipe_receive(Sched *s, const LoopPlan *lp);
void pipe_send(Sched *s, const LoopPlan *lp);
/* After the program is written: what has slots. */
void pipe_slots_of_buffers(Sched *s);

/* In the table of the pipeline, does each stage of each rank begin an action's phase with the first
 * microbatch? */
bool pipe_begins_in_order(const Sched *s, int action);

/* schedule_begin.c: sums over iterations whose first term is written need no zeros before. */
void begin_with_writes(Sched *s, const Fn *f);
void name_gradients(Sched *s, const Fn *f); /* schedule_gradients.c */

/* schedule_name.c: unique in its program */
Name action_name(Sched *s, const Ins *i, const Operand *op, int noperands);
/* Of a generated kernel: unique, a C identifier, and the same however deep the model is. */
Name kernel_name(const Sched *s, const Kernel *k);

/* schedule_loc.c: buffers, and places in them */
uint32_t buffer_new(Sched *s, const char *name, Owner owner, int64_t bytes, int home, Value v);
Loc loc_dense(uint32_t buffer, const Type *t);
Loc loc_new(Sched *s, Value v, int home);
/* The same elements for a value of type t? Strides of dims of one element mean nothing. */
bool loc_equal(const Loc *a, const Loc *b, const Type *t);
Loc locate(Sched *s, Value v); /* views resolved */
Operand operand_of(Sched *s, Value v, bool read, bool write);
/* Place of iteration `index + first` of a stacked location whose slots are `bytes` apart. */
Loc loc_slot(const Loc *base, int loop, int64_t bytes, int64_t first);
/* A stacked location of `rank` inner dims, seen without its outermost dim. */
Loc loc_inner(const Loc *l, int rank);
/* Slots for n iterations of a value that is stacked, and one more: where the first is. */
Loc loc_chain(Sched *s, Value stack, int64_t n, int home);

/* schedule_reads.c: elements of a root, from the first on; the end is not among them. */
typedef struct Part {
    Value root;
    int64_t from, to;
} Part;
Part part_of(const Module *m, Value v);
bool part_touches(const Module *m, Value v, const Part *part);
/* Does anything in a region, or in the regions in it, read v, itself or through a view? */
bool region_reads(const Module *m, const Region *r, Value v);
/* The last position in the region at which something of a part is read, that of its end if it is a
 * result (but for number `but`); -1: nowhere. */
int last_read(const Module *m, const Region *r, const Part *part, int64_t but);

/* schedule_store.c: decides wants and loops of a region whose results should go to target[] (may be
 * NULL); what cannot is appended to moves. home: index of the loop the region is the body of, or
 * -1. */
typedef VEC(Move) Moves;
void plan_region(Sched *s, Region *r, const Want *target, int home, Moves *moves);
LoopPlan *loop_plan(Sched *s, const Ins *i);
/* May `d`, which computes v, overwrite what it reads as `occupant`? */
bool takes_over(const Module *m, const Ins *d, Value v, Value occupant);

/* schedule_call.c: descriptors of library calls, action by action. home: where work space is
 * needed, the loop around it. */
void call_dot(Sched *s, const Ins *i);
/* Space each thread of the host needs beside the arena. */
void needs_scratch(Sched *s, int64_t bytes);
void call_conv(Sched *s, const Ins *i, int home);
void call_grouped(Sched *s, const Ins *i, int home);
void call_attention(Sched *s, const Ins *i, int home);
void call_cross_entropy(Sched *s, const Ins *i, int home);
void call_head(Sched *s, const Ins *i, int home);
void call_gather(Sched *s, const Ins *i, int home);
void call_tile_scale(Sched *s, const Ins *i, int home);
void call_round_tiles(Sched *s, const Ins *i, int home);
void call_random(Sched *s, const Ins *i, int home);
void call_transfer(Sched *s, const Ins *i, int home);
void call_comm(Sched *s, const Ins *i, int home);

/* Ends the compiler unless an operand is dense. */
void require_dense(const Sched *s, const Ins *i, const Operand *o);

/* schedule_experts.c */
void call_top(Sched *s, const Ins *i, int home);
void call_experts(Sched *s, const Ins *i, int home);

/* schedule_kernel.c */
void call_kernel(Sched *s, const Ins *i, int home);

/* schedule_epilogue.c: a result of a kernel that has no place yet gets that of the product before
 * it, which nothing else needs. */
void take_place_of_product(Sched *s, const Ins *i);
/* The product that k can go on with, whose columns it is cut into then; NULL: none. */
Action *goes_on_with(Sched *s, Kernel *k);
/* ... and does, as kernel `number` of the plan; c: what it would cost by itself. */
void go_on(Sched *s, Action *a, const Kernel *k, uint32_t number, Cost c);

/* schedule.c: appends an action for i (NULL: none) and prices it. */
Action *action_new(Sched *s, ActionKind kind, const Ins *i, int noperands, const Operand *op);
void price(Sched *s, Action *a, Cost c);
/* ... what it does beside that: c of a kernel. */
void price_on_host(Sched *s, Action *a, Cost c);
void price_more(Sched *s, Action *a, Cost c);
/* Is v read after i, in its region? */
bool used_after(const Sched *s, const Ins *i, Value v);
void emit_copy(Sched *s, Value v, const Loc *to, const Ins *at);

#endif
