/* cost.h - arithmetic and memory traffic of an instruction, from its types alone. */
#ifndef MGC_COST_H
#define MGC_COST_H

#include "base/device.h"
#include "ir/ir.h"

/* The most elements of a row of which a processor keeps what costs much from one walk over the row
 * to the next (codegen/llvm/llvm_kept.c): fusion need not have it computed by a kernel before. */
enum { KEPT_ROW = 4096 };

/* Arithmetic and memory traffic of one execution of an instruction (repeat: of all its iterations).
 */
enum { ATTENTION_BLOCK = 64 }; /* keys that a host's attention looks at together */
typedef struct Cost {
    double flops, bytes;
    double exps; /* exponentials of attention and cross-entropy, each with what belongs to it */
    double keys; /* of attention: twice those that a query sees on average */
    double more; /* share of these that a host computes beside: what a causal mask cuts off */
    double operations; /* of a host's kernel: in additions (plan/host_price.c) */
    /* Bytes more that a host takes as long for: what lies across a kernel's loops, what a
     * convolution packs, a bias that is read for each batch. */
    double across;
    double slowest; /* times as much as ranks have on average has the one that has most; 0: all
                       alike */
} Cost;
Cost ir_cost(const Module *m, const Ins *i);

/* A share of attention's pairs: what a host does beside them. Rows and keys are packed,
 * blocks that a causal mask cuts are computed, and with a window those in which the first keys of
 * rows begin. Of a row it takes about as long as so many of its keys: measured on a Xeon with AMX,
 * heads of 32 to 128 and 256 to 2048 keys. keys: that a query sees on average. */
static inline double attention_beside(bool grad, double keys, bool causal, bool window)
{
    const double block = ATTENTION_BLOCK, each = causal ? block : 0.5 * block;
    return ((grad ? 1.5 : 1) * each + (window ? 0.5 * block : 0)) / keys;
}

/* Peak of products of a program on a device, FLOP/s; the share of it that they reach; and both
 * together. */
double peak_flops(const Device *d, const Train *t);
double product_share(const Device *d, const Train *t);
double product_flops(const Device *d, const Train *t);
/* ... of products of fp8. */
double product_flops_fp8(const Device *d);

#endif
