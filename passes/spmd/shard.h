/* shard.h - private to shard*.c: a program of one device becomes that of all ranks of a mesh.
 *
 * The old program says what is computed, on whole sizes; the new one is built beside it, region by
 * region. Of each instruction, the layout's rules say on which axes the dims it runs over are
 * split; its operands are brought to that, its results to what the rules say of their own dims. */
#ifndef MGC_PASSES_SHARD_H
#define MGC_PASSES_SHARD_H

#include "ir/ir.h"

/* How a type's dims are split, in its order of dims. */
typedef struct Split {
    Axes axes[MAX_RANK];
} Split;

/* t, whose sizes are whole, so split. */
Type split_type(const Module *m, Type t, const Split *s);

/* shard_class.c: how tensors and gradients lie: by the rules of their dims, then by those of
 * their class, along the first dim that has room. */
Split class_split(const Module *m, uint32_t tensor, TensorClass of);
/* The same for a value that is like a tensor's parameter, but may lack dims. */
Split class_split_of(const Module *m, const Type *t, uint32_t parameter, TensorClass of);
/* Axes on which a class splits a dim of a tensor's parameter, and no rule of the dim does. */
Axes class_axes(const Module *m, uint32_t tensor, TensorClass of, int dim);
/* The dim of a tensor's parameter that has to be stored larger, and its size, so that classes are
 * split where they stay whole because no dim divides evenly. False: none, or not for little. */
bool class_padding(const Module *m, uint32_t tensor, int *dim, int64_t *size);

/* shard_check.c: false if the rules cannot be followed; told. */
bool shard_is_possible(const Module *m, Arena *tmp);
/* Dims of v that the op which makes it looks at as a whole, and that a rule would split unevenly:
 * they may be a part of a dim whose size comes out even. They stay whole. */
void shard_cuts(const Module *m, Value v, bool fixed[MAX_RANK]);

/* shard_stage_set.c - with a pipeline. Outside of the loops over microbatches, what is known at
 * some of the ranks and needed by others is sent to all. */
void shard_broadcast(Module *m, Fn *fn, Arena *tmp);
/* Tensor.at: where parameters are needed, and with them their states. */
void shard_places(Module *m, Arena *tmp);

/* relays.c: before all else of a pipeline, the loops over layers that do not need each other become
 * one loop each way, in the loop over microbatches. */
void relays_join(Module *m, Fn *fn, Arena *tmp);

/* shard_refuse.c: false if the program cannot be cut into stages, told: for its loops, before; for
 * values that are not where they are needed, when tensors have their places. */
bool stages_are_loops(const Module *m);
/* False if a rule splits the dim of a scan that does not go on in chunks, told. */
bool scans_are_whole(const Module *m);
bool stages_hold(const Module *m, Arena *tmp);

/* stages.c: Layout.pipeline.layers and .max_layers, such that the slowest rank is the fastest that
 * it can be. True where there is no pipeline, or nothing is wrong with it; else told. */
bool stages_choose(Module *m);

/* shard_convert.c: x as a value of type `to`, which differs in how it lies alone. Instructions go
 * to the builder's region. */
Value convert(Builder *b, Value x, const Type *to);

typedef struct Use {
    const Ins *ins; /* NULL: a result of the region */
    const Region *of;
    size_t at;
} Use;
typedef VEC(Use) UseList;

/* Attention that has whole sequences of a part of the heads on one axis, on which its operands have
 * parts of the sequences of all of them. */
typedef struct Exchange {
    Name along, heads; /* dims; heads == 0: no exchange */
    Axes axis;         /* one */
} Exchange;

/* A value brought to another type, in the region that is being built. */
typedef struct Brought {
    Value from, to;
    const Region *region;
} Brought;

