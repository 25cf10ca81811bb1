/* shard_classes.h - see shard_classes.c; part of pass shard. */
#ifndef MGC_PASSES_SHARD_CLASSES_H
#define MGC_PASSES_SHARD_CLASSES_H

#include "ir/ir.h"

void shard_classes(Module *m, Fn *fn);

#endif
