/* pipe_layout.h - see pipe_layout.c; private to passes/. */
#ifndef MGC_PASSES_PIPE_LAYOUT_H
#define MGC_PASSES_PIPE_LAYOUT_H

#include "ir/ir.h"
#include "pipeline/pipeline.h"

/* The layout's schedule for so many microbatches a step. NULL: there is none, told with those that
 * there are. */
const PipeTable *pipe_of_layout(const Module *m, int64_t microbatches);
/* *apart: does it have W apart from I somewhere? False: its table cannot be read, told. */
bool pipe_layout_splits_wgrad(const Module *m, bool *splits);

#endif
