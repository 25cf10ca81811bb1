/* sharded.h - programs of several ranks against those of one, in the interpreter and in double
 * precision: loss, norm, every new parameter and state of a step, evaluation and sample.
 *
 * A layout is written "dp=2 tp=2; batch dp; kv_heads tp; state dp": the mesh, then rules; "dp=2|":
 * largest numbers are found along dp apart of the axes behind it; "seq cp~": in zigzag order; "seq
 * cp^": heads are exchanged; "experts ep>": their rows are sent, "experts ep>1.5" up to a bound,
 * "experts dp! ep": once to all peers on dp;
 * "offload 2": what offload_some does with that number; "once": a step gathers layers once;
 * "schedule 1f1b", behind the rule for layers; "pairs": each F of it is beside the B behind it;
 * "buckets": gradients are reduced in the iterations that make them. Axes that are not in the mesh
 * are left out of rules, as axes of one rank are. */
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
    bool wide;       /* ranks add up in f32 what they have parts of, though it is of halves */
    const char *padded; /* -D of many ranks alone: a dim is stored larger; or NULL */
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

/* ---- what tests that damage a program need ----------------------------------------------------
 */

/* The program of one rank, without the layout of its file, up to what is elaborated; then up to the
 * update. keep: as Reference has it. */
void open_step(Model *t, const Small *s, DType half, Scales scales);
void to_update(Model *t, uint64_t keep);
/* Arguments of a function, whole; and a rank's shard of a whole tensor, which may have a dim more,
 * of size 1, in front. room: the value of elements in the room that stages leave, and in padding.
 */
Tensor64 *step_arguments(Model *t, const Fn *fn);
Tensor64 shard_of(const Module *m, const Tensor64 *whole, const Type *t, int64_t rank, double room,
                  Arena *a);

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
/* Fails the test unless each function of all ranks gives what one rank gives, within SHARD_BOUND.
 * when: said where it does not. */
void compare_all(const Reference *r, Model *t, const Lies *l, const char *spec, const char *when);
/* Whether a layout is refused for what it is: a size that does not come out even, an axis that
 * splits nothing, or, without a message, a batch that is too small. */
bool refused_for_sizes(Model *t, const char *spec);

Compared run_many(const Model *one, const Tensor64 *args, const Tensor64 *want, Model *many,
                  const char *name, const Lies *l);

/* The same, of the plan of all ranks, in double precision. order: as run_plan has it. */
Compared run_many_planned(const Model *one, const Tensor64 *args, const Tensor64 *want, Model *many,
                          const Plan *p, const char *name, const Lies *l, uint64_t *order);

/* ... and what it gives: the results of one rank behind those of another. */
Tensor64 *run_ranks_planned(const Tensor64 *args, Model *many, const Plan *p, const char *name,
                            const Lies *l, uint64_t *order);

#endif
