/* interpret.h - the reference interpreter: what a program means, in double precision. */
#ifndef MGC_INTERPRET_H
#define MGC_INTERPRET_H

#include "ir/ir.h"

/* A tensor of the interpreter: elements in double, row-major over type's dims. */
typedef struct Tensor64 {
    Type type;
    double *data;
} Tensor64;
/* Runs a function. args: one per argument; results (allocated in `a`): one per result. f32 values
 * are rounded to float after every instruction if `round` is set, else kept in double. */
void ir_interpret(const Module *m, const Fn *fn, const Tensor64 *args, Tensor64 *results, Arena *a,
                  bool round);
/* Of a sharded program, all ranks of the mesh together: args and results are those of rank 0, then
 * of rank 1, and so on. */
void ir_interpret_ranks(const Module *m, const Fn *fn, const Tensor64 *args, Tensor64 *results,
                        Arena *a);
/* In double, but every float result of an instruction is off by up to its type's rounding: how far
 * apart two such runs are says how well rounded arithmetic can do. The seed (not 0), the op and the
 * result decide by how much: what is computed again from the same numbers is the same again. */
void ir_interpret_shaken(const Module *m, const Fn *fn, const Tensor64 *args, Tensor64 *results,
                         Arena *a, uint64_t seed);
/* In double. The first run with `h`, which begins as {0}, notes what each `stop` gives; in later
 * ones it gives the same again, whatever the arguments: slopes of such runs are the derivatives. */
typedef struct Held {
    VEC(double *) given; /* in the order of the run; in the first run's arena */
    size_t next;
    bool noted;
} Held;
void ir_interpret_held(const Module *m, const Fn *fn, const Tensor64 *args, Tensor64 *results,
                       Arena *a, Held *h);
/* The same numbers as kernels/ draws (mg_random_desc), for op random. */
double ir_random(uint64_t seed, uint64_t step, uint64_t key, uint64_t element);
/* A name as a number, for the generator: FNV-1a of 64 bits, as mg_key in kernels/. */
uint64_t ir_key(const char *name);
/* The bits by which stochastic_round rounds the element at row and col: the low (at 0) or high 16
 * bits of word col % 4 of the block of Philox4x32-10 of counter {col / 4, row, low, high half of
 * step} under the key seed ^ key. The bf16 is the upper half of the float's bits and these, added:
 * so each of the two neighbours is taken as often as x is near to it. */
uint32_t ir_round_bits(uint64_t seed, uint64_t step, uint64_t key, uint32_t row, uint32_t col,
                       int at);

#endif
