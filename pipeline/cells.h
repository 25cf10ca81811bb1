/* cells.h - where in the rows an action stands: private to pipeline/. */
#ifndef MGC_PASSES_PIPELINE_CELLS_H
#define MGC_PASSES_PIPELINE_CELLS_H

#include "pipeline/pipeline.h"

/* 1 + the index in the row of its rank, by kind and cell; 0: it is not there. Of actions that stand
 * there twice, the first. */
typedef struct Cells {
    uint32_t *at[PIPE_KINDS];
} Cells;

static inline uint32_t cells_find(const PipeTable *t, const Cells *c, PipeAction a)
{
    return c->at[a.kind][pipe_cell(t, a.stage, a.microbatch)];
}

/* B where it is there, else I. */
static inline PipeAction cells_backward(const PipeTable *t, const Cells *c, int stage,
                                        int microbatch)
{
    PipeAction b = {PIPE_B, stage, microbatch, 0, false};
    if (!cells_find(t, c, b))
        b.kind = PIPE_I;
    return b;
}

/* Room for all, nothing entered. */
Cells *cells_new(Arena *a, const PipeTable *t);
void cells_enter(const PipeTable *t, Cells *c, PipeAction a, size_t index);
/* All actions of the rows, each of a stage and a microbatch of the table. */
Cells *cells_of(Arena *a, const PipeTable *t);

#endif
