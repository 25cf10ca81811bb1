/* update.h - building the update of one parameter: shared by update.c and optimizers.c. */
#ifndef MGC_PASSES_UPDATE_H
#define MGC_PASSES_UPDATE_H

#include "passes/passes.h"

typedef struct Update {
    Module *m;
    Fn *fn;
    Builder b;
    Value norm, clip;  /* clip: f64 factor on gradients, 0 if there is none */
    Value lr, step;    /* lr: f64; step: i64, 0 where no optimizer asked for it */
    Value rate, root2; /* adam, adamw, muon: lr / (1 - beta1^t), sqrt(1 - beta2^t), f64 */
    Value keep;        /* adafactor: beta2 of this step, f64 */
} Update;

/* Numbers are f64; a tensor times one rounds it to the tensor's dtype first. */
Value up_number(Update *u, double x);
Value up1(Update *u, Op op, Value x);
Value up2(Update *u, Op op, Value x, Value y);
Value up_scaled(Update *u, Value x, Value by);
Value up_scaled_by(Update *u, Value x, double by);

/* The number of this step from 1, as f64. */
Value up_time(Update *u);
/* A slot of optimizer state for parameter `of`, zero at first: its argument. `lacks`, if not NULL:
 * dims of the parameter that it does not have. */
Value up_state(Update *u, uint32_t of, const char *slot, const DimList *lacks, uint32_t *tensor);
/* The new value of a parameter or a slot. */
void up_new_value(Update *u, uint32_t tensor, Value v);

/* optimizers.c: what is one number for all parameters; then the update of one by its gradient. */
void optimizer_prepare(Update *u);
void optimizer_update(Update *u, uint32_t tensor, Value p, Value g);

#endif
