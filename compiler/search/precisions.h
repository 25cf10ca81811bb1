/* precisions.h - `--precisions bf16,fp8` of mgc search: one of several is sought, too. */
#ifndef MGC_SEARCH_PRECISIONS_H
#define MGC_SEARCH_PRECISIONS_H

#include "compiler/search/searching.h"

enum { PRECISIONS = 8 }; /* more than there are */

typedef struct Precisions {
    int n; /* 0 or 1: as the option says, or the file */
    const char *name[PRECISIONS];
} Precisions;

/* Reads the option: names that --precision takes, each once. */
Exit precisions_read(Session *s, Precisions *p);
/* Searches in each, and tells what was found on standard output: the fastest of them is *r, of
 * *chosen. q is begun with the first; without any it is the only one. */
Exit precisions_run(Searching *q, const Precisions *p, int64_t ranks, Searching **chosen,
                    Search *r);

#endif
