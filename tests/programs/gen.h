/* gen.h - programs of the whole language, drawn from a seed, as text.
 *
 * A drawn program is well typed by construction: a value is known by its name and the set of its
 * dims, and an expression is asked for by the dims that it shall have. So most of what comes out is
 * legal, and what is refused is refused for what the generator does not follow (layouts that do not
 * come out even, say). */
#ifndef MGC_TESTS_PROGRAMS_GEN_H
#define MGC_TESTS_PROGRAMS_GEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct Text {
    char *data;
    size_t n, cap;
} Text;

void put(Arena *a, Text *t, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- what a program is made of --------------------------------------------------------------- */

typedef uint32_t Dims; /* a set of dims: a bit for each of Gen.dim */

enum {
    DIMS_MAX = 30,
    VALUES_MAX = 256,
    BLOCKS_MAX = 6,
    INSTANCES_MAX = 4,
    ARGS_MAX = 4,
    NUMBERS_MAX = 16,
    SIZE_MAX_ELEMENTS = 1500,
    RANK_MAX = 6,
};

typedef struct GenDim {
    const char *name;
    int size;
    bool iterations;   /* counts the iterations of repeats, and is of no tensor */
    bool local;        /* of a block */
    bool gone;         /* out of sight */
    const char *alias; /* what it is called in the body that is being written; NULL: by its name */
} GenDim;

typedef enum { KIND_float, KIND_index } Kind;

typedef struct GenValue {
    const char *name;
    Kind kind;
    Dims dims;
    int indexes; /* KIND_index: the dim */
    bool param;  /* cannot be assigned */
} GenValue;

/* A block: what it is called with, and what it gives. All dims in `used` mean something in its
 * body; the others may come along with its first argument, and are then in its result. */
typedef struct GenBlock {
    const char *name;
    int nargs;
    GenValue arg[ARGS_MAX];
    Dims result, used;
    Dims extra; /* the bit of Gen.extra, which a model has no more */
    bool two;   /* it returns another value as well, and is called by a statement */
    Dims second;
    int along, over; /* the dim that these are given as; -1: none */
    const char *option, *flag;
    bool must;   /* the option has no default */
    bool params; /* so that a call may have a name */
} GenBlock;

/* An instance of a block, in sight. */
typedef struct GenInstance {
    const char *name;
    int block;
    bool called; /* so that it has parameters */
} GenInstance;

typedef struct Gen {
    Arena *a;
    uint64_t rng;
    Text *out; /* where statements go */
    int indent;
    GenDim dim[DIMS_MAX];
    int ndims;
    GenValue value[VALUES_MAX];
    int nvalues;
    GenBlock block[BLOCKS_MAX];
    int nblocks;
    GenInstance instance[INSTANCES_MAX];
    int ninstances;
    const char *written;             /* a block that writes attention out, or NULL */
    const char *number[NUMBERS_MAX]; /* constants and options in sight */
    int nnumbers;
    const char *iteration; /* the number of that of the nearest repeat `at` it, or NULL */
    int names;             /* how many were given */
    int batch, seq, vocab, classes,
        extra; /* dims; -1: there is none. extra: stands for more dims */
    int experts, choice, best, slot, rows;
    bool named; /* inputs by name */
    bool weighted;
    int blocks;  /* the dim that blocks of a base in NF4 are of; -1: it is not made for them */
    bool plain;  /* a model that layouts take: little that looks across dims */
    int ordered; /* the dim of positions that see those before them alone; -1: none */
    const char *start;   /* where documents of the data begin, or NULL */
    int loops[4], depth; /* the repeats and scans around, as dims */
    int scanned;         /* the dim of the scan around; -1: there is none */
    Text *before;        /* of a scan: where its parameters go */
    int before_indent;
    Dims fixed, used;         /* dims that nothing sums over; dims that the body has used */
    int budget;               /* expressions that may still be drawn */
    const char *external[64]; /* names of parameters, for rules */
    const char *matrix[16];   /* ... of such that may have an adapter */
    int nexternal, nparams, nmatrices;
    const char *other;     /* a loss beside the first, or NULL */
    const char *own;       /* the optimizers that the file declares, or NULL */
    bool own_ranges;       /* with ranges of their settings */
    const char *inner[16]; /* names of what repeats compute */
    int ninner;
    Dims model, repeated; /* dims of its parameters and inputs, and that its repeats are over */
    Dims linear;          /* that scans go along which update their state linearly */
} Gen;

/* The text of the program of a seed; lives in a. */
const char *gen_program(Arena *a, uint64_t seed);
/* The same with one small thing changed, which may make it no program. */
const char *gen_mutate(Arena *a, const char *text, uint64_t *rng);

/* ---- gen.c ----------------------------------------------------------------------------------- */

uint64_t gen_random(uint64_t *rng);
int draw_below(Gen *g, int n); /* below n */
bool draw_one_in(Gen *g, int n);
int draw_between(Gen *g, int low, int high);
const char *new_name(Gen *g, const char *stem);

void line(Gen *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int add_dim(Gen *g, const char *name, int size);
static inline Dims bit(int d)
{
    return d < 0 ? 0 : (Dims)1 << d;
}
int64_t elements(const Gen *g, Dims d);
int rank_of(Dims d);
bool small(const Gen *g, Dims d);
const char *dim_name(Gen *g, int d); /* and notes that it is used */
/* A dim of the set, or of those that tensors may have and are not in it; -1: none. */
int draw_dim(Gen *g, Dims among);
Dims tensor_dims(const Gen *g);
Dims named_dims(const Gen *g);                               /* all that can be written */
const char *dim_list(Gen *g, Dims d, const char *separator); /* in random order */
const char *over_list(Gen *g, Dims d);                       /* `d`, or `(d, e)` */

GenValue *add_value(Gen *g, const char *name, Kind kind, Dims dims, int indexes);
const GenValue *draw_value(Gen *g, Kind kind, Dims within);
Dims reach(const Gen *g); /* the fixed dims that some value has */

/* ---- expr.c ---------------------------------------------------------------------------------- */

/* Floating point with exactly these dims. Parameters that it wants are declared on lines before. */
const char *expression(Gen *g, Dims want, int depth);
/* One that any operator may stand beside. */
const char *term(Gen *g, Dims want, int depth);
const char *number(Gen *g, int depth);
const char *leaf(Gen *g, Dims want);
const char *declare_param(Gen *g, Dims dims, const char *stem);
/* A product with a matrix in whole blocks; NULL: it cannot have these dims. */
const char *of_blocks(Gen *g, Dims want);

/* ---- call.c: functions of several dims, blocks ----------------------------------------------- */

/* NULL: it cannot have these dims. */
const char *block_called(Gen *g, Dims want, int depth);
/* Declares an instance of a block whose parameters have the same dims in all calls. */
void new_instance(Gen *g);
void new_follower(Gen *g); /* with the one that it follows, and a call of that */
/* Of a block that returns two values, and their dims. */
const char *pair_called(Gen *g, Dims result[2], int depth);
/* A block that writes attention out, in one of the ways there are, or nearly so. */
void write_attention(Gen *g);
const char *attended(Gen *g, Dims want, int depth);
/* behind.c: what positions take of those before them, in a model of ordered positions. */
const char *behind(Gen *g, Dims want, int depth);
/* The comment that a model of such positions has behind its head. */
#define ORDERED "# each position sees those before it"
const char *routed(Gen *g, Dims want, int depth);

/* ---- body.c ---------------------------------------------------------------------------------- */

void write_block(Gen *g);
void write_model(Gen *g);

/* ---- optimizer.c ----------------------------------------------------------------------------- */

/* Declares one in g->own; how a train block calls it. */
const char *own_optimizer(Gen *g);

/* ---- settings.c, layout.c -------------------------------------------------------------------- */

void write_train(Gen *g);
void write_config(Gen *g);
void write_layouts(Gen *g);

#endif
