/* goals.h - rates of learning (lr.c), and the losses beside the first: program->goals[k] (goals.c).
 */
#ifndef MG_RUNTIME_GOALS_H
#define MG_RUNTIME_GOALS_H

#include "runtime/abi.h"

double rt_lr(const mg_lr *lr, int64_t step);
double rt_goal_rate(const mg_run *r, int k, int64_t step);
void rt_goals_fill(mg_run *r, int64_t step); /* the rates of a step */
/* The guard's numbers, of all losses together: their sum, and the norm of all gradients (NAN: the
 * program has none). */
double rt_goals_loss(const mg_run *r);
double rt_goals_norm(const mg_run *r);
typedef struct rt_goal_report {
    double loss, norm, lr;
} rt_goal_report;
rt_goal_report rt_goal_observe(const mg_run *r, int k, int64_t step); /* of the last step */

#endif
