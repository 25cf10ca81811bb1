/* show.h - a plan as text. */
#ifndef MGC_PLAN_SHOW_H
#define MGC_PLAN_SHOW_H

#include "plan/plan.h"

const char *plan_owner(Owner o);                /* "activations" */
void plan_print(const Plan *p, FILE *out);      /* --plan */
void plan_print_json(const Plan *p, FILE *out); /* --plan=json, fields as in docs/plan.md */
void plan_print_schedule(const Plan *p, FILE *out);
void plan_print_layout(const Plan *p, FILE *out); /* what ranks send, and what each has */
void plan_print_memory(const Plan *p, FILE *out); /* --memory, MiniMalloc's columns */

/* show_tensors.c: dims of a tensor that are split on an axis, and by which rule; at most MAX_AXES,
 * how many. */
typedef struct TensorSplit {
    Name dim, axis;
    bool zigzag;
    const LayoutRule *rule;
} TensorSplit;
int tensor_splits(const Module *m, const Tensor *t, TensorSplit *out);
const char *split_rule(const Module *m, const TensorSplit *s); /* "kv_heads", "state" */
void plan_print_tensors(const Plan *p, FILE *out);             /* nothing where there is one rank */

#endif
