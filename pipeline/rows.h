/* rows.h - how rows of tables are made: private to pipeline/. */
#ifndef MGC_PIPELINE_ROWS_H
#define MGC_PIPELINE_ROWS_H

#include "pipeline/pipeline.h"

/* The row of a rank, as far as it is made. */
typedef struct Row {
    Arena *arena;
    PipeRow *row;
} Row;

static inline void row_act(Row r, PipeKind kind, int stage, int microbatch)
{
    vec_push(r.arena, r.row, (PipeAction){kind, stage, microbatch, 0, false});
}

/* table_v.c: those of a V, of a form that is legal. */
void row_zb_v(Row r, const PipeForm *f, int rank);
void row_dualpipe_v(Row r, const PipeForm *f, int rank);

#endif
