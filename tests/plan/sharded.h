/* sharded.h - programs of several ranks against those of one, in the interpreter and in double
 * precision: loss, norm, every new parameter and state of a step, evaluation and sample.
 *
 * A layout is written "dp=2 tp=2; batch dp; kv_heads tp; state dp": the mesh, then rules; "dp=2|":
 * largest numbers are found along dp apart of the axes behind it; "seq cp~": in zigzag order; "seq
 * cp^": heads are exchanged; "experts ep>": their rows are sent, "experts ep>1.5" up to a bound;
 * "offload 2": what offload_some does with that number; "once": a step gathers layers once. Axes
 * that are not in the mesh are left out of rules, as axes of one rank are. */
#ifndef MGC_TESTS_SHARDED_H
#define MGC_TESTS_SHARDED_H

#include "ir/interpret.h"
#include "tests/plan/planned.h"

/* A model, and what one rank makes of it. */
enum { SHARDED = 4 }; /* @train, @eval, @sample, @round */
typedef struct Reference {
    Model t;
    const Small *small;
    int64_t at_once; /* sequences computed at once, of all ranks */
    uint64_t keep;   /* not 0: what many ranks keep of repeats is drawn from it */
    DType half;      /* DT_none: the program has no halves; fp8: what gradients are, beside bf16 */
    Scales scales;   /* of fp8 */
    Tensor64 *args[SHARDED], *want[SHARDED]; /* per function; NULL where there is none */
} Reference;

/* It stays where it is: its messages are written there. Closed by model_close(&r->t). */
void open_reference(Reference *r, const Small *s, int64_t at_once);
/* The same of a program with halves, whose numbers are rounded by nothing but their storage. */
void open_reference_in(Reference *r, const Small *s, int64_t at_once, DType half);
/* The same of what one rank makes of the layout's program before it is split: of rows that are sent
 * up to a bound, and dropped. */
void open_reference_as(Reference *r, const Small *s, int64_t at_once, const char *spec);
void open_reference_scaled(Reference *r, const Small *s, int64_t at_once, DType half,
                           Scales scales);

/* Gives a module a layout: "dp=2 tp=2; batch dp; kv_heads tp; state dp" is the mesh, then rules.
 * Axes that are not in the mesh are left out of rules, as axes of one rank are, and so are rules
 * for dims that the model has not. */
void lay_out(Model *t, const char *spec);

/* Whether all ranks of a layout compute what one does, within SHARD_BOUND of the largest element of
 * each result, after pass shard, after pass local and, where it offloads, after pass levels. False:
 * the layout is refused, for sizes that do not come out even or an axis that splits nothing;
 * anything else fails the test. */
bool layout_follows(const Reference *r, const char *spec);
#define SHARD_BOUND 1e-10

/* How far off the layout's ranks are, at most, after pass shard and after pass local, with nothing
 * simplified in between. The layout is one that is not refused. */
double layout_error(const Reference *r, const char *spec);

/* A mesh of up to three axes and 64 ranks, sometimes with pipeline stages beside them; rules for
 * some of the model's dims, in any order; classes each with those before it; a third offloads. */
const char *random_layout(const Reference *r, Arena *a, uint64_t *rng);

/* ---- what tests that damage a program need ----------------------------------------------------
 */

/* The program of all ranks after pass shard; false: refused. To be closed either way. */
bool open_many(Model *t, const Reference *r, const char *spec);

/* How arguments and results of a function lie: what their types say before pass local. */
typedef struct Lies {
    size_t args;
    Type *arg, *result;
    const double *size; /* differences of a result are relative to no less; NULL: to its own size */
} Lies;
Lies lies(Model *t, const char *name);

/* The program of one rank of all; l: how its functions' values lay, as sharded_functions has them.
 * False: refused. */
extern const char *const sharded_functions[SHARDED];
bool open_local(Model *t, const Reference *r, const char *spec, Lies *l);

typedef struct Compared {
    double worst; /* relative to the result's largest element */
    const char *where;
} Compared;
Compared run_many(const Model *one, const Tensor64 *args, const Tensor64 *want, Model *many,
                  const char *name, const Lies *l);

/* The same, of the plan of all ranks, in double precision. order: as run_plan has it. */
Compared run_many_planned(const Model *one, const Tensor64 *args, const Tensor64 *want, Model *many,
                          const Plan *p, const char *name, const Lies *l, uint64_t *order);

/* ... and what it gives: the results of one rank behind those of another. */
Tensor64 *run_ranks_planned(const Tensor64 *args, Model *many, const Plan *p, const char *name,
                            const Lies *l, uint64_t *order);

/* ---- reduce = tree ----------------------------------------------------------------------------
 */

/* A step of all ranks with `reduce = tree`, in double precision: what each result is, whole. Rank
 * and microbatch have the sequences that the runtime would give them. */
typedef struct TreeRun {
    Model t;
    const Fn *fn;
    Tensor64 *whole; /* per result */
    bool ran;        /* false: the layout is refused */
} TreeRun;

/* local: after pass local. To be closed by model_close(&r->t). */
void run_tree(TreeRun *r, const Small *s, const char *spec, int64_t microbatch, bool local);

/* The program up to the gradients, of one rank: loss and RES_grads. */
void open_gradients(Model *t, const Small *s, int64_t microbatch, bool tree);

#endif
