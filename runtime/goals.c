/* goals.c - the losses beside the first: their rates, and what a step made of them. */
#include "runtime/run.h"

#include <math.h>
#include <stdlib.h>

double rt_goal_rate(const mg_run *r, int k, int64_t step)
{
    mg_lr lr = r->program->goals[k].lr;
    if (r->state.steps != RT_UNSET)
        lr.steps = r->state.steps;
    if (!isnan(r->state.lr)) { /* --lr is of the first loss: the others keep their shares of it */
        lr.peak *= r->state.lr / r->program->lr.peak;
        lr.floor *= r->state.lr / r->program->lr.peak;
    }
    return rt_lr(&lr, step);
}

void rt_goals_fill(mg_run *r, int64_t step)
{
    for (int k = 0; k < r->program->ngoals; k++) {
        const double rate = rt_goal_rate(r, k, step);
        if (r->program->goals[k].rate >= 0)
            rt_put(r, r->program->goals[k].rate, &rate, sizeof rate);
    }
}

double rt_goals_loss(const mg_run *r)
{
    double sum = rt_get_f64(r, r->program->step.loss);
    for (int k = 0; k < r->program->ngoals; k++)
        sum += rt_get_f64(r, r->program->goals[k].loss);
    return sum;
}

double rt_goals_norm(const mg_run *r)
{
    const mg_program *p = r->program;
    if (p->step.norm < 0)
        return NAN;
    const double norm = rt_get_f64(r, p->step.norm);
    double squares = norm * norm;
    for (int k = 0; k < p->ngoals; k++) {
        const double one = rt_get_f64(r, p->goals[k].norm);
        squares += one * one;
    }
    return p->ngoals ? sqrt(squares) : norm;
}

rt_goal_report rt_goal_observe(const mg_run *r, int k, int64_t step)
{
    const mg_goal *g = &r->program->goals[k];
    return (rt_goal_report){rt_get_f64(r, g->loss), rt_get_f64(r, g->norm),
                            rt_goal_rate(r, k, step)};
}
