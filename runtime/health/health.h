/* health.h - --health: what is wrong without a crash. A bit of memory that flipped, a core that
 * computes wrong numbers, a rank that is slow, a link that is slow.
 *
 * A run has the same bits whenever it is repeated, and replicas have the same bits on all ranks. So
 * hashes find each bit that is wrong, without a threshold. At a check, every N steps:
 *   same rows   all ranks along the batch's axes compute the same rows, up to the guard, and the
 *               hashes of what each action makes are compared among them
 *   again       the step is computed up to the guard, where nothing is changed yet, and then as
 *               always; the hashes of what each action made before the guard are compared
 *   vote        behind the step each rank hashes its parameters and state, and ranks that have the
 *               same part of a tensor compare; of three or more the odd one is named
 *   at rest     these hashes are compared once more at the guard of the next step: nothing may have
 *               changed a tensor since (the planner's P4)
 * A checkpoint is written behind a vote alone. Beside it: ranks that the others wait for (slow.c),
 * and, on processors alone, links between neighbours, when nothing else uses them (links.c).
 *
 * The own time of a rank is that of its steps without its waits for others. A GPU waits by itself,
 * beside what it computes, so there the time of each action is taken, in the second run of a
 * check, where one is done before the next begins: those of collectives are waits.
 *
 * Each rank has an rt_health; that of rank 0 also has what it knows of the others. */
#ifndef MG_HEALTH_H
#define MG_HEALTH_H

#include "runtime/run.h"

/* How a step runs: RT_MADE: what actions make is hashed; RT_AGAIN: and compared with that of the
 * run before; RT_DRY: it ends at its guard; RT_SAME: with the rows of one place of the batch's
 * axes, mode >> RT_PLACE, on all. */
enum { RT_MADE = 1, RT_AGAIN = 2, RT_DRY = 4, RT_SAME = 8, RT_PLACE = 8 };

/* Questions of rank 0 to all ranks, and their answers. RT_ASK_TENSORS: a hash for each of
 * mg_program.tensors, kept until the next guard. RT_ASK_REPORT: rt_health_report. RT_ASK_SUM: a
 * hash over those of the actions that make the same of the same rows. RT_ASK_ACTIONS: a hash for
 * each action. RT_ASK_LINKS: rt_link_times. RT_ASK_HOST: the name of its machine. */
typedef enum rt_question {
    RT_ASK_TENSORS = 1,
    RT_ASK_REPORT,
    RT_ASK_SUM,
    RT_ASK_ACTIONS,
    RT_ASK_LINKS,
    RT_ASK_HOST
} rt_question;

enum { RT_HOST_BYTES = 64 };

typedef struct rt_health_report {
    int32_t changed;       /* the tensor that changed at rest, or -1 */
    int32_t differs;       /* the action that made something else the second time, or -1 */
    int64_t steps;         /* since the last slow.c looked, and of those, ns: */
    double worked, waited; /* of its own; for other ranks */
} rt_health_report;

enum { RT_LINK_SIZES = 2, RT_LINK_BYTES = 4 << 20 }; /* 64 bytes, and so many */
/* ns, of a message from the neighbour before, along each axis; 0: not measured. */
typedef struct rt_link_times {
    double ns[MG_AXES_MAX][RT_LINK_SIZES];
} rt_link_times;

typedef struct rt_health {
    int64_t every;
    bool only_logs;    /* --health-action log */
    uint64_t *kept;    /* per tensor, of the last check */
    bool keeps;        /* ... they are to be compared at the next guard */
    int changed;       /* see rt_health_report */
    uint64_t *made[2]; /* per action, of its outputs in order: of the first run, and again */
    int differs;
    unsigned mode;        /* of the step that runs */
    bool past;            /* it has passed its guard */
    int64_t wait_began;   /* ns; 0: it does not wait */
    int64_t action_began; /* ns, on a GPU; 0: its time is not taken */
    bool met;             /* ... it has waited for others, at least to be sent on its way */
    int64_t run_began, steps;
    int64_t run_waited; /* ns, of the step that runs */
    double worked, waited;
    char *piece; /* a GPU's bytes on their way */
    /* Of rank 0. */
    unsigned order; /* the mode of the step that it is about to begin */
    int64_t checks;
    int accused;     /* the rank whose bits are known to be wrong; -1: none yet, -2: several */
    int64_t checked; /* the step behind which it last voted, or -1; and the hashes of all */
    uint64_t *last;
    bool awaits; /* ranks compare at the next guard, and are asked behind that step */
    char (*host)[RT_HOST_BYTES];
    struct rt_slow *slow;   /* slow.h */
    struct rt_links *links; /* links.c */
} rt_health;

