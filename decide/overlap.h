/* overlap.h - see overlap.c. */
#ifndef MGC_DECIDE_OVERLAP_H
#define MGC_DECIDE_OVERLAP_H

#include "plan/plan.h"

/* Sets Layout.overlap, .bucket, .ahead and .send_flops of a module that is as it is before pass
 * prefetch_gathers: as the fastest plan has them that fits. Nothing where a device has one stream,
 * or the mesh one rank. Where a is given the module behind pass fuse with what was chosen is
 * returned, in a: it was planned. NULL: it was not. */
Module *overlap_choose(Module *m, const Device *d, Arena *a);

/* Bytes from which on a message is worth being one by itself. */
int64_t message_least(const Device *d);

#endif
