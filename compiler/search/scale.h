/* scale.h - the fastest layouts of more and more ranks; see scale.c. */
#ifndef MGC_SEARCH_SCALE_H
#define MGC_SEARCH_SCALE_H

#include "compiler/search/searching.h"

enum { RANKS = 1 << 20 }; /* of a search, at most */

typedef struct Scale {
    bool weak;             /* batches that grow with the ranks, too */
    double tokens, budget; /* to train on; hours of GPUs for them; 0: not given */
} Scale;

/* Searches from, 2 from, 4 from, ... ranks, up to `to`, and prints a table of them. */
Exit scale_run(Searching *q, const Scale *scale, int64_t from, int64_t to);
/* "2e12 tokens: 12.3 days, 18,900 GPU hours" */
const char *scale_hours(double tokens, double tokens_a_second, int64_t ranks, Arena *a);

#endif
