/* ir.h - the program between the parser and the plan: tensors with named dims, in SSA form.
 *
 * A Module holds functions (@train, @eval, @sample, @round; @prefill, @decode and @spread). A
 * function is one Region: arguments, instructions in order, results. `repeat` and `fused`
 * instructions own a region of their own. A value is a number into Module.values; it is defined
 * once, by an instruction or as a region's argument. ir/README.md is the reference of the text
 * form, of every op, and of the numbered invariants that ir_verify checks. */
#ifndef MGC_IR_H
#define MGC_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/names.h"
#include "ir/precision.h"
#include "ir/taps.h"
#include "ir/train.h"
#include "ir/type.h"

/* ---- instructions ------------------------------------------------------------------------- */

typedef enum Op {
    OP_none,
#define PRIMITIVE(name, ...) OP_##name,
#define COMPOSED(name, ...)  OP_##name,
#define OP(name, ...)        OP_##name,
#include "ir/ops.def"
    OP_count
} Op;

enum {
    CHEAP = 1,
    FUSE = 2,
    VIEW = 4,
    CALL = 8,
    EFFECT = 16,
    INTEGER = 32,
    POINTWISE = 64,
    COMM = 128,
    SUMS = 256,
    FUNCTION = 512,
    CONDITION = 1024,
    LINEAR = 2048,
    ADDITIVE = 4096
};

/* The numbers that a pointwise op is for, as in ops.def; each has those before it. */
typedef enum Takes { TAKES_REAL, TAKES_NUMBER, TAKES_STORED, TAKES_ANY } Takes;

typedef enum AttrId {
#define ATTR(name, kind) ATTR_##name,
#include "ir/attrs.def"
    ATTR_count
} AttrId;

/* One for each dim of a list. */
typedef struct Factors {
    int n;
    int32_t by[MAX_RANK];
} Factors;

typedef struct Attrs {
#define TYPE_OF_DIMS     DimList
#define TYPE_OF_DIM      Dim
#define TYPE_OF_INT      int64_t
#define TYPE_OF_REAL     double
#define TYPE_OF_FLAG     bool
#define TYPE_OF_MARK     bool
#define TYPE_OF_NAME     Name
#define TYPE_OF_AXES     Axes
#define TYPE_OF_SHARE    double
#define TYPE_OF_COUNT    int64_t
#define TYPE_OF_OTHER    Dim
#define TYPE_OF_FACTORS  Factors
#define TYPE_OF_TAPS     const Taps * /* of a module, or of whoever has the attributes */
#define ATTR(name, kind) TYPE_OF_##kind name;
#include "ir/attrs.def"
} Attrs;

enum { RULE_OPERANDS = 24 }; /* that an op other than repeat and fused has at most */

typedef struct OpInfo {
    const char *name;
    int min, max, results; /* 250: any number */
    unsigned flags;
    uint64_t attrs; /* bit per AttrId */
    /* Of pointwise ops: */
    Takes takes;
    double flops;      /* per element */
    const char *value; /* text; NULL: a primitive */
    const char *vjp;   /* text */
} OpInfo;

extern const OpInfo op_info[OP_count];
Op op_find(const char *name); /* OP_none if there is none */
static inline bool op_is(Op op, unsigned flag)
{
    return (op_info[op].flags & flag) != 0;
}
/* Is op one of those listed? */
#define OP_AMONG(op, ...)                                                                          \
    op_among(op, (const Op[]){__VA_ARGS__}, sizeof(Op[]){__VA_ARGS__} / sizeof(Op))
static inline bool op_among(Op op, const Op *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == op)
            return true;
    return false;
}
static inline bool op_is_product(Op op)
{
    return op >= OP_dot && op <= OP_dot_gelu_grad;
}
/* Attribute fp8 of a dot: what its operands are. */
enum { FP8_none, FP8_values, FP8_gradient /* the first is a gradient */ };
/* The value of a pointwise op on doubles (comparisons give 0 or 1): ir/op_value.c. */
double op_evaluate(Op op, double a, double b, double c);

