/* shard_halo.h - see shard_halo.c; part of pass shard. */
#ifndef MGC_PASSES_SHARD_HALO_H
#define MGC_PASSES_SHARD_HALO_H

#include "ir/ir.h"

void shard_halo(Module *m, Fn *fn, Arena *tmp);

#endif
