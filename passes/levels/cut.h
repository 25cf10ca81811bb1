/* cut.h - private to cut.c and cut_groups.c: what of a region is cut, and what it becomes. */
#ifndef MGC_PASSES_CUT_H
#define MGC_PASSES_CUT_H

#include "passes/levels/levels.h"

/* Instructions that are cut together. */
typedef struct Group {
    Dim dim;
    bool stacked; /* by a repeat: cut in iterations; else in windows */
    int stage;
    int64_t bytes; /* of the largest source */
    bool done;
} Group;

/* A value that is computed in pieces, as it is stored, per level. */
typedef struct Whole {
    bool wanted[LEVEL_count];
    Value value[LEVEL_count];
    VEC(Value) parts[LEVEL_count]; /* windows, until they are joined */
} Whole;

typedef struct Cut {
    Module *m;
    Region *r;
    Region was; /* its instructions */
    const Level *level;
    bool windows;
    const DimList *depth;
    const LevelUse *use;
    Arena *tmp;
    size_t nvalues; /* that there were before */
    VEC(Group) groups;
    uint32_t *of; /* per value: 1 + the group that computes it; 0: none does */
    int *stage;   /* per value that none does: the first stage that may read it */
    Whole **whole;
    bool *emitted;      /* per instruction, by position */
    uint32_t *position; /* per value: 1 + its instruction's; 0: it is of no instruction here */
} Cut;

/* cut_groups.c: which instructions are cut, with which others, and what of their results is stored
 * whole. */
void cut_groups(Cut *c);
/* Has v the dim, in this size? */
bool cut_has_dim(const Module *m, Value v, Dim d);
/* Is v a value of another level that is cut? */
bool cut_is_source(const Cut *c, Value v);
/* Is v, which a group computes, computed again in group g of a later stage? */
bool cut_is_again(const Cut *c, Value v, uint32_t g);

#endif
