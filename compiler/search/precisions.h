/* precisions.h - `--precisions bf16,fp8` of mgc search: one of several is sought, too. */
#ifndef MGC_SEARCH_PRECISIONS_H
#define MGC_SEARCH_PRECISIONS_H

#include "compiler/search/searching.h"

enum { PRECISIONS = 8 }; /* more than there are */

typedef struct Precisions {
    int n; /* 0 or 1: as the option says, or the file */
    const char *name[PRECISIONS];
    const char *told; /* set by precisions_run: what was found in each; NULL: there is one alone */
} Precisions;

/* Reads the option: names that --precision takes, each once. */
Exit precisions_read(Session *s, Precisions *p);
/* Reads the line `precision bf16, fp8` of `layout auto`; --precision chooses one of them. What is
 * no precision is left out, and refused where the file is elaborated. */
Exit precisions_allowed(Session *s, const Ast *ast, const Node *layout, Precisions *p);
/* Searches in each: the fastest of them is *r, of *chosen. q is begun with the first; without any
 * it is the only one. */
Exit precisions_run(Searching *q, Precisions *p, int64_t ranks, Searching **chosen, Search *r);

#endif
