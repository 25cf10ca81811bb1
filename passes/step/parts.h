/* parts.h - what one microbatch computes of the whole batch; private to
 * microbatch.c and parts.c. */
#ifndef MGC_PASSES_PARTS_H
#define MGC_PASSES_PARTS_H

#include "ir/ir.h"

/* The microbatches: `microbatches` of them, each over dim `batch` (already of the size of a
 * microbatch); `index` is the number of the microbatch. */
typedef struct Microbatches {
    Module *m;
    Name batch;
    int64_t size, microbatches;
    Value index;
    bool *part; /* per value: a sum over this microbatch, which adds up to the value over
                   microbatches */
    /* Per value at the top: computed from inputs alone; and a sum of those over the batch, which is
     * computed of the whole batch before the microbatches (what a weighed mean is divided by). */
    bool *given, *whole;
    Value *slot; /* per value at the top that is drawn: where the whole batch is drawn from */
    const Region *top;
    size_t classified; /* values there are when the parts are found */
    /* The sequences of a microbatch are in so many pieces, as each rank has its microbatches' one
     * after another: piece p of microbatch r is number p * microbatches + r of the batch. 1: they
     * are neighbours. */
    int64_t pieces;
    Value shared; /* what is the same in every microbatch and was divided, 0: nothing */
} Microbatches;

/* Is operand k added to the result as it is, with all others of which that holds? */
bool ins_adds(const Ins *i, uint32_t k);
/* Is the op linear in operand k, where all operands but those that it adds are given? */
bool ins_is_linear(const Module *m, const Ins *i, uint32_t k);

/* How many rows a function takes at once; 0: it takes none. */
int64_t fn_rows(const Module *m, const Fn *fn);

/* The dim `batch` gets the size of a microbatch, in all of a region. */
void microbatches_resize(const Microbatches *r, Region *body);

/* Finds the parts in a function; false after reporting a value that cannot be put together from
 * microbatches. */
bool parts_find(Microbatches *r, const Fn *fn, Arena *a);

/* Computes at b what is `whole`, and puts it into body for what one microbatch would find. `inputs`
 * has the whole of each argument of body that is a slice; `micro` is their dim of microbatches. */
void parts_whole(const Microbatches *r, Builder *b, Region *body, ValueMap *inputs, Dim micro,
                 Arena *tmp);

/* Makes what one microbatch computes add up: a number that is the same in all microbatches is
 * divided by their number where it is added to a part; positions and random numbers along the batch
 * are those of the whole batch. The region's own results are all made parts. */
void parts_adjust(Microbatches *r, Region *body);

#endif
