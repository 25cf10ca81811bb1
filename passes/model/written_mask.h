/* written_mask.h - what is found of attention that is written out, on the way from the scores to
 * the product; see written.c. Its masks are those of written_mask.c. */
#ifndef MGC_PASSES_WRITTEN_MASK_H
#define MGC_PASSES_WRITTEN_MASK_H

#include "passes/model/written.h"
#include "passes/walk.h"

/* A score that no sum of scores comes near to: exp of the difference is 0. */
#define HIDDEN (-1e6)

enum { MASKS = 16, DEPTH = 48, STEPS = 2000 };

typedef enum MaskKind {
    MASK_shows, /* by a condition: the score is seen where it holds */
    MASK_hides, /* ... where it does not hold */
    MASK_adds,  /* added to the score: 0 where it is seen */
    MASK_times  /* what the score is multiplied by: 1 where it is seen */
} MaskKind;

typedef struct Mask {
    MaskKind kind;
    Value by;
    double factor; /* of the added value, in the scores */
} Mask;

typedef struct Match {
    const Module *m;
    Arena *tmp;
    Written *w;
    int masks;
    Mask mask[MASKS];
    double factor;  /* of what is looked at, in the scores */
    Value start_by; /* the condition of documents */
    unsigned turn;  /* of sums whose terms both may be the scores: which term is, by bits */
    int sums;       /* how many such sums there were */
    int *steps;     /* that may still be taken: sums of sums have many ways down */
} Match;

static inline const Ins *def_by(const Match *x, Value v, Op op)
{
    const Ins *i = x->m->values.data[v].def;
    return i && i->op == op ? i : NULL;
}

static inline bool has(const Match *x, Value v, Name d)
{
    return type_find(type_of(x->m, v), d) >= 0;
}

/* One more term of the bias; false: it is under a cap, or there are too many. */
bool add_bias(Match *x, Added a);

/* Are the masks that were found those of the operation, or a bias? Sets what is causal, the window,
 * and the first keys. */
bool written_mask(Match *x);

#endif
