/* recompute.h - what the backward part of repeats may keep.
 *
 *   recompute.c         the pass: marks, ranges, segments
 *   remat_candidates.c  the options of a repeat's iterations that are worth a price, by estimate
 *
 * Planning them decides which option is best for a given memory: decide/frontier.h. */
#ifndef MGC_PASSES_RECOMPUTE_H
#define MGC_PASSES_RECOMPUTE_H

#include "base/device.h"
#include "ir/ir.h"

/* The name of an instruction for people: a product has its parameter's, others their value's. */
const char *ins_called(const Module *m, const Ins *i);

/* ---- remat_candidates.c
 * ------------------------------------------------------------------------------- */

/* One way to treat each iteration of a repeat. */
typedef struct KeepOption {
    bool *keep;        /* per value of the module */
    const char *names; /* of what is kept: "q k v attention gate up" */
} KeepOption;

enum { KEEP_LOOPS = 8, KEEP_OPTIONS = 12 };

/* The options of outermost repeat number `loop` of @train, as it is before recompute.c: those that
 * no other one beats in bytes and estimated seconds, the fewest bytes first, and at last the
 * default. Returns how many. */
int keep_options(const Module *m, int loop, const Device *d, Arena *a,
                 KeepOption options[KEEP_OPTIONS]);

/* The default, and as options the values that the backward part reads and that the default computes
 * again: each alone, those first that take longest for their bytes. Returns how many: a few. */
int keep_additions(const Module *m, int loop, const Device *d, Arena *a, KeepOption *usual,
                   KeepOption options[KEEP_OPTIONS]);

/* Every half, of which those are stored that what is left of the forward part reads: next to
 * nothing is computed again. gathered: also parameters as each layer gathers them, which is then
 * done once. False: there is no such repeat, or it gathers none. */
bool keep_halves(const Module *m, int loop, const Device *d, bool gathered, Arena *a,
                 KeepOption *option);

/* The default for that repeat, per value: expensive values are kept, or values that follow from
 * them and have as many bytes. NULL: there is no such repeat, or it is beyond KEEP_LOOPS. */
bool *keep_default(const Module *m, int loop, Arena *a);

/* The repeats of @train that ranges can be made of: the instructions, in order; how many. */
int keep_loops(const Module *m, const Ins **loops, int limit);

#endif
