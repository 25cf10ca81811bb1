/* llvm_body.h - the body of one kernel while it is written: private to llvm_kernel.c, llvm_value.c
 * and llvm_sum.c. */
#ifndef MGC_LLVM_BODY_H
#define MGC_LLVM_BODY_H

#include "codegen/llvm/llvm_gen.h"

enum { ENV_EXTRA = 8 };

/* An index, as far as it is known when the code is written: in [from, to). */
typedef struct Known {
    int64_t from, to;
} Known;

/* The index of every dim, as LLVM values. Dims that only exist inside the body (the operand of a
 * rename, pick or window) are entered on the way. */
typedef struct Env {
    int n;
    Name dim[NEST_DIMS + ENV_EXTRA];
    LLVMValueRef index[NEST_DIMS + ENV_EXTRA]; /* NULL: merged into a neighbour's loop */
    Known known[NEST_DIMS + ENV_EXTRA];
} Env;

/* A value of a row on the stack (llvm_kept.c). */
typedef struct Kept {
    LLVMValueRef row; /* of all its elements; NULL: it is computed where it is needed */
    bool stored;      /* this walk stores it, or an earlier one did */
    bool there;       /* an earlier walk stored it */
} Kept;

enum { DRAWS_MAX = 8 };

/* The words of a stretch of the innermost loop, drawn before it. */
typedef struct Draw {
    const Ins *like; /* one of the roundings that read them */
    LLVMValueRef words;
} Draw;

typedef struct Draws {
    int n;
    Draw draw[DRAWS_MAX];
    LLVMValueRef index, from; /* of that loop: its index, and where the stretch begins */
} Draws;

typedef struct Gen {
    LlvmModule *l;
    const Kernel *k;
    const Region *body;
    Nest nest;
    LLVMValueRef fn;
    LLVMValueRef pointer[MAX_OPERANDS];
    LLVMValueRef *memo;    /* per value, at the current indices */
    LLVMValueRef *reduced; /* per value: a reduction's result, once its loop is done */
    int *stage;            /* per value: number of loops over the row before it is known */
    Kept *kept;            /* per value */
    LLVMValueRef inner_index[NEST_DIMS]; /* of the inner loops that the code is in */
    int elsewhere;      /* not 0: the code is for other indices than those of the loops */
    int64_t sum_length; /* of the innermost loop, if it adds up parts of sums; else 0 */
    NestTile tile;
    LLVMValueRef within[NEST_TILED];   /* per tiled loop: the index in the tile */
    LLVMValueRef turned[MAX_OPERANDS]; /* the block in place of an operand, or NULL */
    LLVMValueRef ahead[MAX_OPERANDS];  /* elements from the tile of an operand to the next tile's */
    Draws draws;
    int64_t apart[MAX_OPERANDS]; /* packed operands: their stride in memory; 0: of others */
} Gen;

typedef struct LoopCode {
    LLVMBasicBlockRef head, exit;
    LLVMValueRef index;
} LoopCode;

/* Bounds of a loop of which a unit runs a part; NULL: the whole loop. */
typedef struct Bounds {
    LLVMValueRef from, to;
} Bounds;

/* Writes the code inside the loops, at the indices of e. */
typedef void Leaf(Gen *g, const Env *e, void *ctx);

/* ---- llvm_value.c ---- */

LLVMValueRef gen_int(const Gen *g, int64_t x);
/* The index of a dim; NULL: it has none, or a neighbour's loop walks it. */
LLVMValueRef gen_index(const Env *e, Name dim);
LLVMValueRef gen_address(Gen *g, LLVMValueRef base, DType t, LLVMValueRef offset);
LLVMValueRef gen_element(Gen *g, LLVMValueRef base, const Operand *o, const Env *e);
/* The same for operand k of the kernel, at each place where it is read or written. */
LLVMValueRef gen_operand(Gen *g, int k, const Env *e);
LLVMValueRef gen_load(Gen *g, DType t, LLVMValueRef from);
void gen_store(Gen *g, DType t, LLVMValueRef x, LLVMValueRef to);

LLVMBasicBlockRef gen_new_block(Gen *g, const char *name);
LoopCode gen_loop_begin(Gen *g, LLVMValueRef from, LLVMValueRef to);
LLVMValueRef gen_loop_end(Gen *g, LoopCode *c); /* the branch back */
/* Forgets all computed values: they are not valid at the builder's new position. */
void gen_forget(Gen *g);
/* Enters the index of a loop for each dim of that loop; all of the loop is gone through. */
void gen_env_loop(const Gen *g, Env *e, int loop, LLVMValueRef index);
/* The inner loops [at, end) that satisfy `which` (-1: all, 0: kept, 1: reduced), then the leaf. A
 * loop runs in pieces (nest_pieces). last: bounds of the last loop. */
void gen_nest_loops(Gen *g, int at, int end, int which, const Env *e, const Bounds *last,
                    Leaf *leaf, void *ctx);
Bounds *gen_block_bounds(Gen *g, LLVMValueRef block, Bounds *b);

/* The value at the indices of e; computed once between two gen_forget. */
LLVMValueRef gen_eval(Gen *g, Value v, const Env *e);
void gen_store_result(Gen *g, size_t k, const Env *e);

/* ---- llvm_random.c ---- */

enum { DRAW_STRETCH = 512 /* elements whose words are drawn together */ };
/* Whether words can be drawn for the innermost loop of the nest. */
bool gen_may_draw(const Gen *g, int loop);
/* Draws them for the n elements from index `from` of that loop on, whose indices e has. */
void gen_draw(Gen *g, int loop, const Env *e, LLVMValueRef from, LLVMValueRef n);
/* A stochastic_round at the indices of e. */
LLVMValueRef gen_stochastic_round(Gen *g, const Ins *i, const Env *e);

/* ---- llvm_tile.c ---- */

/* One tile of a kernel with tiles: runs the leaf for each of its elements. */
void gen_unit_tile(Gen *g, LLVMValueRef u, Leaf *leaf);
/* Address of an operand's element in its turned block. */
LLVMValueRef gen_turned(Gen *g, int operand);

/* ---- llvm_packed.c ---- */

/* Chooses the operands of k, the kernel's own copy, that units find packed: their stride becomes 1.
 */
void gen_choose_packed(Gen *g, Kernel *k);
/* The packed copy of an operand that lies at `from`. */
LLVMValueRef gen_packed(Gen *g, int operand, LLVMValueRef from);

/* ---- llvm_kept.c ---- */

/* Chooses the values that are kept, before the first of so many stages of a row. */
void gen_choose_kept(Gen *g, int stages);
/* A walk over the row has ended. */
void gen_walked(Gen *g);
/* The value as an earlier walk kept it; NULL: it did not. */
LLVMValueRef gen_kept(Gen *g, Value v);
/* Keeps x, the value, if it is one of those. */
void gen_keep(Gen *g, Value v, LLVMValueRef x);

/* ---- llvm_ahead.c ---- */

/* At the begin of a unit, whose outer indices e has: prefetches what later units read. walks: this
 * one goes over its row more than once. */
void gen_ahead(Gen *g, const Env *e, bool walks);

/* ---- llvm_sum.c: one unit of a kernel that reduces ---- */

void gen_unit_row(Gen *g, const Env *e);
void gen_unit_partial(Gen *g, const Env *e, LLVMValueRef u);
void gen_unit_col(Gen *g, const Env *e);
void gen_unit_combine(Gen *g, const Env *e, LLVMValueRef block);

#endif
