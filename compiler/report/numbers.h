/* numbers.h - the three numbers that a plan is judged by, each with how sure it is. */
#ifndef MGC_NUMBERS_H
#define MGC_NUMBERS_H

#include <jansson.h>

#include "plan/plan.h"

/* How sure a predicted time is: a word ("measured": by numbers that were measured on the device;
 * "calibrated": on steps of others, or elsewhere; "guessed") and a sentence that says why. */
typedef struct Sure {
    const char *word, *why;
} Sure;
Sure sure_time(const Plan *p, Arena *a);

/* The time of a step, the peak of memory, and the share of the device's arithmetic: a list of
 * {name, value, more, sure, why}, all texts. */
json_t *numbers_json(const Plan *p, Arena *a);

#endif
