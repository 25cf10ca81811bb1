/* calibrate_rounds.h - what several runs of the same programs say together; see
 * calibrate_rounds.c. */
#ifndef MGC_CALIBRATE_ROUNDS_H
#define MGC_CALIBRATE_ROUNDS_H

#include "compiler/report/trace_report.h"

/* Rounds that a machine is measured in; more of them where they differ, fewer where they are long.
 */
enum { CALIBRATE_LEAST_ROUNDS = 3, CALIBRATE_ROUNDS = 5, CALIBRATE_MOST_ROUNDS = 9 };

/* Does round k of n count, or did it take much longer than the others? seconds of each round. */
bool calibrate_counts(const double *seconds, int n, int k);

/* Of n runs of one program (n > 0) the one in which each action took the mean of the rounds that
 * count; kinds are the sums of their actions. In `a`. */
Report calibrate_typical(Arena *a, const Report *run, const double *seconds, int n);

/* How much longer the rounds of the slow half took than those of the fast one: the ratio of the
 * medians of both halves, 1 where all took as long. n > 1; seconds of each round. */
double calibrate_scatter(const double *seconds, int n);

/* Is that little enough, or were there rounds enough? */
bool calibrate_settled(const double *seconds, int n);

#endif
