/* rows.h - what two plans say of the same things, row by row: what the text and the page show. */
#ifndef MGC_ROWS_H
#define MGC_ROWS_H

#include "base/arena.h"
#include "compiler/diff/sides.h"

/* One thing. The texts are in the arena; `by` is how B is beside A, "" where they are the same. */
typedef struct DiffRow {
    const char *name, *a, *b, *by;
    bool differs;
    double weight; /* how large a difference is: the part of A's step, or of its memory; 0: neither
                      time nor bytes */
    bool part;     /* of a row before it, whose weight has it */
} DiffRow;

typedef struct DiffPart {
    const char *title;
    VEC(DiffRow) rows;
} DiffPart;

/* A rank of A's pipeline beside one of B's, as "pp 1 to 6"; "" where neither has one. */
typedef struct DiffStage {
    const char *name;
    int rank[2];
    const json_t *row[2]; /* of `timeline.ranks`; NULL: no pipeline */
} DiffStage;

enum { DIFF_PARTS = 8 };
typedef struct Diff {
    Arena *a;
    Side side[2];
    DiffPart part[DIFF_PARTS];
    VEC(DiffStage) stages; /* one at least */
    const char *verdict;   /* "B takes 388 ms a step, 24 ms (5.8%) less than A; ..." */
} Diff;

/* Both sides have plans that plan_file_wrong finds nothing wrong with. */
void diff_rows(Diff *d);
/* stages.c: fills d->stages. */
void diff_stages(Diff *d);

#endif
