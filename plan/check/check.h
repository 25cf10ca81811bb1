/* check.h - the proof of a plan; but for plan_check private to check*.c.
 *
 * Written against plan/plan.h alone. Each program is executed symbolically: memory is a map from
 * bytes to (value, iteration of the loops around it, element). An action is legal if each element
 * it reads is the one the IR means there, whichever loop, slot or view it comes through; it then
 * leaves its results' elements where it writes. That the action computes what its instruction says
 * is checked against its descriptor or kernel. What the planner believed (lifetimes, wishes,
 * aliases) is not asked. */
#ifndef MGC_PASSES_CHECK_H
#define MGC_PASSES_CHECK_H

#include "plan/plan.h"

/* check.c: the number of broken invariants (plan.h), each told. */
int plan_check(const Plan *p, FILE *out);

/* ---- check_memory.c: what lies where --------------------------------------------------------- */

/* Bytes [lo, hi) hold elements first, first + 1, ... of a value in one iteration of its loops. */
typedef struct Piece {
    int64_t lo, hi;
    Value value;         /* computed or given; not a view, slice or loop result. 0: workspace */
    uint64_t iterations; /* see check_value.c; workspace: the action that wrote it */
    int64_t first;
    int64_t bytes; /* of an element */
} Piece;

typedef struct Memory Memory;
Memory *memory_new(Arena *a);
void memory_write(Memory *m, Piece p);
/* The same for n rows that are `period` bytes apart, of which p is the first; from one to the next
 * the elements are `step` further. As the parts of a tensor are: they are kept as one, if others of
 * its parts are all that lies between the rows. */
void memory_write_rows(Memory *m, Piece p, int64_t n, int64_t period, int64_t step);
/* Nothing is known of bytes [lo, hi) any more, nor of rows that are in some of them. */
void memory_forget(Memory *m, int64_t lo, int64_t hi);
/* The piece that holds byte `at`; false: none does. */
bool memory_at(const Memory *m, int64_t at, Piece *p);
/* The same piece, and how many rows like it there are from it on, `period` bytes and `step`
 * elements apart; 1: it is no row, or the last. 0: none does. */
int64_t memory_rows_at(const Memory *m, int64_t at, Piece *p, int64_t *period, int64_t *step);

/* ---- check_value.c: what the IR means -------------------------------------------------------- */

/* Iterations of the loops around a point of the program, outermost first. */
typedef struct Iterations {
    int64_t at[MAX_NEST];
} Iterations;

/* Rows of a value's elements, and where they lie. Row j is the n elements from first + j * step on;
 * it lies at + j * stride elements behind an operand's beginning. */
typedef struct Strip {
    int64_t first, n, count, step;
    int64_t at, stride;
} Strip;

/* The rows from row `from` on. */
static inline Strip strip_from(Strip s, int64_t from)
{
    s.first += from * s.step;
    s.at += from * s.stride;
    s.count -= from;
    return s;
}

/* Elements of a value as it was computed. */
typedef void RunFn(void *ctx, Value v, uint64_t iterations, Strip s);

typedef struct Meaning {
    const Module *m;
    /* Loops that change nothing but a sum are executed in their first two and their last iteration;
     * shortened[owner's dim] would be ambiguous, so it is asked by loop instruction. */
    bool (*shortened)(const void *ctx, const Ins *loop);
    /* Does the rank run this iteration of the loop? Of layers it may have fewer than others. */
    bool (*runs)(const void *ctx, const Ins *loop, int64_t i);
    const void *ctx;
} Meaning;

/* In place of iterations: elements that no iteration of this rank writes. */
#define UNWRITTEN UINT64_MAX
/* Calls run for elements of v, each once: those of one computed value, as many rows as follow one
 * step in it. */
void meaning_of(const Meaning *w, Value v, Iterations r, Strip s, RunFn *run, void *ctx);
uint64_t iterations_key(const Module *m, Value v, Iterations r);
int region_depth(const Region *r);
/* The iteration that runs after `i`, and -1 after the last; the first, with i = -1. */
int64_t next_iteration(const Meaning *w, const Ins *loop, int64_t i);

/* ---- check_call.c: descriptors --------------------------------------------------------------- */

/* Compares an action's descriptor with instruction i: a text that says what is wrong, or NULL. The
 * operands' values, types and order are checked already. */
const char *call_wrong(const Module *m, const Action *a, const Ins *i);
const char *conv_wrong(const Action *a, const Ins *i);    /* check_conv.c */
const char *experts_wrong(const Action *a, const Ins *i); /* check_experts.c */
const char *grouped_wrong(const Action *a, const Ins *i);
const char *tiles_wrong(const Action *a, const Ins *i); /* check_tiles.c */
const char *fp8_wrong(const Action *a, const Ins *i);   /* check_tiles.c: of a product */
bool check_is_dense(const Operand *o);                  /* row-major, without gaps */
mg_dtype check_dtype(DType t);                          /* as runtime/abi.h numbers them */

/* ---- check_kernel.c -------------------------------------------------------------------------- */

/* A text that says why kernel k does not compute instruction i, or NULL. */
const char *kernel_wrong(const Module *m, const Kernel *k, const Ins *i);
/* May result j of i take operand k's place, both lying alike? */
bool kernel_in_place(const Module *m, const Ins *i, uint32_t j, uint32_t k);
/* Is each element of its results one step of i's kernel, which of input k reads that element alone?
 */
bool kernel_by_elements(const Module *m, const Ins *i, uint32_t k);

#endif
