/* frontier.h - what the repeats of a module keep for the backward part, the best for a given
 * memory.
 *
 *   price.c     bytes and seconds of an option, read off a plan made with it
 *   choose.c    the fastest ranges of iterations that fit, from prices alone
 *   frontier.c  puts them together
 *   frontier_plan.c plans with what is kept
 *   keep_more.c what to keep beside the default where that fits
 *   keep_bytes.c what was found, handed from one process to another */
#ifndef MGC_FRONTIER_H
#define MGC_FRONTIER_H

#include "decide/make.h"
#include "passes/autodiff/recompute.h"
#include "plan/plan.h"

/* ---- price.c --------------------------------------------------------------------------------- */

enum { KEEP_RANGES = 8, KEEP_KINDS = 256 };

/* Bytes of one range. forward, backward: at most, while it runs, beside what it and the ranges
 * before it store. */
typedef struct RangePrice {
    int64_t stored,
        fixed; /* of an iteration of its loop (a segment where it has those); of the range */
    int64_t forward, backward;
    int64_t far; /* stored on another level of memory, of an iteration */
} RangePrice;

typedef struct KeepPrice {
    RangePrice range[KEEP_RANGES];
    int64_t between; /* beside all that is stored, between the last forward and backward range */
    int64_t outside; /* before and after all of them */
    double seconds;  /* of the step */
} KeepPrice;

/* Reads the prices off a plan whose buffers have lifetimes (step `order`). False: its loops are
 * not `ranges` forward and as many backward. */
bool keep_price(const Plan *p, int ranges, Arena *a, KeepPrice *price);

/* ---- choose.c -------------------------------------------------------------------------------- */

/* A way to treat a range of iterations, priced. Bytes that it stores are there from when the range
 * runs forward until it has run backward. */
typedef struct KeepKind {
    int option;
    int64_t segment;   /* 1: none; or iterations that run again together */
    int64_t stored;    /* bytes of a segment */
    int64_t fixed;     /* ... of the range, whatever its length */
    int64_t transient; /* bytes beside all that is stored, while it runs one way or the other */
    int64_t far;       /* bytes of an iteration on another level of memory */
    bool here;         /* ... where it has none, though the layout offloads what is kept */
    double seconds;    /* of an iteration, more than the fastest */
} KeepKind;

typedef struct KeepProblem {
    int loops; /* that run one after the other */
    int64_t iterations[KEEP_LOOPS];
    int kinds[KEEP_LOOPS];
    KeepKind *kind[KEEP_LOOPS];
    double start[KEEP_LOOPS]; /* seconds of each range but the first */
    int64_t between;          /* bytes beside all that is stored, between forward and backward */
    int64_t limit;            /* bytes */
} KeepProblem;

typedef struct KeepChoice {
    int n; /* ranges, in the order in which they run */
    struct {
        int loop, kind;
        int64_t iterations;
    } range[KEEP_RANGES];
    int64_t peak;   /* bytes */
    double seconds; /* more than the fastest */
} KeepChoice;

/* The fastest of all choices of at most KEEP_RANGES ranges that fit (with more than 32 iterations
 * within 0.5% of its seconds); of equally fast ones the smallest. Within a loop the ranges stand in
 * the order of their transients, the largest first, which no other order beats. False: none fits.
 */
bool keep_choose(const KeepProblem *p, KeepChoice *c, Arena *tmp);

/* Peak and seconds of a choice. */
void keep_measure(const KeepProblem *p, KeepChoice *c);

/* ---- frontier.c ------------------------------------------------------------------------------ */

typedef struct Frontier Frontier;

/* Does the program fit its device and its layout's assertion with what was chosen? Decisions that
 * are made later may still make it smaller. */
typedef enum KeepFit {
    KEEP_fits,      /* ... or the passes have something to say, which is told later */
    KEEP_too_large, /* as far as these plans go */
    KEEP_hopeless   /* what no choice changes, alone or with what is alive outside of repeats where
                       that is asked for (KeepAsk.must_fit), is more than there is */
} KeepFit;