typedef uint32_t Value; /* index into Module.values; 0 is none */
typedef struct Ins Ins;
typedef struct Region Region;
typedef struct Module Module;

struct Ins {
    Op op;
    uint32_t nin, nout;
    Value *in, *out;
    Attrs attrs;
    Region *body;  /* repeat, fused */
    Region *home;  /* the region it stands in */
    Span span;     /* where in the source it comes from */
    Name path;     /* which block instance: "layers.self_attn" */
    Name block;    /* the block's name in the source: "attend"; 0 at the top */
    bool backward; /* made by the differentiator */
    bool again;    /* ... to compute once more what the forward part did */
    bool keep;     /* forward, in a repeat: what the backward part reads of it is kept for it */
    bool exact; /* its bits are promised. dot: nothing else is summed in it, for a copy of it has to
                   give the same; add: of two parts of a tree, in no other order and rounded by
                   itself; sum: from the first element to the last */
};

/* repeat over dim d of n: operands are `carried` initial values, then stacked values (each has d);
 *   body arguments: the carried values, then the slices (d dropped), then one i32 scalar, the
 * index; body results: the next carried values, then values to stack (d is put first in the type).
 *   Results: the carried values after the last iteration, then the stacked ones.
 *   The body may also use values of the regions around it.
 * fused: one kernel. Operands are the body's arguments, one to one; the body uses nothing else. */
struct Region {
    VEC(Value) args;
    VEC(Ins *) ins;
    VEC(Value) results;
    Ins *owner; /* NULL for a function's */
    Region *parent;
};

typedef struct ValueInfo {
    Type type;
    Name name; /* a hint, never 0; printed names are made unique by ".N" */
    Ins *def;  /* NULL for a region's argument */
    Region *home;
} ValueInfo;

/* ---- module ------------------------------------------------------------------------------- */

typedef enum Init { INIT_const, INIT_normal, INIT_uniform, INIT_formula } Init;

/* Ranks along the axis of pipeline stages: a set of these. */
typedef uint8_t StageSet;
enum { AT_FIRST = 1, AT_MIDDLE = 2, AT_LAST = 4, AT_ALL = 7 };
extern const char *const stage_names[3]; /* as in the text */

/* A parameter of an adapter, in PEFT's words: [rank, in], [out, rank], of DoRA [out]; or one of the
 * model that is trained whole beside it (modules_to_save). */
typedef enum AdapterPart {
    ADAPTER_none,
    ADAPTER_A,
    ADAPTER_B,
    ADAPTER_magnitude,
    ADAPTER_whole
} AdapterPart;

/* A part of a frozen matrix w that is kept in fewer bits. In NF4: a byte for each two of its
 * elements, which has the file's name; for each block of elements the absmax, in units of a scale,
 * off an offset. w = number of NF4 (absmax scale + offset), of which the matrix of files has one
 * offset. In int8: a byte for each element, and a scale for each row. */
typedef enum BasePart {
    BASE_none,
    BASE_codes,
    BASE_absmax,
    BASE_scale,
    BASE_offset,
    BASE_bytes
} BasePart;

/* A tensor that outlives a step: a parameter, a slot of optimizer state of the same shape, or the
 * rounded copy of a parameter, which programs read in its place. Parameters and state may be of
 * halves as well (passes/step/narrow.c). */
