/* frontier_open.h - the options of repeats, priced: private to frontier.c and frontier_print.c. */
#ifndef MGC_DECIDE_FRONTIER_OPEN_H
#define MGC_DECIDE_FRONTIER_OPEN_H

#include "decide/frontier.h"

struct Frontier {
    Arena *a;
    const Module *m; /* before pass recompute */
    const Device *d;
    int loops;
    const Ins *loop[KEEP_LOOPS];
    KeepOption option[KEEP_LOOPS][KEEP_OPTIONS];
    int options[KEEP_LOOPS];
    KeepKind kind[KEEP_LOOPS][KEEP_KINDS];
    KeepProblem problem;
    int64_t outside;
    bool offloads;          /* what is kept lies on another level */
    int64_t room;           /* bytes there, beside what else is offloaded */
    double fastest;         /* seconds of a step whose repeats all take their fastest option */
    struct Question *first; /* prices of the first repeat, asked for already; NULL: they are not */
};

/* The fastest choice within a limit: bytes beside what is persistent. False: none fits. */
bool frontier_within(Frontier *f, int64_t limit, KeepChoice *c);
/* The choice with the least memory, to a thousandth of it, or a byte; false: none fits in so many
 * bytes. */
bool frontier_least(Frontier *f, int64_t enough, KeepChoice *c);

#endif
