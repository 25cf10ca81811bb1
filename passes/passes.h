/* passes.h - the passes from the elaborated model to what a plan is made of, and their runner.
 *
 * passes.def is the list; decide/steps.def says what stands between its passes, and behind them. A
 * pass is one function over the job; it leaves a module that ir_verify accepts, or has reported why
 * it cannot. README.md says what each does and why it stands where it stands. */
#ifndef MGC_PASSES_H
#define MGC_PASSES_H

#include "ir/ir.h"

/* How a pass ended; the values are mgc's exit codes. */
typedef enum PassStatus {
    PASS_ok = 0,
    PASS_error = 1,      /* the source is wrong: reported to the module's diag */
    PASS_infeasible = 3, /* it does not fit, or has no legal schedule: reported likewise */
    PASS_broken = 70     /* mgc is wrong: reported on the job's `log` */
} PassStatus;

/* The state that passes hand on. */
typedef struct Job {
    Module *m;
    Arena *tmp;    /* a pass's scratch: the runner empties it after each */
    FILE *log;     /* broken invariants are described here */
    FILE *fusion;  /* every decision to fuse, or not, and why; NULL: nobody asks */
    bool compared; /* its plan is only compared with others: ir_verify is left out */
} Job;

typedef enum PassId {
#define PASS(name, needs, keeps, summary) PASS_ID_##name,
#include "passes/passes.def"
    PASS_count
} PassId;

typedef PassStatus PassRun(Job *j);
#define PASS(name, needs, keeps, summary) PassRun pass_##name;
#include "passes/passes.def"

typedef struct PassInfo {
    const char *name, *summary;
    uint64_t needs, keeps; /* bit per PassId */
    PassRun *run;
} PassInfo;
extern const PassInfo pass_info[PASS_count];
int pass_find(const char *name); /* PassId, or -1 */

/* The passes to run, and a function that is called after each. */
typedef struct PassRange {
    const char *from;  /* the first pass to run; NULL: the first there is */
    const char *until; /* the last one; NULL: the last there is */
    /* Called after each pass that succeeded, with the verified module; NULL: nobody. */
    void (*after)(void *ctx, const char *pass, const Job *j);
    void *ctx;
} PassRange;

/* Runs the passes of a range in order, ir_verify after each (unless `compared`), until one fails.
 * The names in the range must exist (pass_find). */
PassStatus passes_run(Job *j, const PassRange *range);

/* Says on the job's log what is wrong with mgc itself; returns PASS_broken. `at` may be NULL. */
PassStatus pass_bug(const Job *j, const Ins *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