typedef struct Tensor {
    Name name; /* path, unique: "layers.self_attn.wq"; state: "exp_avg.layers.self_attn.wq" */
    Name
        external; /* "model.layers.{}.self_attn.q_proj.weight" (of the parameter, also for state) */
    Name slot;    /* 0 for a parameter, else "exp_avg", ...; "rounded" of a copy */
    Type type;    /* as stored: the dims of the repeats around it first */
    Axes axes[MAX_RANK], zigzag[MAX_RANK];    /* after pass local: those its dims are split on */
    int stacked;                              /* how many dims are indices in its name: those, */
    int numbered;                             /* then so many of its own (experts) */
    int64_t valid[MAX_RANK];                  /* per stored dim: size without padding */
    uint8_t order[MAX_RANK], merge[MAX_RANK]; /* external form, as in runtime/abi.h */
    int external_rank;
    int part_dim; /* a part of an external tensor has its elements from part_at along this external
                   */
    int64_t part_at, part_of; /* dim, which is of the size part_of; part_of 0: it has all of them */
    Init init;
    double a, b;        /* const a; normal(mean a, std b); uniform [a, b) */
    Name formula;       /* as ir/initial.h says it; 0: another init */
    uint32_t parameter; /* state: index of its parameter; parameter: its own */
    /* Number from 1 of the tensor that it is a moving average of; 0: none. It begins as that, and
     * the optimizer leaves it as it is: behind the update of that tensor it becomes
     * beta it + (1 - beta) that. beta, from 0 to 1, is a formula of the step (ir/initial.h). */
    uint32_t follows;
    Name beta;
    int64_t every;      /* of so many steps the last changes it, the others leave it; 1: each */
    double decay, rate; /* weight decay; factor of the learning rate */
    uint8_t goal;       /* the one that changes it, or of which it is the state */
    bool unread;        /* the front end has told that no expression names it */
    uint8_t adapter;    /* AdapterPart: of the adapter, which alone is trained. Of A and B: */
    bool turned;        /* the matrix is [in, out] in files, not [out, in] */
    double scale;       /* of A B, beside the matrix */
    bool frozen;        /* not trained: neither gradient nor state */
    uint8_t base;       /* BasePart: of a frozen matrix in fewer bits; scales follow the codes */
    bool absmax;        /* of the blocks of the state before it, which is kept in 8 bits */
    bool rounded;       /* the copy of its parameter (slot "rounded") */
    bool master;        /* nothing but its update and @round reads it: it lies as its state does */
    bool ahead;         /* of fp8: layers read what is made of it ahead of them, once a step */
    StageSet at;        /* after pass shard: the ranks along the axis of stages that have it */
    Span span;
} Tensor;

typedef enum ArgRole {
    ARG_param,
    ARG_rounded, /* the copy of a parameter */
    ARG_state,   /* .tensor says which, of all three */
    ARG_input,   /* .tensor says which of Module.inputs: [batch, ...], of the compute type or i32 */
    ARG_tokens,  /* i32[batch, window] */
    ARG_weight, /* [batch, window - 1], of the compute type: what each token but the first counts */
    ARG_documents, /* i32[batch, window]: where in the window each token's document begins; it does
                      not fall, nor lies behind the token. Padding is documents of one token */
    ARG_lr,        /* f64[]: of goal .tensor */
    ARG_scale,     /* f64[]: what the loss is multiplied by before it is differentiated */
    ARG_step,      /* i64[], from 0 */
    ARG_seed,      /* i64[] */
    ARG_pos,       /* i32[]: sample: the last position */
    ARG_filled,    /* i64[]: eval: so many of the batch are rows; those after them fill it up */
    ARG_before,    /* i64[]: eval: rows that were evaluated before these */
    ARG_begin,     /* i32[batch]: prefill, decode: the position of the first of its new tokens */
    ARG_count,     /* i32[batch]: ... how many of them there are; those behind them are none.
                      spread: 1: the text takes what its prompt left, 0: it does not */
    ARG_cache,     /* prefill, decode, spread: what positions before left; RES_cache of this number
                      is that with what the call adds */
    ARG_total,     /* f64[...]: eval: what RES_total of this number was of the rows before */
    ARG_place      /* i32[]: the rank's place along the axes that .tensor is the set of */
} ArgRole;
typedef enum ResultRole {
    RES_loss,    /* f64[]: of goal .tensor; eval, of the first: of all rows so far */
    RES_norm,    /* f64[]: of the gradients of goal .tensor */
    RES_dropped, /* f64[]: train: the share of rows that experts had no room for (pass send_rows) */
    RES_metric,  /* f64[]; eval: of all rows so far; .tensor says which of Module.metrics */
    RES_logits,  /* sample, prefill, decode: of the next token; eval with rollouts: the log
                    probability  of each target */
    RES_cache,   /* of the type of ARG_cache of its number: with what the new positions leave; equal
                    numbers of functions are one tensor, 0 where a text begins */
    RES_total, /* f64[...]: eval: the sum (or maximum) over all rows so far of what the loss needs;
                  .tensor is its number in Fn.totals */
    RES_grad, /* between differentiate and update: the gradient of parameter .tensor, of its type */
    RES_update
} ResultRole;

