/* best.h - what an evaluation gives, and which evaluation of a run was the best. */
#ifndef MG_RUNTIME_BEST_H
#define MG_RUNTIME_BEST_H

#include <stdio.h>

#include "runtime/abi.h"
#include "runtime/json.h"

/* Of all windows of an evaluation, as one batch. */
typedef struct rt_scores {
    double loss, metric[MG_METRICS_MAX]; /* as in mg_main.eval */
} rt_scores;

enum {
    RT_BEST_BY = 160, /* bytes of a criterion: "val_", a name of 128, ":max" */
    RT_TOP_MAX = 64,
};

typedef struct rt_ranked {
    double value;
    int64_t step;
} rt_ranked;

/* A part of the state of a run. */
typedef struct rt_best {
    char by[RT_BEST_BY]; /* "val_accuracy:max"; "": nobody asks which evaluation is the best */
    int64_t patience;    /* so many evaluations without a better one end the run; 0: none do */
    double value;        /* of the best so far */
    int64_t step;        /* steps done at that one; -1: there is none */
    int64_t waited;      /* evaluations since */
    int64_t keep;        /* as many of the best keep their checkpoints: */
    rt_ranked top[RT_TOP_MAX]; /* the best first, of equal ones the first */
    int ntop;
} rt_best;

struct rt_data;

/* eval.c: of these windows as one batch; or, if rows depend on each other, the means over whole
 * batches, of which rt_open_data guarantees one. */
void rt_eval(mg_run *r, const struct rt_data *d, rt_scores *s);
/* The first windows of a set, with the parameters as they are. */
void rt_eval_set(mg_run *r, const struct rt_data *d, int64_t windows, rt_scores *s);
/* A set by batches that the caller puts into the arenas: the sums begin anew; n windows from number
 * `first` are added to them. */
void rt_eval_begin(mg_run *r);
void rt_eval_batch(mg_run *r, int64_t first, int64_t n);

/* "val_loss, val_accuracy" (the caller frees it). */
char *rt_metrics_text(const mg_program *p);
/* NULL, or what is wrong with the criterion of --best-by (the caller frees it). */
char *rt_best_wrong(const mg_program *p, const char *by);
/* Takes --best-by, --keep-best and --patience into the state of a run, which keeps those that it
 * was resumed with. */
void rt_best_settle(mg_run *r, bool resumed);
/* Notes an evaluation; true if it is the best so far. */
bool rt_best_observe(mg_run *r, const rt_scores *s);
/* True of the steps of the best evaluations, whose checkpoints stay. */
bool rt_best_keeps(const rt_best *b, int64_t step);
/* Has the run waited for a better evaluation for as long as --patience says? */
bool rt_best_waited(const mg_run *r);

/* Its part of state.json: written, and read from the two keys that it has there. */
void rt_best_print(FILE *f, const rt_best *b);
bool rt_best_parse(rt_json *j, rt_best *b);
bool rt_best_parse_kept(rt_json *j, rt_best *b);

#endif
