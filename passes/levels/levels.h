/* levels.h - the parts of pass levels: which values lie on another level of memory, and what brings
 * them to the device and back. */
#ifndef MGC_PASSES_LEVELS_H
#define MGC_PASSES_LEVELS_H

#include "ir/ir.h"

/* levels.c: the class that a tensor is offloaded with; OFFLOAD_count: with none. */
OffloadClass levels_class(const Tensor *t);

/* stored.c: types say on which level the values of a function are stored, as Layout.offload has it:
 * arguments, what loops over layers stack, and what goes round the loop over microbatches. The
 * program is not legal until levels_transfer has run. */
void levels_mark(Module *m, Fn *fn, Arena *tmp);

/* transfer.c: nothing computes on another level any more: operands are transferred to the device,
 * results to their level; what is as large as all layers is computed a piece at a time (cut.c). */
void levels_transfer(Module *m, Fn *fn, Arena *tmp);

/* The dims that loops over layers run over, and tensors are stacked along. */
DimList levels_depth(const Module *m);
/* Is a value stacked along one, which is its first? */
bool levels_stacked(const DimList *depth, const Type *t);

/* A value on level `to`: itself, or what a transfer at the builder's end gives. */
Value levels_bring(Builder *b, Value v, Level to);

/* The window along an inner dim that a value is, if its bytes have gaps where they lie: no transfer
 * takes those. apart: a dim of which each position is transferred by itself; 0: none. NULL: it has
 * no gaps. */
const Ins *levels_gaps(const Module *m, Value v, Name apart);

/* host.c: has a module kernels that update what is on the host, and of which less would be
 * transferred if they ran there? */
bool levels_update_on_host(Module *m, Arena *tmp);

/* cut.c: instructions of a region that are done a piece at a time. `level` is per result of the
 * region; `use` is given every other instruction, in order, and has to append it to the region. */
typedef struct LevelUse {
    void *ctx;
    void (*rest)(void *ctx, Region *r, Ins *i);
} LevelUse;
void levels_cut(Module *m, Region *r, const Level *level, bool windows, const DimList *depth,
                const LevelUse *use, Arena *tmp);

#endif
