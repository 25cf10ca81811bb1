/* cuda_gen.h - one kernel while its text is written; private to the files of codegen/cuda. */
#ifndef MGC_CUDA_GEN_H
#define MGC_CUDA_GEN_H

#include "codegen/code/code.h"
#include "codegen/cuda/cuda.h"

enum { LANES_MAX = 8, CUDA_BLOCK = 256 };

/* How a row is shared out. A word is what a thread computes at a time: an element, or all lanes. */
typedef struct CudaRow {
    int threads;  /* of a row */
    int together; /* rows of a block. More than one: each has a warp */
    /* Words of a thread, if its loops over the row are unrolled, or 0. Operands that are `kept` are
     * read once, into registers, before the first of these loops. */
    int words;
    bool kept[MAX_OPERANDS];
} CudaRow;

/* An element as text, and the vector that begins with it. */
typedef struct CudaMoved {
    const char *element, *name;
} CudaMoved;

/* A counted place as text, and its variables. */
typedef struct CudaCounted {
    const char *described;
    CodePlace *place;
} CudaCounted;

typedef struct CudaGen {
    Code c; /* first: the dialect's functions find the rest by it */
    CudaLaunch launch;
    int temps; /* number of temporaries made so far */
    /* Number of neighbours along one loop that a thread computes together. If they are contiguous
     * in an operand, they are accessed as a vector. 1: no neighbours. */
    int lanes, lane_loop, lane;
    bool vector[MAX_OPERANDS];      /* may operand o be accessed so? */
    const char *wide[MAX_OPERANDS]; /* the vector read for all lanes, or NULL */
    /* Elsewhere than at the loops' indices: may operand o, where what is contiguous in it is read
     * at the lanes' own index; the vectors read so, by the element of the first lane. */
    bool aligned[MAX_OPERANDS];
    VEC(CudaMoved) moved;
    VEC(CudaCounted) counted;
    const char *first; /* index of the first lane along their loop; NULL: in no lane */
    int across;        /* loop along which neighbouring threads read, or -1; see cuda_lanes.c */
    int span; /* so many of a warp's threads are neighbours along it, the others along the lanes' */
    /* The same of a rotation along turn_dim: the first lane has index turn_at, and reads turn_to,
     * or NULL before it has. */
    const char *turned[MAX_OPERANDS], *turn_at, *turn_to;
    Name turn_dim;
    CudaRow row; /* of a kernel of rows */
    int columns; /* words of kept elements that a block sums */
    bool in_row; /* are the current indices those of a loop over a row? */
} CudaGen;

extern const Dialect cuda_dialect;
const char *cuda_type(DType t); /* as stored; bool is a byte */
const char *cuda_temp(CudaGen *g, const char *prefix);
/* The value at the indices of e: a temporary or a constant. */
const char *cuda_eval(CudaGen *g, Value v, const CodeEnv *e);
/* cuda_lanes.c: sets the number of lanes of a kernel, and the operands that are accessed as
 * vectors. */
void cuda_lanes(CudaGen *g, const Plan *p);
/* Does the body have a sum whose order the size of what is summed has to decide alone? */
bool cuda_in_order(const Region *body);
/* The environment of a lane, from that of the first; of a lane by its number as an expression. */
CodeEnv cuda_lane(CudaGen *g, const CodeEnv *first, int lane);
CodeEnv cuda_at_lane(CudaGen *g, const CodeEnv *first, const char *lane);
/* Forgets what was read for all lanes: the first of them comes next. */
void cuda_new_lanes(CudaGen *g);
/* Forgets what was read elsewhere: its variables end with the block. */
void cuda_forget_moved(CudaGen *g);
bool cuda_along_lanes(const CudaGen *g, Name d); /* are the lanes neighbours along d? */

/* cuda_rows.c: decides how rows are shared out, and writes the kernel. */
void cuda_row(CudaGen *g);
void cuda_write_row(CudaGen *g);

/* cuda_columns.c: the same of kernels that sum columns, and of those that add up chunks' sums. */
void cuda_columns(CudaGen *g);
void cuda_write_columns(CudaGen *g);

/* ---- cuda_kernel.c: parts of all kernels ---- */

/* Is loop i spread over the threads of the grid? If not, it runs inside of a thread or block. */
bool cuda_spread(const Nest *n, int i);
int64_t cuda_extent(const Nest *n, bool of_spread);   /* elements of all such loops */
int64_t cuda_steps(const CudaGen *g, bool of_spread); /* the same in words */
/* Declares the indices of the loops that are spread, or of the others, from the flat number `of`.
 */
void cuda_split_index(CudaGen *g, CodeEnv *e, bool of_spread, const char *of);
void cuda_open(CudaGen *g); /* after a line that ends with a brace */
void cuda_close(CudaGen *g);
DType cuda_dtype(const CudaGen *g, Value v);
void cuda_add(CudaGen *g, const Ins *i, DType t, const char *acc, const char *x);
void cuda_store(CudaGen *g, size_t k, const char *x, const CodeEnv *e);
/* Results in variables: those of the lane at hand, and the stores of all lanes. which: NULL, or
 * those that are stored here. All loads come before all stores, because a result may take an
 * operand's place. */
typedef struct CudaResults {
    const char *at[MAX_OPERANDS][LANES_MAX];
} CudaResults;
void cuda_eval_results(CudaGen *g, const CodeEnv *e, const bool *which, CudaResults *x);
void cuda_store_results(CudaGen *g, const CodeEnv *first, const bool *which, const CudaResults *x);
/* Both, in all lanes. */
void cuda_store_all(CudaGen *g, const CodeEnv *first, const bool *which);

#endif
