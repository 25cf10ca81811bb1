/* halves.h - storage in bf16 or f16 beside arithmetic in f32; part of the pass precision. */
#ifndef MGC_PASSES_HALVES_H
#define MGC_PASSES_HALVES_H

#include "ir/ir.h"

/* Rounds what products read and give, and what is kept, in all functions of m, to m->train.half. */
void halves_module(Module *m, Arena *tmp);

/* Caches that are read in halves alone are kept in them. */
void halved_caches(Module *m, Arena *tmp);

#endif
