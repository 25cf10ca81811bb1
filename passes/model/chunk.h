/* chunk.h - what the files of chunk.c share: a scan that is being rewritten. */
#ifndef MGC_PASSES_CHUNK_H
#define MGC_PASSES_CHUNK_H

#include "passes/model/linear.h"

typedef struct Chunk {
    Module *m;
    Arena *tmp;
    const Linear *x;
    Builder b;             /* around the loop, where the loop was */
    Dim along;             /* of the scan: n.size * t.size indices */
    Dim n, t, s;           /* chunks; positions of a chunk, and once more */
    Dim p, own;            /* parts that are gone through at once, and chunks of a part; p.size 1:
                            * all is one part */
    ValueMap all;          /* a value of the body: as it is at all indices */
    ValueMap cut_t, cut_s; /* a value at all indices: cut into chunks */
    Value fade[LINEAR_STATES][LINEAR_STEPS + 1][2]; /* results of chunk_fade, and at the end */
    Value fade_all[LINEAR_STATES];
    Value entered[LINEAR_STATES]; /* after the loop: the state that each chunk begins with, [n, ...]
                                   */
    Value solved[LINEAR_STATES];  /* after the loop: the solved factor, along n and s */
} Chunk;

/* ---- chunk_build.c: small builders; 0 as a factor is 1, as a term 0 -------------------------- */

bool chunk_has(const Chunk *c, Value v, Name d);
Value chunk_times(Chunk *c, Value a, Value b);
Value chunk_plus(Chunk *c, Value a, Value b);
Value chunk_signed(Chunk *c, Value v, bool minus);
/* The sum over some dims of the product of a and b, of which a dim may be in one or in neither. */
Value chunk_contract(Chunk *c, Value a, Value b, const DimList *over);
Value chunk_renamed(Chunk *c, Value v, Dim from, Dim to);
/* v at all indices as chunks: along n and t, or (from) n and s; v itself if it is the same at all.
 */
Value chunk_cut(Chunk *c, Value v, bool from);
/* The way back, of the dims of t and that of the scan, which is put first. */
Value chunk_uncut(Chunk *c, Value v, const Type *t);
/* Is the index along s before that along t, or the same (also)? bool[t, s]. */
Value chunk_before(Chunk *c, bool also);
/* How many indices of a chunk there are up to that along d, without it or (also) with it; of type
 * t.
 */
Value chunk_count(Chunk *c, Dim d, bool also, DType t);

/* ---- chunk_sums.c: logarithms of what a state is scaled by ----------------------------------- */

/* The logarithm of what a state is scaled by from the begin of a chunk up to its place behind
 * `steps` steps of an iteration, along t or (from) s; 0: it is not scaled. */
Value chunk_fade(Chunk *c, const Chain *update, int steps, bool from);
/* ... up to the end of the chunk. */
Value chunk_fade_all(Chunk *c, const Chain *update);

/* ---- chunk_solve.c --------------------------------------------------------------------------- */

/* The inverse of 1 - x, x being 0 unless s is before t. */
Value chunk_inverse(Chunk *c, Value x);

/* ---- chunk_loop.c ---------------------------------------------------------------------------- */

/* One chunk's update of a state. */
typedef struct Update {
    Value left;      /* what is left of the state; 0: all */
    Value adds;      /* what is added whatever the state was; 0: nothing */
    DimList read;    /* with a solved factor w = known + sum(by * state, over these): */
    Value known, by; /* along s */
    Value times;     /* what w is multiplied by before it is summed over s and added */
    bool minus;
} Update;

/* Goes from chunk to chunk, with what each does to each state; sets c->entered and c->solved. out:
 * per state, what it is at last. */
void chunk_go_through(Chunk *c, const Update *u, Value *out);

/* A value of the body at all indices. */
Value chunk_all(Chunk *c, Value v);

#endif
