/* cuda_gen.h - one kernel while its text is written; private to the files of codegen/cuda. */
#ifndef MGC_CUDA_GEN_H
#define MGC_CUDA_GEN_H

#include "codegen/cuda/cuda.h"
#include "plan/nest.h"

enum { CUDA_EXTRA = 8, LANES_MAX = 8 };

/* The index of every dim, as C expressions; NULL: a merged neighbour walks it. */
typedef struct CudaEnv {
    int n;
    Name dim[NEST_DIMS + CUDA_EXTRA];
    const char *index[NEST_DIMS + CUDA_EXTRA];
} CudaEnv;

typedef struct CudaGen {
    const Module *m;
    const Kernel *k;
    const Region *body;
    Nest nest;
    CudaLaunch launch;
    FILE *out;
    Arena *a;
    int depth;         /* of indentation, in fours */
    int temps;         /* made so far */
    const char *index; /* type of indices: "int" where all offsets fit, else "int64_t" */
    /* Neighbours along one loop that a thread computes together, with wide accesses where an
     * operand has them side by side; 1: none. */
    int lanes, lane_loop, lane;
    bool vector[MAX_OPERANDS];      /* may operand o be accessed so? */
    const char *wide[MAX_OPERANDS]; /* what was read of it for all lanes, or NULL */
    bool moved;                     /* at other indices than those of the lanes */
    const char **memo;              /* per value: its temporary at the current indices */
    const char **reduced;           /* per value: the variable of a finished reduction */
    int *stage;                     /* per value: reductions that come before it is known */
} CudaGen;

const char *cuda_type(DType t); /* as stored; bool is a byte */
void cuda_line(CudaGen *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cuda_forget(CudaGen *g); /* what was computed before does not hold here */
const char *cuda_temp(CudaGen *g, const char *prefix);
/* The element of operand o at the indices of e: "p3[...]". */
const char *cuda_element(CudaGen *g, int o, const Operand *as, const CudaEnv *e, const char *base);
const char *cuda_number(CudaGen *g, DType t, double x);
/* A pointwise op of names or numbers of dtype t (the condition of a choice is a bool). */
const char *cuda_pointwise(CudaGen *g, Op op, DType t, int nin, const char *const *x);
/* The value at the indices of e: a temporary or a constant; statements go out as they are needed.
 */
const char *cuda_eval(CudaGen *g, Value v, const CudaEnv *e);
void cuda_enter(CudaEnv *e, Name d, const char *index);
/* How many lanes a kernel has, and which operands are accessed by vectors: cuda_lanes.c. */
void cuda_lanes(CudaGen *g, const Plan *p);
/* The environment of a lane, from that of the first. */
CudaEnv cuda_lane(CudaGen *g, const CudaEnv *first, int lane);

/* Enters the index of a loop of the nest under every dim it stands for. */
void cuda_env_loop(const CudaGen *g, CudaEnv *e, int loop, const char *index);

#endif
