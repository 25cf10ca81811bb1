/* search.h - the fastest layout of so many ranks; see search.c. */
#ifndef MGC_SEARCH_SEARCH_H
#define MGC_SEARCH_SEARCH_H

#include <stdio.h>

#include "search/try.h"

typedef enum CandidateState {
    CANDIDATE_open,    /* nothing is known but bounds and the estimate */
    CANDIDATE_large,   /* what lasts from step to step has no room */
    CANDIDATE_slow,    /* its bound is above the step of a layout that was planned */
    CANDIDATE_refused, /* by the compiler: .code */
    CANDIDATE_failed,  /* mgc itself failed on it: .why */
    CANDIDATE_rough,   /* it has a rough plan */
    CANDIDATE_full,    /* its quick plan does not fit */
    CANDIDATE_quick,   /* it has a quick plan, which fits */
    CANDIDATE_whole,   /* it has a whole plan, which fits */
    CANDIDATE_lost,    /* its quick plan fits, its whole plan does not */
    CANDIDATE_count
} CandidateState;

typedef struct Candidate {
    Point point;
    CandidateState state;
    int code;
    const char *why;        /* NULL: it did not */
    double bound, estimate; /* seconds */
    double expected; /* the estimate, corrected by plans of its like, or what its best plan says */
    Tried tried[TRY_count];
} Candidate;

typedef struct Search {
    /* Given. */
    Arena *arena;
    Space *space;
    const Basis *basis;
    SearchElaborate *elaborate;
    void *ctx;
    int64_t ranks;
    bool exhaustive; /* every layout has a whole plan, unless it is refused or too large */
    bool thorough;   /* every one a rough plan, and all that are near the fastest the better ones */
    bool levels;     /* at its end the most promising that lack memory, with `offload auto` */
    bool offload;    /* of layouts with `offload auto` */
    /* Called after each round; NULL: nobody. `left`: seconds, about. */
    void (*progress)(const struct Search *s, double left, bool better);

    /* Found. The best is the fastest of those with a whole plan; equally fast ones in the order of
     * points. */
    VEC(Candidate) all;
    int best;   /* -1: none */
    int around; /* the best whose neighbours are planned; -1: none yet */
    int count[CANDIDATE_count];
    int plans[TRY_count];
    bool offloaded; /* layouts with `offload auto` were added */
    bool stopped;   /* search_stop() was called before the end */
    double spent;   /* seconds */
} Search;

/* Searches. What is found depends on nothing but the input, unless it is stopped. */
void search_run(Search *s);
/* Ends a search as soon as what is being planned is planned. From a handler of a signal. */
void search_stop(void);
/* Was it? */
bool search_was_stopped(void);

/* The plan of a candidate that counts: its whole one, else its quick one. NULL: none that fits. */
const Tried *candidate_plan(const Candidate *c);

/* ---- show.c: for people -----------------------------------------------------------------------
 */

/* All that was found. name: of the layout; device: in its text, or NULL. */
void search_show(const Search *s, const char *name, const char *device, FILE *out);
/* Candidates that are no other's better in both memory and time, the least memory first. */
typedef VEC(int) Front;
void search_front(const Search *s, Front *front);
/* The fastest of the others, each with why it is slower; at most n. */
void search_others(const Search *s, size_t n, Front *others);
const char *search_why(const Search *s, const Candidate *c, Arena *a);
/* "of 1843 layouts 212 are refused, ..." */
const char *search_counts(const Search *s, Arena *a);
/* On how many layouts mgc itself failed, and how on the first; nothing if on none. */
void search_failed(const Search *s, FILE *out);
/* A line for each candidate, with tabs: what is known of it. */
void search_points(const Search *s, FILE *out);

/* page.c: the same as one page for a browser. model: its name. */
void search_page(const Search *s, const char *model, const char *name, const char *device,
                 FILE *out);

#endif
