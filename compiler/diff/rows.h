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

enum { DIFF_PARTS = 7 };
typedef struct Diff {
    Arena *a;
    Side side[2];
    DiffPart part[DIFF_PARTS];
    const char *verdict; /* "B takes 388 ms a step, 24 ms (5.8%) less than A; ..." */
} Diff;

/* Both sides have plans that plan_file_wrong finds nothing wrong with. */
void diff_rows(Diff *d);

#endif
