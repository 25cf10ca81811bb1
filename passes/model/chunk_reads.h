/* chunk_reads.h - what is read of a state in chunks; private to the files of chunk.c. */
#ifndef MGC_PASSES_CHUNK_READS_H
#define MGC_PASSES_CHUNK_READS_H

#include "passes/model/chunk.h"

/* A place of a state, and how it is read there: behind so many steps of its update, times `by`
 * (along t; 0: 1), summed over dims. */
typedef struct Place {
    int state, steps;
    Value by;
    DimList over;
} Place;

/* The place of a read, and what it adds to what is read there (*also, or 0). */
Place chunk_place(Chunk *c, const Read *read, Value *also);
Value chunk_factors(Chunk *c, const Step *s, const DimList *over, bool with, bool from);
/* How the place sees what step k added: [.., t, s], without the term's factors that lack the dims
 * that are summed. */
Value chunk_scores(Chunk *c, const Place *p, int k);
/* The place's view of the terms of its chunk; of a solved one if its factor is given. */
Value chunk_terms(Chunk *c, const Place *p, Value solved);
/* ... and of the state that its chunk began with, times a factor (0: 1). */
Value chunk_carried(Chunk *c, const Place *p, Value state, Value times);
/* A read at all indices, after the loop: of type t, with the scan's dim first. */
Value chunk_read(Chunk *c, const Read *read, const Type *t);

#endif
