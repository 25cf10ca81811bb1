/* fuse.h - fusion: private to fuse*.c.
 *
 * Within one region the pointwise and reducing instructions are grouped into clusters, each of
 * which becomes one `fused` instruction, one kernel. A cluster is a set of positions in the region;
 * an instruction has one cluster that owns it, and others may compute it once more. Constants and
 * iota belong to whoever uses them.
 *
 * One place says what a cluster may be, shape_of (fuse_shape.c); fuse_merge.c says who is merged
 * with whom; fuse_emit.c writes the result. */
#ifndef MGC_PASSES_FUSE_H
#define MGC_PASSES_FUSE_H

#include "base/memo.h"
#include "ir/ir.h"

typedef enum Kind { KIND_none, KIND_map, KIND_row, KIND_col } Kind;

enum {
    FUSE_OPERANDS = 20,    /* inputs and outputs of a kernel */
    FUSE_BROADCAST = 2,    /* flops a value may cost that is computed again per broadcast element */
    FUSE_AGAIN = 8,        /* flops a value may cost that two kernels compute each for itself */
    FUSE_ROTATED = 16,     /* flops a value may cost that is also evaluated at a rotated index */
    FUSE_ROW_ALONE = 4096, /* elements of a row kernel that has only one row */
    FUSE_ROW_LEAST = 256,  /* ... of a row of which a part of a maximum is taken */
    FUSE_SMALL = 16        /* a value this much smaller than another costs nothing beside it */
};

/* A set of instructions as one kernel would see it. */
typedef struct Shape {
    Kind kind; /* KIND_none: no kernel can be this; `why` says why */
    const char *why;
    DimList space;   /* all dims iterated */
    DimList reduced; /* row: R; col: Q */
    double bytes;    /* read and written */
    int nin, nout;
    Value in[FUSE_OPERANDS], out[FUSE_OPERANDS];
} Shape;

typedef struct Cluster {
    int n;
    int *member; /* positions, ascending */
    bool *extra; /* owned by another cluster: computed again here */
    bool gone;   /* merged into another, or of no use */
    int mark;    /* of the last walk that came by */
    int number;  /* among those that are remembered */
    Shape shape;
} Cluster;

typedef struct Users {
    int n;
    int *at; /* positions of the instructions that use a value; region results: ins.n */
} Users;

typedef VEC(Cluster *) Holders;

typedef struct Fuse {
    Module *m;
    Region *r;
    Arena *tmp;
    FILE *why;              /* decisions are told here; NULL: nowhere */
    DimList depth;          /* dims of repeats: sizes are compared without them */
    int n;                  /* instructions */
    int guard;              /* position of the guard, or -1: nothing moves across it */
    const StageSet *stages; /* per value of the function: where it is needed */
    int *at;                /* per value: position of its definition in r, or -1 */
    Users *users;           /* per position, over all its results */
    Cluster **owner;        /* per position: the cluster that owns it; NULL: stands alone */
    Holders *holders; /* per position: every cluster that computes it, some gone ones included */
    int *mark;        /* per position that stands alone: of the last walk that came by */
    int walk;         /* number of the last walk */
    int *look;        /* per position: of the last look at a set that has it; [n]: looks */
    struct Delays *delays;   /* NULL: nothing is sent that could be made earlier */
    VEC(Cluster *) clusters; /* in order of creation, gone ones included */
} Fuse;

/* fuse.c */
bool fusible(const Ins *i);
bool fuse_leaf(const Ins *i); /* const, iota: free wherever it is used */
void fuse_tell(const Fuse *f, const Cluster *a, const Cluster *b, const char *verdict,
               const char *why);
bool cluster_has(const Cluster *c, int at);
/* a's and b's members as one set. */
Cluster *cluster_union(const Fuse *f, const Cluster *a, const Cluster *b);
Cluster *cluster_with(const Fuse *f, const Cluster *a, int at, bool extra);

/* Puts c in the place of a and b (NULL: none). */
void cluster_replace(Fuse *f, Cluster *c, Cluster *a, Cluster *b);
/* Values that c computes for others; a and b are taken as replaced by it. */
bool cluster_gives(const Fuse *f, const Cluster *c, const Cluster *a, const Cluster *b, int at);
/* Drops clusters that give nothing, until all do. */
void fuse_prune(Fuse *f);

/* fuse_shape.c: fills c->shape; a and b as for cluster_gives */
void shape_of(const Fuse *f, Cluster *c, const Cluster *a, const Cluster *b);
/* The dim of the smallest stride of a tensor in memory; 0: all dims are of size 1. */
Name fuse_innermost(const Fuse *f, Value v);
double value_elements(const Fuse *f, Value v); /* an iteration of the loops it is stacked for */
bool dims_equal(const DimList *a, const DimList *b); /* as sets */
double dims_elements(const DimList *l);

/* fuse_merge.c */
void fuse_columns(Fuse *f);
void fuse_chains(Fuse *f);
void fuse_siblings(Fuse *f);
/* fuse_spare.c: values computed again by their users rather than stored */
void fuse_spare(Fuse *f);
/* Does any path lead from a to b through a third? */
bool fuse_path_between(Fuse *f, const Cluster *a, const Cluster *b);

/* fuse_delay.c: once, before any are merged; and whether something that is sent would be made too
 * late if two clusters were one. */
void fuse_find_delays(Fuse *f);
bool fuse_delays(const Fuse *f, const Cluster *a, const Cluster *b);

/* fuse_memo.c: all that clusters of a region depend on, but for what is sent (f->delays), before
 * there are any; they are remembered, and made again. False: they are not remembered. */
MemoKey fuse_key(const Fuse *f);
void fuse_remember(const Fuse *f, MemoKey key);
bool fuse_recall(Fuse *f, MemoKey key);

/* fuse_emit.c: writes the region anew */
void fuse_emit(Fuse *f);
/* fuse_split.c: reductions that fit no kernel are split or transposed; views that leave a region or
 * enter a loop are copied */
void fuse_prepare(Module *m, Region *r, Arena *tmp);
/* A rank may have several stages: a phase runs the layers of one, and can make no value that is of
 * all the rank's layers. The layers' indices in a function's region r are made outside of its
 * loops. */
void fuse_index_layers(Module *m, Region *r);

/* fuse.c: all functions of a module; decisions to `why` if it is not NULL */
void fuse_module(Module *m, Arena *tmp, FILE *why);

#endif