extern const char *const arg_role_names[], *const result_role_names[]; /* as in the text */
enum { ARG_ROLES = ARG_place + 1, RESULT_ROLES = RES_update + 1 };

typedef struct FnArg {
    ArgRole role;
    uint32_t tensor; /* up to ARG_state: index in Module.tensors; ARG_input: in Module.inputs;
                        ARG_cache: its number; ARG_total: in Fn.totals; ARG_place: axes; ARG_lr: in
                        Train.goal */
} FnArg;
typedef struct FnResult {
    ResultRole role;
    uint32_t tensor; /* RES_update: the tensor whose new value this is; RES_grad: the parameter;
                        RES_metric: in Module.metrics; RES_total: in Fn.totals; RES_cache:
                        its number; RES_loss,
                        RES_norm: in Train.goal */
} FnResult;

/* After `update`: the value that is the whole gradient of a parameter. */
typedef struct FnGradient {
    Value v;
    uint32_t tensor;
} FnGradient;

typedef struct Fn {
    Name name; /* "train", "eval", "sample", "round", "prefill", "decode", "spread"; "generate", of
                  which passes generate and spread make the last three */
    Region *body;
    VEC(FnArg) args;       /* parallel to body->args */
    VEC(FnResult) results; /* parallel to body->results */
    VEC(FnGradient) gradients;
    VEC(bool)
    totals;          /* of each ARG_total: is it a maximum (-infinity before the first row), and no
                        sum (0)? */
    int64_t prefill; /* generate: so many positions are new at once while prompts are read */
    int64_t group;   /* generate: so many texts that lie one after another begin with one prompt,
                        which is read once for all of them; 0: each has its own */
    int64_t
        head;   /* generate: the longest head that attention of the device has tiles for; 0: any */
    bool whole; /* prefill, decode: `count` is the number of all new positions, or 0 */
    int64_t cuts; /* prefill, decode: a text of so many positions or fewer can be cut back to some
                     of its first ones: caches have each of them in a place of its own */
    Axes batch;   /* after pass local: those that its sequences are split on */
} Fn;

/* An input by name, of a model without a token window: a row of a data file's tensor a sample. */
typedef struct Input {
    Name name;
    int64_t limit; /* indices are below it; 0: numbers */
} Input;
enum { MAX_INPUTS = 8, MAX_METRICS = 32, MAX_CACHES = 512 };

#include "ir/layout.h"

/* The dim of the loops in which keys go round: none of a source is called so. */
#define RING_ITERATION "ring.iteration"
/* The name of the dim of the chunks of a scan along `seq` is "seq.chunk". */
#define SCAN_CHUNK "chunk"
/* ... and of parts of chunks, where a layout splits it, "seq.part". */
#define SCAN_PART "part"

/* Writes the rule of one parameter at the builder's end: out[0] is its new value, then come those
 * of its states. False: it cannot, which is a bug of mgc and was reported. */
typedef struct RuleCall RuleCall; /* ir/optimizers.h */
struct Builder;
typedef bool UpdateRule(struct Builder *b, const RuleCall *c, Value *out);

struct Module {
    Arena *arena;
    Names *names;
    Diag *diag;
    Name name;             /* the model's */
    const char *source;    /* path as given */
    Dim batch, seq;        /* the dims of the token input; seq counts targets (no name, 1: none) */
    int64_t vocab;         /* valid token ids are below it */
    VEC(Input) inputs;     /* instead of tokens */
    VEC(Name) metrics;     /* that @eval gives, each once, besides the loss */
    VEC(ValueInfo) values; /* [0] is unused */
    VEC(Tensor) tensors;
    VEC(Fn *) fns;
    Train train;
    Layout layout;
    const char *adapter;     /* adapter_config.json of what is trained, from its second line on, or
                              * NULL: then all parameters but the adapter's are frozen */
    const char *config;      /* config.json of its checkpoints, or NULL */
    UpdateRule *update_rule; /* NULL: nobody has set it since the text was read */
    const void *rules;       /* update_rule's own: what it read with the source, NULL for a text */
    /* After pass local: types say no more how values lie, and communication says all by its
     * attributes. */
    bool local;
};

