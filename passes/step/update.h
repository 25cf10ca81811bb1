/* update.h - building the update of one parameter: shared by update.c and optimizers.c. */
#ifndef MGC_PASSES_UPDATE_H
#define MGC_PASSES_UPDATE_H

#include "ir/optimizers.h"
#include "passes/passes.h"

typedef struct Update {
    Module *m;
    Fn *fn;
    Builder b;
    const Goal *goal; /* the one whose parameters are dealt with, and its */
    Value lr;         /* f64 */
    Value clip;       /* f64, on gradients; 0: none */
    Value step;       /* i64, 0 where no rule asked for it */
    Value time;       /* step + 1, f64; likewise */
    void *rules;      /* what Module.update_rule keeps from one parameter to the next */
    Value *now;       /* per parameter: its new value, or 0 */
    size_t parameters;
    /* The last beta that was written out (Tensor.beta): its formula, and it and 1 - it in f64. */
    Name beta;
    int64_t every;
    Value keeps, takes;
} Update;

/* The number of this step from 1, as f64. */
Value up_time(Update *u);
/* A slot of optimizer state for parameter `of`: its argument. `lacks`, if not NULL: dims of the
 * parameter that it does not have. */
Value up_state(Update *u, uint32_t of, const StateInfo *s, const DimList *lacks, uint32_t *tensor);
/* The new value of a parameter or a slot. */
void up_new_value(Update *u, uint32_t tensor, Value v);
/* The same of a value that has the tensor's type, and is finite where it has to be. */
void up_give(Update *u, uint32_t tensor, Value v);
/* v, or where updates do not wait for each other: of each element the new value if it is finite,
 * else the old one. */
Value up_finite(Update *u, Value v, Value old);

/* A gradient times the factor of clipping, which is rounded to its dtype first. */
Value up_clipped(Update *u, Value g);

/* As it was before the step. */
Value up_old_value(Update *u, uint32_t tensor);
/* Messages and dumps about what is built next are about this tensor. */
void up_mark(Update *u, uint32_t tensor);

/* follow.c: averages of what was trained, as the goals say; then the new values of all that follows
 * another tensor. */
void follow_updates(Update *u);

/* optimizers.c: the update of one parameter by its gradient, before clipping; false: its rule
 * cannot be written. */
bool optimizer_update(Update *u, uint32_t tensor, Value p, Value g);

#endif