typedef struct KeepAsk {
    bool must_fit; /* in: what does not fit is not looked for */
    Arena *a;      /* in: for `plan`; NULL: that is not wanted */
    KeepFit fit;   /* out */
    Plan *plan;    /* out: frontier_plan of what was chosen; NULL: it was not made */
    /* out: seconds less, by prices, had the level of what is kept any room; had the device, too */
    double gain_of_room, gain_of_all;
    int64_t crowded; /* in: with no more bytes than that on the level of what is kept, gain_of_room
                        is not asked for, and 0 */
    /* in: NULL, or frontier_begin's for this module, which is closed then */
    Frontier *begun;
    /* in: is called once what is chosen is planned, which all processors but one wait for; NULL */
    void (*meanwhile)(void *ctx);
    void *ctx;
    /* in: modules are asked about one after the other whose repeats have the same prices; in and
     * out: those, which whoever asks closes; NULL: there are none yet */
    bool shares;
    Frontier *prices;
    const Settled *settled; /* out: what later decisions find then; NULL: they were not made */
} KeepAsk;

/* Chooses what the repeats of a module keep: the fastest choice that fits its device and its
 * layout's assertion; if none fits, the one that needs least. NULL: the default, which fits, or is
 * not what makes it too large. m is as it is before pass recompute, and is not changed; the result
 * is in a. ask: NULL, where nobody does. */
const KeepPlan *frontier_choose(const Module *m, const Device *d, Arena *a, KeepAsk *ask);
/* frontier_alike.c: the same with a pipeline. */
const KeepPlan *frontier_alike(const Module *m, const Device *d, Arena *a, KeepFit *fit);
/* keep_more.c: the default, and values beside it that make the step of a program in halves for a
 * GPU faster, if it fits with them. NULL: there are none. Without pipelines. *settled, in a: what
 * later decisions find with them; NULL: they were not made. */
const KeepPlan *frontier_more(const Module *m, const Device *d, Arena *a, const Settled **settled);
/* keep_more.c: every repeat keeps what goes into an iteration, and nothing else; in a. */
const KeepPlan *frontier_nothing(const Module *m, Arena *a);
/* keep_bytes.c: what was found, as bytes. values: of the module whose values it tells of. */
void keep_write(FILE *out, const KeepPlan *kept, size_t values);
/* Reads it back into a. False: the bytes are no such thing. */
bool keep_read(const char *bytes, size_t n, size_t values, Arena *a, const KeepPlan **kept);
/* Prints the values that may be kept, and the fastest choices for some memories. */
void frontier_print(const Module *m, const Device *d, FILE *out);

/* Processors that nobody uses begin to price the options of a module of which it is known that
 * something fits (KeepAsk.must_fit), and which offloads what is kept. NULL: there are none. */
Frontier *frontier_begin(const Module *m, const Device *d);
/* The options of all repeats, priced. NULL: there is nothing to choose. */
Frontier *frontier_open(const Module *m, const Device *d);
void frontier_close(Frontier *f);
const KeepProblem *frontier_problem(const Frontier *f);
/* A choice as what pass recompute reads, in a. */
KeepPlan *frontier_kept(const Frontier *f, const KeepChoice *c, Arena *a);

/* ---- frontier_plan.c ------------------------------------------------------------------------- */

/* A plan of the whole program. */
typedef struct KeepWhole {
    bool planned;       /* else nothing of it is known */
    int64_t bytes;      /* -1: the passes refuse it */
    int64_t persistent; /* bytes that no choice changes */
    int64_t outside;    /* of those of a step, that are alive before and after all loops */
} KeepWhole;

/* The plan of a module with what its repeats keep (fn: of that function alone, NULL: of all), up to
 * a step, packed no tighter than fits if it is rough, in a. NULL: the passes refuse it. */
Plan *frontier_plan_upto(const char *step, const Module *m, const Device *d, const KeepPlan *kept,
                         const char *fn, bool rough, Arena *a);
/* A rough one that is placed. */
Plan *frontier_plan(const Module *m, const Device *d, const KeepPlan *kept, const char *fn,
                    Arena *a);
/* Plans roughly, and says what that needs. The plan is left in `ask`, if that has an arena for it;
 * ask: NULL, where nobody wants it. */
KeepWhole frontier_whole(const Module *m, const Device *d, const KeepPlan *kept, KeepAsk *ask);
/* How well that many bytes fit into a budget. */
KeepFit frontier_fit(const Device *d, int64_t bytes, int64_t budget, int64_t persistent);

#endif