Module *module_new(Arena *a, Names *names, Diag *d);
Fn *module_fn(const Module *m, const char *name); /* NULL if absent */
/* A copy in `a` that passes may change; values have the same numbers. It shares names, messages and
 * what no pass changes. fn: only that function, NULL: all. */
Module *module_copy(const Module *m, const char *fn, Diag *d, Arena *a);

static inline const Type *type_of(const Module *m, Value v)
{
    return &m->values.data[v].type;
}

/* The slot of rounded copies: no optimizer's state of halves is called so. */
#define ROUNDED_SLOT "rounded"

/* Is t the rounded copy of its parameter? */
static inline bool tensor_is_rounded(const Tensor *t)
{
    return t->rounded;
}

/* The type that a parameter, or state, is kept in where that is not the one that the program
 * computes in; else DT_none. The matrices of an adapter's base are kept in bf16 where products read
 * that; they do not change, so nothing is lost. Followers, state of one number and parameters of
 * one are kept as they are. */
DType tensor_kept(const Module *m, const Tensor *t);

/* Is t a matrix of layers, trained, or the copy of one, of which layers read what is made of it
 * ahead of them? */
static inline bool tensor_is_ahead(const Tensor *t)
{
    return t->ahead && t->stacked && t->external_rank >= 2 && !t->frozen;
}

/* The class by whose rules a tensor is split: of what is only read where its state is, where there
 * are rules for state, by these. So lie masters; matrices of layers that these read as they were
 * rounded ahead of them, but where a step generates with the halves; and, where the first
 * microbatch gathers (Layout.once), those in halves, and copies of masters. */
TensorClass tensor_class(const Module *m, const Tensor *t);

/* rounded.c - the invariant of copies (I13). Writes what is wrong into `why`, in m's arena, and
 * returns false, or returns true: if each copy is the rounding of its parameter before a function
 * of m runs, it is so behind it; and behind @round it is so whatever was before. */
bool ir_rounded_holds(const Module *m, const char **why);

/* ---- building ----------------------------------------------------------------------------- */

/* Appends new instructions to `region`, with these marks. */
typedef struct Builder {
    Module *m;
    Region *region;
    Span span;
    Name path, block;
    bool backward, again;
} Builder;

Region *region_new(Module *m, Region *parent);
Value region_arg(Module *m, Region *r, Type t, Name hint);
Value value_new(Module *m, Region *home, Type t, Name hint);

/* An instruction with `nin` operands; result types come from the op's rule. Returns the first
 * result (further ones: build_ins(...)->out). An operand that breaks the rule is an internal
 * error: callers that take input from people check first, with type_check. */
Value build(Builder *b, Op op, const Attrs *attrs, int nin, const Value *in);
Ins *build_ins(Builder *b, Op op, const Attrs *attrs, int nin, const Value *in);
/* With the result types given: another order of dims, more dims (copy), another dtype (cast). */
Ins *build_typed(Builder *b, Op op, const Attrs *attrs, int nin, const Value *in, int nout,
                 const Type *types, Region *body);

Value build1(Builder *b, Op op, Value x);
Value build2(Builder *b, Op op, Value x, Value y);
Value build_const(Builder *b, DType t, double value);
Value build_cast(Builder *b, Value x, DType t);            /* x itself if it has that type */
Value build_sum(Builder *b, Value x, const DimList *over); /* x itself if over is empty */
Value build_dot(Builder *b, Value x, Value y, const DimList *over);
Value build_iota(Builder *b, DType t, Dim d);
Value build_as(Builder *b, Value x, Type t); /* copy to the dims and order of t (broadcasting) */