/* ---- hashes.c: on each rank ------------------------------------------------------------------ */

/* Nothing without --health. */
void rt_health_open(mg_run *r);
void rt_health_close(mg_run *r);
/* Around each run of a program. */
void rt_health_begins(mg_run *r, rt_program which, unsigned mode);
void rt_health_ends(mg_run *r, rt_program which);
/* At the guard, on all ranks: true if the run ends here. */
bool rt_health_guard(mg_run *r, int action);
void rt_health_output(mg_run *r, int action, const void *p, int64_t elements, mg_dtype t);
/* Around each wait for other ranks. */
void rt_health_waits(mg_run *r, bool begins);
/* Around each action of a run that is hashed. */
void rt_health_action(mg_run *r, bool begins);
/* Carries out what rank 0 asks: `bytes` bytes of an answer. */
void rt_health_answer(mg_run *r, rt_question q, void *answer, int64_t bytes);
/* A hash of bytes at an offset of the arena, or of another level: two of the same length that
 * differ in one bit, or in some within 32 in a row, have different hashes. */
uint64_t rt_health_hash(mg_run *r, int64_t offset, int64_t bytes);
int64_t rt_local_bytes(const mg_tensor *t); /* on one rank */

/* ---- check.c: rank 0 ------------------------------------------------------------------------- */

int64_t rt_health_every(const rt_options *o); /* of --health, which was given */
/* NULL, or what is wrong with its options (the caller frees it). */
char *rt_health_wrong(const rt_options *o, const mg_program *p);

/* Before the first step. */
void rt_health_start(mg_run *r);
/* Before each step, whose inputs it may write: the caller fills them behind it. */
void rt_health_before(mg_run *r);
/* Behind each step, also one that is not finite (`good` false: then it does not vote). It ends the
 * program with RT_CORRUPT if something is wrong, unless --health-action log. */
void rt_health_after(mg_run *r, bool good);
/* Before a checkpoint is written. */
void rt_health_before_save(mg_run *r);
/* The place whose rows all ranks along the batch's axes get, or -1: each its own. */
int rt_health_place(const mg_run *r);

/* ---- vote.c: rank 0 -------------------------------------------------------------------------- */

/* The odd ones among n hashes of things that should be the same: odd[k], and true if there are any.
 * *known: more than half of them are the same; otherwise all are odd. */
bool rt_odd(const uint64_t *hash, int n, bool *odd, bool *known);
/* Compares hashes of tensors, by rank and tensor; says what is wrong, and returns how many alerts
 * it gave. */
int rt_vote_tensors(mg_run *r, const uint64_t *hash);
/* Asks whether ranks along the batch's axes made the same, of the same rows. */
int rt_vote_actions(mg_run *r);

/* ---- alert.c: rank 0 ------------------------------------------------------------------------- */

/* An alert in the log, and in metrics.jsonl. `kind` is a word; `rank`: whose; -1: of none alone. */
void rt_alert(mg_run *r, const char *kind, int rank, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The bits of this rank are wrong, and not those of others. */
void rt_accuse(mg_run *r, int rank);
const char *rt_host_of(const mg_run *r, int rank);
/* A tensor changed on a rank, though nothing wrote it; an action made other bits the second time.
 * Each gives one alert, and returns 1. */
int rt_tell_changed(mg_run *r, int rank, int tensor);
int rt_tell_differs(mg_run *r, int rank, int action);
/* "decoder.weight (exp_avg)", "action 41, layers.attend.q (product, llama.mg:23)"; the caller frees
 * them. */
char *rt_tensor_text(const mg_tensor *t);
char *rt_action_text(const mg_program *p, int action);
/* "rank 2 (node17)"; the caller frees it. */
char *rt_rank_text(const mg_run *r, int rank);

/* ---- links.c --------------------------------------------------------------------------------- */

/* On all ranks together: a message from each neighbour before, along each axis. */
void rt_links_measure(mg_run *r, rt_link_times *times);
/* Rank 0: asks for that, and names links that are slow. */
void rt_links_check(mg_run *r);
void rt_links_free(struct rt_links *l); /* NULL: nothing */

/* ---- commands.c, log.c ----------------------------------------------------------------------- */

/* Rank 0 asks all ranks, itself too, and has `bytes` bytes from each in `answers`, by rank. */
void rt_ranks_ask(mg_run *r, rt_question q, void *answers, int64_t bytes);
void rt_log_alert(rt_log *l, int64_t step, const char *kind, int rank, const char *host,
                  const char *text);

#endif
