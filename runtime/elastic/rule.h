/* rule.h - whether, and when, a program that has ended is started again. */
#ifndef MG_ELASTIC_RULE_H
#define MG_ELASTIC_RULE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum rt_outcome {
    RT_ENDED_WELL,    /* all steps are done */
    RT_ENDED_STOPPED, /* it saved and stopped, as it was told to */
    RT_ENDED_LOST,    /* a process, a device or the file system failed: a restart may help */
    RT_ENDED_CORRUPT, /* --health found wrong bits: a restart from before them may help */
    RT_ENDED_TO_GROW, /* saved, and ended because there can be more ranks now */
    RT_ENDED_FOR_GOOD /* a restart meets the same error: wrong usage or data, a loss that is not
                         finite, a machine that does not fit */
} rt_outcome;

rt_outcome rt_outcome_of(int code, bool by_signal);

/* After so many ends in a row at the same step the cause is taken to be in the run. */
enum { RT_SAME_STEP = 3, RT_WAIT_MAX = 60 };

typedef struct rt_rule {
    int most;     /* --max-restarts */
    int restarts; /* so far, in all */
    int same;     /* ends in a row at the step `died`, */
    int futile;   /* ... and that came no further than the one before */
    int64_t died;
} rt_rule;

typedef enum rt_ruling { RT_RESTART, RT_TOO_MANY, RT_TOO_OFTEN_HERE } rt_ruling;

/* The program ended after `died` steps, or at an unknown one (-1), and a restart may help. If it
 * is to be started again, counts that, and *wait is for how many seconds to wait before: 0, and 1,
 * 2, 4, ... while it comes no further. */
rt_ruling rt_rule_next(rt_rule *r, int64_t died, int *wait);

#endif
