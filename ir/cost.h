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
enum { ATTENTION_BLOCK = 64 }; /* keys that are looked at together, about */
typedef struct Cost {
    double flops, bytes;
    double exps; /* exponentials of attention and cross-entropy, each with what belongs to it */
    double keys; /* of attention: twice those that a query sees on average */
    double more; /* share of these that is computed beside: blocks that a causal mask cuts */
    double
        across; /* bytes more that a host's kernel takes as long for: what lies across its loops */
    double slowest; /* times as much as ranks have on average has the one that has most; 0: all
                       alike */
} Cost;
Cost ir_cost(const Module *m, const Ins *i);

/* Peak of products of a program on a device, FLOP/s; the share of it that they reach; and both
 * together. */
double peak_flops(const Device *d, const Train *t);
double product_share(const Device *d, const Train *t);
double product_flops(const Device *d, const Train *t);
/* ... of products of fp8. */
double product_flops_fp8(const Device *d);

#endif
