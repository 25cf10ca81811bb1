/* order.h - in which order actions run, which run side by side, and when each begins. */
#ifndef MGC_PLAN_ORDER_H
#define MGC_PLAN_ORDER_H

#include "plan/plan.h"

/* lives.c: orders the actions of each program by their seconds, and sets when buffers are alive in
 * that order. After plan_rates. */
void plan_order(Plan *p);
/* The first and the last action of a program that touches each buffer, or the loop in which one
 * does; -1 and what was there before: none. Buffers may be alive for longer, so that what runs
 * beside the rest has room. */
void plan_touched(const Plan *p, const Program *g, int *first, int *last);
/* streams.c: what runs in a stream of its own, and who waits for it. After plan_place. */
void plan_streams(Plan *p);
/* In how many the step is; no fewer than the device has for what computes. */
int plan_stream_count(const Plan *p);
/* timeline.c: sets when each action begins, and how long each program takes. After plan_streams;
 * before, programs take as long as all their actions one after the other. */
void plan_timeline(Plan *p);
/* timeline.c: a pipeline's program with the times of the rank at `at` along the axis of stages,
 * which does its own actions alone outside of the table; the program's own times are those of the
 * slowest rank. Actions and loops are copied into a, all else is shared. After plan_timeline. */
Program plan_timeline_of_rank(const Plan *p, const Program *of, int at, Arena *a);
/* join.c: can the two of a pair of a program's table run beside each other? Then their loops over
 * layers, of F and of B. */
bool pipe_joins(const Plan *p, const Program *g, int loop[2]);
/* The phase of a pipeline's program that an action is of: 1 F, 2 B; 0: none. */
int pipe_joined(const Program *g, int action);
/* pipe_time.c: the pipeline of a step as stages and time; nothing where there is none. */
void plan_print_grid(const Plan *p, bool color, FILE *out);

#endif
