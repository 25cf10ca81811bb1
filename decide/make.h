/* make.h - plan_make runs the whole way from a module to its plan, or a part of it: steps.def.
 *
 * The compiler, the remedies, the decisions and the tests all plan by it, so they all plan alike.
 */
#ifndef MGC_DECIDE_MAKE_H
#define MGC_DECIDE_MAKE_H

#include "passes/passes.h"
#include "plan/plan.h"

typedef enum StepId {
#define PASSES(first, last, needs, keeps, holds) STEP_ID_##last,
#define DECIDE(name, needs, keeps, holds)        STEP_ID_##name,
#define STEP(name, needs, keeps, holds)          STEP_ID_##name,
#include "decide/steps.def"
    STEP_count
} StepId;

typedef struct PlanJob PlanJob;

/* Notes of what decisions found; settled.h. */
typedef struct Settled Settled;

typedef struct StepInfo {
    const char *name, *holds;
    unsigned needs, keeps;         /* bit per StepId */
    int first, last;               /* PassIds of a range of passes; -1 of all others */
    bool decides;                  /* a decision */
    PassStatus (*run)(PlanJob *j); /* NULL of a range of passes */
} StepInfo;
extern const StepInfo step_info[STEP_count];

/* The module to plan, how far to go, and a function that is called after each step. */
struct PlanJob {
    Module *m; /* as it is after `after`; passes change it */
    const Device *d;
    Arena *a;          /* for the plan, and what decisions choose */
    const char *after; /* a pass or a step that is done, and all before it; NULL: none is */
    const char *upto;  /* the last pass or step to run; NULL: the last there is */
    bool decided;      /* decisions are taken as the layout has them: none is made */
    bool
        compared; /* the plan is only compared with others (Plan.compared): ir_verify is left out */
    bool rough;   /* whether it fits counts: no packing is tighter than that needs */
    FILE *log;    /* broken invariants are described here */
    FILE *fusion; /* as Job has it */
    /* Called after each pass, decision and step that succeeded; NULL: nobody. */
    void (*done)(void *ctx, const char *step, const PlanJob *j);
    void *ctx;

    Plan *plan;             /* what `schedule` made, and the steps after it go on with */
    const KeepPlan *kept;   /* what decision `offload` found to be kept best; else NULL, ... */
    bool kept_known;        /* ... which may be what it found */
    const char *missing;    /* what decision `offload` found to lack, for people; NULL: nothing */
    const Settled *settled; /* decisions that a whole way has made already; NULL: none */
    Settled *found;         /* what decisions find is noted there, in a; NULL: nowhere */
    bool fused;             /* decision `overlap` has made m what it is behind pass fuse */
    const char *at; /* the pass or step that ran last, which is the one that failed, if any did */
};

/* A job that plans a module up to `place` to compare it with others: from behind a decision, which
 * may change the module as it likes, and with no other decision made. */
PlanJob plan_compared(Module *m, const Device *d, Arena *a, const char *after);

/* A job that plans a module to the end to compare it with others: from behind a decision, with all
 * later ones, which are noted in *found (NULL: nowhere). The module's optimizer stays as it is. */
PlanJob plan_onward(Module *m, const Device *d, Arena *a, const char *after, Settled *found);

/* Runs a job of plan_compared, and its timeline whether it fits or not. False: there is no plan. */
bool plan_timed(PlanJob *j);

/* The program whose seconds count: a step, or a token of each text. */
const Program *plan_judged(const Plan *p);

/* Runs the passes and steps after `after` up to `upto`, in the order of the table, until one fails.
 * `place` leaves a plan that does not fit placed all the same. Both names must exist. */
PassStatus plan_make(PlanJob *j);

#endif
