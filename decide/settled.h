/* settled.h - whole ways, and what the decisions of one found, for whoever goes it again.
 *
 *   whole.c    ways from behind a decision to the end, with all later ones
 *   settled.c  what these find, noted and taken
 *
 * A decision that compares whole ways (plan_onward) has every later decision made on each of them.
 * Behind the way that it takes, the same decisions stand before the same modules, and would find
 * the same by the same plans. So they are noted, and taken from the notes. */
#ifndef MGC_DECIDE_SETTLED_H
#define MGC_DECIDE_SETTLED_H

#include <stdio.h>

#include "decide/make.h"

struct Settled {
    unsigned rows; /* bit per StepId: the decisions that are noted */
    Layout as;     /* the fields of those, as each left them; no other is set */
    size_t values; /* of the module whose values `as.plan` tells of */
};

/* Notes what a decision has left in a module's layout, copied to a. Decisions that no whole way
 * makes are not noted. */
void settled_note(Settled *s, StepId row, const Module *m, Arena *a);
/* Leaves in a module's layout what is noted of a decision. False: nothing is. */
bool settled_take(const Settled *s, StepId row, Module *m);
/* For a module whose way this is: what offload and all behind it found is forgotten where the
 * layout says nothing of it and something leaves the device, for that has to be told. */
void settled_untold(Settled *s, const Module *m);

/* As bytes, for a process that found it to hand back. */
void settled_write(FILE *out, const Settled *s);
/* Reads it back into a; NULL: the bytes are no such thing. */
Settled *settled_read(const char *bytes, size_t n, Arena *a);
/* A copy in a. NULL: there was no memory for it. */
Settled *settled_copy(const Settled *s, Arena *a);

/* ---- whole.c --------------------------------------------------------------------------------- */

/* A way, as plan_onward says it. */
typedef struct WholeWay {
    double seconds;   /* of a step; INFINITY: it does not fit */
    Settled *settled; /* NULL: it does not fit */
} WholeWay;

/* Goes n ways at once, of a module behind decision `after` with each of these layouts, by as many
 * processes as there are processors. The results are in a. */
void whole_ways(const Module *m, const Device *d, const char *after, const Layout *as, int n,
                Arena *a, WholeWay *way);

#endif
