/* stats.h - what the programs of a run are made of, and how they end. */
#ifndef MGC_TESTS_PROGRAMS_STATS_H
#define MGC_TESTS_PROGRAMS_STATS_H

#include "tests/programs/try.h"

enum { CODES = 1000, WORDS = 200 };

typedef struct Stats {
    int outcome[2][TRY_count]; /* as drawn, and changed */
    int code[2][CODES];
    int said[WORDS], accepted[WORDS], planned[WORDS]; /* per word of the language */
    int loss, gradients, plan, padded, generated, apart, not_finite, ranks;
} Stats;

void stats_add(Stats *s, const char *text, bool changed, const Tried *t);
void stats_table(const Stats *s);
void stats_summary(const Stats *s);
/* Enough programs were accepted, and compared, for their agreement to say something. */
bool stats_show_something(const Stats *s, int count);

#endif
