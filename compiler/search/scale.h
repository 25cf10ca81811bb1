/* scale.h - the fastest layouts of more and more ranks; see scale.c. */
#ifndef MGC_SEARCH_SCALE_H
#define MGC_SEARCH_SCALE_H

#include "compiler/search/searching.h"

enum { RANKS = 1 << 20 }; /* of a search, at most */

typedef struct Scale {
    bool weak;             /* batches that grow with the ranks, too */
    double tokens, budget; /* to train on; hours of GPUs for them; 0: not given */
    const char *page;      /* where a page of it goes; NULL: nowhere */
} Scale;

/* The best layout of a number of ranks. */
typedef struct Size {
    int64_t ranks;
    bool found;
    Tried plan;
    double tokens; /* a second, of all ranks */
    double joules; /* a token, of all ranks; 0: the device does not say what it draws */
    const char *label, *text;
} Size;

typedef struct ScaleTable {
    bool weak;
    int64_t batch; /* of the first size, and of all in strong scaling */
    VEC(Size) sizes;
    int stops;       /* the size at which twice the ranks stop paying; -1: none */
    const char *why; /* ... and why, or that it pays up to the last; NULL: of no size */
} ScaleTable;

/* Searches from, 2 from, 4 from, ... ranks, up to `to`, and prints a table of them. */
Exit scale_run(Searching *q, const Scale *scale, int64_t from, int64_t to);
/* Three digits at most: "835", "42.6M", "10B"; letters as --tokens takes them. */
const char *scale_count(Arena *a, double n);
/* "12.3 days, 18,900 GPU hours, 13.2 MWh". joules: a token, or 0. */
const char *scale_hours(double tokens, double tokens_a_second, int64_t ranks, double joules,
                        Arena *a);
/* Joules that all ranks draw in a step; 0: unknown. While it waits for other ranks a device draws
 * idle_watts, else watts. */
double scale_joules(const Device *d, const Tried *plan, int64_t ranks);
double scale_efficiency(const ScaleTable *t, const Size *z); /* of the first that was found */
const Size *scale_first(const ScaleTable *t);                /* NULL: none was */

/* scale_page.c: tables as one page for a browser. */
void scale_page(const Searching *q, const Scale *scale, const ScaleTable *tables, int n, FILE *out);

#endif
