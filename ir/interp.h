/* interp.h - what the two halves of the reference interpreter share; private to ir/. */
#ifndef MGC_INTERP_H
#define MGC_INTERP_H

#include "ir/interpret.h"

typedef struct Interp {
    const Module *m;
    Tensor64 *value; /* per value; data is malloc'ed and owned here */
    bool round;
    int64_t rank;  /* of the mesh */
    uint64_t seed; /* of what results are made inexact by; 0: they are not */
    Held *held;    /* what `stop` gives, or NULL */
    Arena *notes;  /* where that is noted */
} Interp;

/* Indices over some dims in row-major order, with the offset into up to eight tensors: a tensor
 * without one of the dims stands still along it. */
enum { WALK_TENSORS = 9, WALK_DIMS = 3 * MAX_RANK };
typedef struct Walk {
    int n, tensors;
    Dim dim[WALK_DIMS];
    int64_t stride[WALK_TENSORS][WALK_DIMS], index[WALK_DIMS], at[WALK_TENSORS];
} Walk;

Walk walk_start(void);
void walk_dim(Walk *w, Dim d);             /* adds a dim unless it is there */
void walk_dims(Walk *w, const Type *t);    /* adds all of a type's */
void walk_tensor(Walk *w, const Type *t);  /* after all dims: a tensor whose offset to follow */
bool walk_next(Walk *w);                   /* to the next index; false after the last */
int64_t walk_index(const Walk *w, Name d); /* current index along d; 0 if it is not walked */
int64_t type_stride(const Type *t, int i); /* elements between neighbours along dim i */

/* Ranks that go through the program together, instruction by instruction. */
typedef struct Group {
    Interp *rank;
    int64_t n;
    const StageSet *at; /* per value: where it is */
} Group;

/* The ranks of a group run iterations [first, first + n) of a loop, the last first where it is in
 * reverse. */
void interp_iterations(const Group *g, const Ins *i, int64_t first, int64_t n);
/* interp_stages.c: all iterations of a loop over layers that are stages. */
void interp_stages(const Group *g, const Ins *i);
/* Element k of what the rank has of a dim: its number in the whole; of layers, that of the layer.
 */
int64_t interp_position(const Interp *in, Dim d, int64_t k);
/* Is the rank one of those that compute i? */
bool interp_takes_part(const Group *g, const Interp *in, const Ins *i);
/* Fills a value, or the results of i, that a rank does not have with NaN, so that a wrong use
 * of it shows. */
void interp_forget(Interp *in, Value v);
void interp_forget_others(const Group *g, Interp *in, const Ins *i);

/* A value of `data`, or (NULL) zeros; returns where it is. */
double *interp_set(Interp *in, Value v, const double *data);
/* Zeroed memory, to be freed; without any left the process ends. */
void *interp_alloc(int64_t n, size_t size);

/* The (freshly zeroed) data of an instruction's k-th result; the data of its k-th operand. */
double *interp_out(Interp *in, const Ins *i, uint32_t k);
const double *interp_in(const Interp *in, const Ins *i, uint32_t k);

/* The number of dtype t nearest to x, ties to even; of integers the one towards zero. */
double interp_rounded(double x, DType t);
double interp_power(double x); /* of e8m0: the least that is not below |x| (interp_tiles.c) */

/* An instruction that communicates, of all ranks: in[0 .. ranks). */
void interp_comm(Interp *in, int64_t ranks, const Ins *i);
/* Do two ranks differ on these axes alone? */
bool interp_same_group(const Module *m, int64_t a, int64_t b, Axes axes);
/* Attention whose keys are split over ranks: each looks at those of all. */
void interp_ring(Interp *in, int64_t ranks, const Ins *i);

typedef void InterpFn(Interp *in, const Ins *i);
InterpFn interp_dot, interp_conv, interp_dot_scaled, interp_dot_bias, interp_dot_sum,
    interp_dot_gelu, interp_dot_gelu_aux, interp_dot_gelu_grad;
InterpFn interp_rename, interp_pick, interp_window, interp_split, interp_merge, interp_join,
    interp_reindex, interp_rotate;
InterpFn interp_random, interp_stochastic_round, interp_gather, interp_scatter_add, interp_put,
    interp_attention, interp_attention_grad, interp_attention_bias_grad, interp_cross_entropy,
    interp_cross_entropy_grad, interp_head, interp_head_frozen, interp_head_loss, interp_top,
    interp_slots, interp_ends, interp_dispatch, interp_combine, interp_combine_weight,
    interp_grouped, interp_grouped_weight, interp_tile_scale, interp_round_tiles;
/* interp_tiles.c: a product of fp8 whose scales are of tiles. */
void interp_tiled_product(Interp *in, const Ins *i);

#endif
