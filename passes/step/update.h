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
    Value step;       /* i64, 0 where no rule asked for it */
    Value time;       /* step + 1, f64; likewise */
    void *rules;      /* what Module.update_rule keeps from one parameter to the next */
} Update;

/* The number of this step from 1, as f64. */
Value up_time(Update *u);
/* A slot of optimizer state for parameter `of`: its argument. `lacks`, if not NULL: dims of the
 * parameter that it does not have. */
Value up_state(Update *u, uint32_t of, const StateInfo *s, const DimList *lacks, uint32_t *tensor);
/* The new value of a parameter or a slot. */
void up_new_value(Update *u, uint32_t tensor, Value v);

/* optimizers.c: the update of one parameter by its gradient; false: its rule cannot be written. */
bool optimizer_update(Update *u, uint32_t tensor, Value p, Value g);

#endif
