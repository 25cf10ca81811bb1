/* parts.h - what a round over one microbatch computes of the whole batch; private to microbatch.c
 * and parts.c. */
#ifndef MGC_PASSES_PARTS_H
#define MGC_PASSES_PARTS_H

#include "ir/ir.h"

/* The rounds: `rounds` of them, each over dim `batch` (already of the size of a microbatch);
 * `index` is the number of the round. */
typedef struct Rounds {
    Module *m;
    Name batch;
    int64_t size, rounds;
    Value index;
    bool *part; /* per value: a sum over this microbatch, which adds up to the value over rounds */
    /* Per value at the top: computed from inputs alone; and a sum of those over the batch, which is
     * computed of the whole batch before the rounds (what a weighed mean is divided by). */
    bool *given, *whole;
    const Region *top;
    size_t classified; /* values there are when the parts are found */
    /* The sequences of a round are in so many pieces, as each rank has its rounds' one after
     * another: piece p of round r is number p * rounds + r of the batch. 1: they are neighbours. */
    int64_t pieces;
    Value shared; /* what is the same in every round and was divided, 0: nothing */
} Rounds;

/* How many rows a function takes at once; 0: it takes none. */
int64_t fn_rows(const Module *m, const Fn *fn);

/* The dim `batch` gets the size of a microbatch, in all of a region. */
void rounds_resize(const Rounds *r, Region *body);

/* Finds the parts in a region; false after reporting a value that cannot be put together from
 * microbatches. */
bool parts_find(Rounds *r, Region *body, Arena *a);

/* Computes at b what is `whole`, and puts it into body for what one round would find. `inputs` has
 * the whole of each argument of body that is a slice; `micro` is their dim of rounds. */
void parts_whole(const Rounds *r, Builder *b, Region *body, ValueMap *inputs, Dim micro,
                 Arena *tmp);

/* Makes what one round computes add up: a number that is the same in all rounds is divided by their
 * number where it is added to a part; positions and random numbers along the batch are those of
 * the whole batch. The region's own results are all made parts. */
void parts_adjust(Rounds *r, Region *body);

#endif
