/* offload_search.h - the search for what is offloaded: private to offload*.c. */
#ifndef MGC_DECIDE_OFFLOAD_SEARCH_H
#define MGC_DECIDE_OFFLOAD_SEARCH_H

#include "decide/frontier.h"
#include "decide/offload.h"

enum {
    STATE = 1 << OFFLOAD_state,
    MASTERS = 1 << OFFLOAD_masters,
    PARAMETERS = 1 << OFFLOAD_parameters,
    GRADIENTS = 1 << OFFLOAD_gradients,
    KEPT = 1 << OFFLOAD_kept
};

/* Sets of classes that are tried (offload_ways.c), and sets of those that leave for the level below
 * the nearest. */
enum {
    CLASSES = 8,
    LOWER = 4,
    WAYS = CLASSES * (LOWER - 1) /* listed at once: those of the nearest level, or all others */
};

typedef struct Way {
    Level level[OFFLOAD_count];
} Way;

typedef struct Tried {
    bool fits;
    double seconds, again;
    double least; /* seconds where layers keep no more than their input; 0: that was not tried */
    double gain_of_room, gain_of_all; /* as KeepAsk has them */
    int64_t always; /* bytes that no way to recompute changes: parameters, state and gradients */
    int64_t of[OFFLOAD_count];  /* of those, of each class; what is kept is not counted */
    int64_t bytes[LEVEL_count]; /* on each level */
    bool planned;
    bool hopeless; /* what is always there does not fit; no more was planned */
} Tried;

/* Bytes that a way needs which does not fit: on each level, at least. */
typedef struct Needs {
    bool any;
    int64_t of[LEVEL_count];
} Needs;

/* A way on the nearest level, and how it came out. */
typedef struct Known {
    unsigned which;
    Tried t;
} Known;

/* A way of which it is not known what it needs. */
typedef struct Hopeless {
    unsigned which;
    Way way;
} Hopeless;

/* A way whose layers are priced while another is planned. */
typedef struct Begun {
    int n; /* its number */
    Arena *a;
    Module *m; /* with it, in a */
    Frontier *prices;
} Begun;

/* The ways that are tried, in order. */
typedef struct Search {
    const Module *m;
    const Device *d;
    int n;
    unsigned which[WAYS];
    Way way[WAYS];
    Tried least[WAYS]; /* where layers keep no more than their input, of those where that leaves */
    bool measured;     /* these are planned, ... */
    int number[WAYS];  /* ... of ways with these numbers */
    int nknown;
    Known known[CLASSES]; /* those that fit on the nearest level */
    int nfit;
    unsigned fit[CLASSES]; /* those that fit there, and would not be faster with more room */
    int nhopeless;
    Hopeless hopeless[CLASSES * LOWER]; /* those that have no room for what stays on the device */
    Frontier *prices;  /* of repeats, where no class leaves that they read; NULL: none yet */
    int at;            /* the way that is tried, ... */
    const Tried *best; /* ... and the best before it */
    Begun begun;       /* a: NULL: none is */
    Level to, below;   /* the nearest level, and the one below it; LEVEL_device: there is none */
    Needs nearest;     /* of all ways: the one that lacks least */
} Search;

/* Bytes that there are of a level. */
int64_t ways_room(const Search *s, int l);
/* Bytes that a way lacks. */
int64_t ways_lacks(const Search *s, const Needs *n);
/* A way that does not fit: is it nearer than all before? */
void ways_note_needs(Search *s, Needs n);
void ways_note_hopeless(Search *s, unsigned which, const Way *w);
/* Lists the ways that may fit, each once: a class that has no bytes is in none. All on the nearest
 * level, or (from 1 on) some of it on the one below. */
void ways_list(Search *s, const Tried *nothing, int from, int end);

#endif
