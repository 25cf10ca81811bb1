/* slow.h - which rank the others wait for.
 *
 * The own time of a rank is the time of its steps without its waits for others. Ranks of one stage
 * of a pipeline do the same work, and their own times are compared: a rank is slow if its own time
 * is above their median by more than a quarter of it, and by more than 6 times 1.4826 times the
 * median of their distances from the median (for a normal distribution: 6 standard deviations). Of
 * two ranks the median is the faster one. A stage of one rank is compared with the median of its
 * last 8 windows, and is slow above 1.5 times that. A window has at least 20 steps; on GPUs it is a
 * check, whose second run is measured action by action. A rank is named if it was slow in two
 * windows in a row. */
#ifndef MG_SLOW_H
#define MG_SLOW_H

#include "runtime/health/health.h"

enum { RT_SLOW_STEPS = 20, RT_SLOW_RUNS = 1, RT_SLOW_PAST = 8 };

typedef struct rt_slow {
    double worked[MG_RANKS_MAX], waited[MG_RANKS_MAX]; /* ns, in this window */
    int64_t steps;
    bool before[MG_RANKS_MAX];               /* it was slow in the window before */
    double past[MG_RANKS_MAX][RT_SLOW_PAST]; /* own ns of a step, in windows before: a ring */
    int64_t windows;
} rt_slow;

rt_slow *rt_slow_new(void);
void rt_slow_add(rt_slow *s, const rt_health_report *all, int n);
/* Names slow ranks, if a window is over. */
void rt_slow_check(mg_run *r);
/* The median of n numbers, of two in the middle the smaller one; they are sorted. */
double rt_lower_median(double *x, int n);
/* How much time ranks of the same work would have: what one has above that is too much. n >= 2; own
 * is sorted. */
double rt_slow_limit(double *own, int n, double *median);

#endif
