/* cuda_gen.h - one kernel while its text is written; private to the files of codegen/cuda. */
#ifndef MGC_CUDA_GEN_H
#define MGC_CUDA_GEN_H

#include "codegen/code/code.h"
#include "codegen/cuda/cuda.h"

enum { LANES_MAX = 8 };

typedef struct CudaGen {
    Code c; /* first: the dialect's functions find the rest by it */
    CudaLaunch launch;
    int temps; /* number of temporaries made so far */
    /* Number of neighbours along one loop that a thread computes together. If they are contiguous
     * in an operand, they are accessed as a vector. 1: no neighbours. */
    int lanes, lane_loop, lane;
    bool vector[MAX_OPERANDS];      /* may operand o be accessed so? */
    const char *wide[MAX_OPERANDS]; /* the vector read for all lanes, or NULL */
} CudaGen;

extern const Dialect cuda_dialect;
const char *cuda_type(DType t); /* as stored; bool is a byte */
const char *cuda_temp(CudaGen *g, const char *prefix);
/* The value at the indices of e: a temporary or a constant. */
const char *cuda_eval(CudaGen *g, Value v, const CodeEnv *e);
/* cuda_lanes.c: sets the number of lanes of a kernel, and the operands that are accessed as
 * vectors. */
void cuda_lanes(CudaGen *g, const Plan *p);
/* The environment of a lane, from that of the first. */
CodeEnv cuda_lane(CudaGen *g, const CodeEnv *first, int lane);

#endif