typedef struct Shard {
    Module *m;
    Fn *fn;
    Arena *tmp;
    size_t values;        /* of the old program: below it */
    Value *now;           /* per old value: the new one, as the rules want it */
    Value *made;          /* ... and as the instruction made it */
    bool *leaf;           /* per old value: it is computed from positions and constants alone */
    Axes *hint;           /* per old value: an accumulator that is partial over these */
    Axes *lacks;          /* ... but what is added up is not: of those, seen this time */
    Axes *never;          /* ... and so it cannot be */
    bool again;           /* a hint is new, or was wrong */
    Axes tree;            /* over these, what is added up is a microbatch's all */
    Axes each_microbatch; /* ... before it is added to others, or 0: when all are added up */
    bool *has_all;        /* per old value: it is partial, and an addition took it reduced */
    bool *has_less;       /* ... and one did not */
    bool *whole;          /* per old value: it is reduced at once, for all that read it */
    bool *added_up;       /* per old value: it is added up over these as soon as it is made */
    const Ins *early;     /* a sum of which a part is added up before */
    UseList *uses;        /* per old value */
    uint32_t *grad;       /* per old value: 1 + the parameter whose gradient it is, or adds up to */
    bool *whole_grad;     /* per old value: it is all of it */
    VEC(Brought) brought;
    Region *region;     /* that is being built */
    Exchange *exchange; /* per old value: of all that reads it */
    uint32_t *param;    /* per old value: 1 + the parameter that it is */
    size_t updates;     /* old instructions of the function from here on come after all gradients */
    bool updating;      /* such a one is at hand */
} Shard;

/* shard_old.c: what is known of the old program. */
void shard_read(Shard *s);
/* The carried argument that starts from zero and that v is, or is a part of; 0: none. */
Value shard_accumulator(const Shard *s, Value v);
/* Is v read by nothing but what is linear in it, and may stay partial? */
bool shard_stays_partial(const Shard *s, Value v);
/* Is v what layers read of a parameter that lies as its state does, made ahead of them? In *t, how
 * they do: as if it lay by the rules for parameters. So it is gathered for all microbatches, unless
 * the first one's layers do that (gather_once.c): then it is not. */
bool shard_read_ahead(const Shard *s, Value v, Type *t);
/* Once all else is known: where additions take all of a value, a sum over its dims reads that, too,
 * and needs no reduction of its own. */
void shard_reduce_once(Shard *s);

/* The dims an instruction runs over, whole, and on which axes each is split. */
typedef struct Space {
    int n;
    Dim dim[4 * MAX_RANK];
    bool fixed[4 * MAX_RANK];
    Axes axes[4 * MAX_RANK];
    Exchange exchange; /* has been made of these axes */
    Axes partial;      /* of the operands that are: over these they stay so */
    Name outer; /* of a split or merge: the outer one of two dims, on which what is made of both is
                 */
    Dim inner;  /* split; and the inner one, of whose name that is */
} Space;

/* shard_heads.c: with whole dims and the axes that they are split on, what an attention exchanges;
 * nothing, where `heads` is 0. */
Exchange exchange_of(const Module *m, const Ins *i, const Dim *dims, const Axes *axes, int n,
                     Axes which);
/* t, split by its rules, which has both dims, as attention with this exchange has it; as it is
 * where the rules split its heads otherwise than the attention's, and these do not divide. */
Type exchanged_type(const Module *m, Type t, const Exchange *x);
/* The exchange of all that reads v, of the old program, if there is one; kept for the backward part
 * it is kept so. */
Exchange exchange_of_readers(const Shard *s, Value v);
/* False if a rule asks for an exchange where there is none; told. */
bool exchanges_are_possible(const Module *m);

/* shard_space.c */
Space space_of(const Shard *s, const Ins *i);
/* Is an old value 0 everywhere? Then it is a partial sum of 0 as well. */
bool shard_is_zero(const Shard *s, Value old);
Axes space_axes(const Space *p); /* that its dims are split on */
/* Whole dims and sizes as they are in a space. */
Dim space_dim(const Shard *s, const Space *p, Dim d);
Type space_type(const Shard *s, const Space *p, Type t);
Attrs space_attrs(const Shard *s, const Space *p, Attrs a);

#endif