/* Are the attributes that op has equal? (attrs.c) */
bool attrs_equal(Op op, const Attrs *a, const Attrs *b);

/* The dim of keys and values. */
static inline Name attention_keys(const Attrs *a)
{
    return a->keys.name ? a->keys.name : a->along.name;
}
/* q with the dims that only k has: keys of several heads, or of several sequences, for the same
 * queries. q itself where there are none, or too many. */
Value attention_queries(Builder *b, const Attrs *a, Value q, Value k);
/* The dims of a head of values, of attention over these keys: the head's own, or others that the
 * keys lack. */
DimList attention_value_head(const Attrs *a, const Type *k, const Type *v);

/* Index of the operand that an instruction adds to, whose storage its result may take; or -1. */
int ins_added(const Ins *i);

/* Does a join lay its parts one behind the other in memory, too: along its outermost dim of several
 * elements, and all in one order of dims? Of other joins the parts are strided. */
bool join_is_outermost(const Module *m, const Ins *join);

/* Applies the op's typing rule to operands: fills the result types and returns NULL, or a message
 * (in m->arena) that says what is wrong with them. */
const char *type_check(Module *m, Op op, const Attrs *attrs, int nin, const Value *in, int nout,
                       Type *out);

/* ---- text, checking, meaning -------------------------------------------------------------- */

/* Prints so that ir_parse gives the same module back: print(parse(print(m))) == print(m). */
void ir_print(const Module *m, FILE *out);
void ir_print_ins(const Module *m, const Ins *i, FILE *out); /* one line, for messages */
/* Reads a text; errors go to m->diag (codes 04xx). NULL on error. */
Module *ir_parse(Arena *a, Names *names, Diag *d, uint32_t file);

/* Checks every invariant of ir/README.md; returns the number broken, each reported on `out` with
 * the instruction. A broken invariant is a bug of mgc, not of the source. */
int ir_verify(const Module *m, FILE *out);

/* Ends the process with 70 where mgc is found to be wrong and cannot go on: says what is wrong, and
 * with which instruction (NULL: with none). */
_Noreturn void ir_broken(const Module *m, const Ins *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* stage_set.c - on which ranks along the axis of stages a value is known or, of an argument,
 * needed: per value of the module; AT_ALL where there are no stages. A `repeat` with the mark
 * `relay` is run by one stage after the other: what it carries is where it begins before it, and
 * where it ends after it. Something computed from values of different stages is there where all
 * of them are; 0: nowhere, a broken invariant. */
StageSet *ir_stage_set(const Module *m, const Fn *fn, Arena *a);
/* Per value of the module, the stages that could know it: forward from the values that relays hand
 * on and from the tensors that have a place. */
StageSet *ir_available(const Module *m, const Region *r, const Fn *fn, Arena *a);

/* ---- walking and changing ----------------------------------------------------------------- */

/* Does i round a product of halves after its bias was added? The two are one: made, kept and
 * differentiated as one. */
bool ir_ends_product(const Module *m, const Ins *i);

/* Index of a value among the arguments of its region; -1: it is none. */
int arg_index(const Module *m, Value v);
/* The loop whose body takes v as a slice of its operand; NULL if it is none. */
const Ins *slice_loop(const Module *m, Value v, Value *stacked);

/* Uses of every value in a function (instruction operands, body results included), by value. */
typedef struct Uses {
    uint32_t *count;
} Uses;
Uses ir_uses(const Module *m, const Region *r, Arena *a);
/* Replaces each use of v[i] inside r and the regions in it by map[v] where map[v] is not 0. */
void ir_replace(Region *r, const Value *map);
/* Copies an instruction (and its regions) to the builder's end; operands through map, results
 * entered into map. map has one slot per value and grows: pass the address of the array. */
typedef struct ValueMap {
    Value *data;
    size_t n;
} ValueMap;
Value map_get(const ValueMap *map, Value v); /* v itself where nothing was entered */
void map_set(Module *m, ValueMap *map, Value from, Value to);
Ins *ir_clone(Builder *b, const Ins *i, ValueMap *map);

#include "ir/mesh.h"
#endif
