/* adapter.h - what the files about adapters share: adapter.c reads their lines and makes their
 * parameters, adapt.c puts them beside the products. */
#ifndef MGC_ADAPTER_H
#define MGC_ADAPTER_H

#include "grammar/config.h"

/* A line of the train block: `adapter fast lora(rank = 16, alpha = 32) on "*.q_proj.weight"`. */
struct AdapterLine {
    const Node *node;
    Name name;                    /* of the adapter, or 0 */
    bool dora, stabilized, whole; /* whole: parameters are trained as they are */
    int64_t rank;
    double alpha, dropout, ratio;
    double scale;    /* of what the adapter adds */
    FrozenBase base; /* what the frozen matrices are kept as */
    Dim dim, other;  /* the rank as a dim; the same once more, for products of A with itself */
    bool *used;      /* per selector */
};

/* The parameters of an adapter for one matrix, made at its first product in @train: numbers from 1
 * in Module.tensors, 0: not yet. In the function being built their arguments and loops. */
struct Adapted {
    uint32_t matrix;
    const AdapterLine *by;
    const Node *selector;
    DimList in, out; /* of the matrix: what its products sum, in the order of files; the others */
    bool turned;     /* files have it as [in, out] */
    bool table;      /* it is looked up: A is looked up likewise */
    uint32_t a, b, magnitude;
    struct Adapted *first; /* of several parts of one tensor of files the one whose A all share */
    Value from, dropped;   /* ... what A multiplied last, and that after dropout */
    const Region *dropped_in;
    const Fn *fn;
    LoopList loops;
    Value arg_a, arg_b, arg_magnitude;
};

#define ADAPTER_PREFIX                                                                             \
    "base_model.model." /* of the names of adapters' tensors, as PEFT has them                     \
                         */

/* adapter.c: makes the parameters of one whose dims are known; false after an error. */
bool make_adapter(Elab *e, Adapted *to);

#endif
