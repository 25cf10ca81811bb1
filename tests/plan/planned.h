/* planned.h - a program from the logical pipeline to a placed plan, for the tests of the planner.
 */
#ifndef MGC_TESTS_PLANNED_H
#define MGC_TESTS_PLANNED_H

#include "ir/interpret.h"
#include "grammar/ast.h"
#include "plan/plan.h"
#include "tests/passes/model.h"
#include "tests/plan/run_plan.h"

enum { SMALL_DEFINES = 32 };

/* A model made small. */
typedef struct Small {
    const char *file;                  /* of models/, or a path with a slash in it */
    int64_t microbatch;                /* 0: all at once */
    const char *define[SMALL_DEFINES]; /* -D; AS_READY may be the last */
} Small;

#define AS_READY "update" /* parameters are updated as gradients are ready, unclipped */

extern const Small small_models[];
extern const int small_model_count;

extern const Device test_device;

/* Runs plan_make from behind `after` up to `upto` (decide/steps.def), decisions as the layout has
 * them; fails the test if a pass or a step does. NULL where `upto` is before the plan. */
Plan *must_make(Model *t, const Device *d, const char *after, const char *upto);
/* The syntax tree of a model's file; fails the test if there is none. */
Ast *parse_small(Model *t, const Small *s);
/* The program, before all passes. */
void open_elaborated(Model *t, const Small *s);
/* Elaborates a shipped model (f64 unless told otherwise) and runs the passes up to simplify. fp8:
 * in tiles (e4m3), or mx (e5m2). */
void open_model(Model *t, const Small *s, DType compute);
/* The same, for a device that may have products of fp8. */
void open_for(Model *t, const Small *s, DType compute, const Device *d);
/* That of open_model; keep: not 0: what is kept of its repeats is drawn from it. */
void open_kept(Model *t, const Small *s, DType compute, uint64_t keep);
/* A random program of 4 sequences likewise. keep: what it keeps of its repeats is drawn as well. */
void open_random(Model *t, uint64_t seed, int64_t microbatch, DType compute, bool keep);
/* Offloads by a number to the host: class k of OffloadClass if bit k is set, in small pieces. */
void offload_some(Model *t, uint64_t number);
/* The passes between local and the plan. */
void lower_physical(Model *t);
void lower_for(Model *t, const Device *d);
/* Plan with offsets; fails the test if there is none. */
Plan *plan_for(Model *t, const Device *d);

/* How many invariants a plan breaks; text: which, to be freed. Fails the test unless it is proved.
 */
int plan_breaks(const Plan *p, char **text);
void must_hold(const Plan *p);

/* ---- running ----------------------------------------------------------------------------------
 */

/* A function's arguments and results. */
typedef struct Run {
    const Fn *fn;
    Tensor64 *args, *results;
    uint64_t *order; /* of actions in different streams: as run_plan has it */
} Run;

/* The interpreter's run of a function of t; `args` NULL: drawn from the seed. */
Run interpret(Model *t, const char *fn, uint64_t seed);
/* The same through the plan, in an arena that starts as NaN: writes the arguments, runs, reads the
 * results. False: ended by the guard. kernel, ctx: as for run_plan. */
bool run_planned(Model *t, const Plan *p, const Run *like, unsigned char *arena, Tensor64 *results,
                 KernelRun *kernel, void *ctx);
/* The greatest difference of two runs' results, and which it is; relative to the result's greatest
 * element, but never to less than a millionth of the run's: a result that terms of the run's size
 * cancelled down to is as exact as they are. */
double worst_difference(const Fn *fn, const Tensor64 *x, const Tensor64 *y, size_t *which);

/* The buffer of an argument or a result of a program. */
int buffer_of_argument(const Plan *p, const Program *prog, FnArg a);
int buffer_of_result(const Plan *p, const Program *prog, FnResult r);

unsigned char *arena_of_nan(const Plan *p); /* to be freed */
const Program *program_of(const Plan *p, const Fn *fn);

#endif
