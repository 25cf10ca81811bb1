/* elab.h - what the files of the elaboration share. One Elab is passed to all of them.
 *
 *   globals.c    dims and constants, -D                scope.c     names, frames, messages
 *   layout.c     layout blocks                         train.c     the train block
 *   elaborate.c  functions of the module, the model    statement.c statements; loop.c repeat, scan
 *   metric.c     metrics                               call.c      arguments, calls of blocks
 *   unused.c     what nothing uses
 *   param.c      parameters; instance.c calls share them  expr.c   expressions
 *   builtin.c    functions                             composite.c ops that prelude.mg defines
 *   sample.c     the row of logits that is asked for   update.c    rules of optimizers
 *   optimizer.c  optimizers that the file declares                                              */
#ifndef MGC_ELAB_H
#define MGC_ELAB_H

#include "grammar/eval.h"
#include "grammar/grammar.h"

enum {
    NEST_MAX = 900,      /* expressions inside expressions, through calls */
    WORK_MAX = 1000000,  /* nodes visited for one function */
    VALUES_MAX = 400000, /* results of operations, in all functions */
    PARAMS_MAX = 65536,
    LOCAL_DIMS_MAX = 1000, /* of one name and different sizes */
    PATH_MAX_BYTES = 512,
    PARAMETERS_MAX = 64, /* of a block */
    AXES_MAX = MAX_AXES,
    RANKS_MAX = 1 << 20,
    LAYOUTS_MAX = 256, /* of a file */
    STAGES_MAX = MAX_STAGES,
    WARNINGS_MAX = 20,
};

/* ---- a table from names (or any small number but 0) to pointers ---------------------------- */

typedef struct Map {
    uint32_t *keys;
    void **values;
    size_t n, slots;
} Map;

void *map_find(const Map *m, uint32_t key);
void map_put(Arena *a, Map *m, uint32_t key, void *value); /* replaces */

/* ---- names -------------------------------------------------------------------------------- */

typedef enum ValKind { VAL_POISON, VAL_NUMBER, VAL_TENSOR, VAL_SEVERAL } ValKind;

/* The value of an expression. POISON: an error was reported, and its users report none. SEVERAL:
 * the results of a block that has more than one; only a statement that names them takes it. */
typedef struct Val {
    ValKind kind;
    Number number;
    Value value;
    const struct Val *several;
    size_t count; /* of `several` */
} Val;

/* A dim as tensors know it. valid < size where the layout pads it. */
typedef struct DimInfo {
    Name name;
    int64_t size, valid;
    Span span;
    const void *frame; /* the block instance that made it; NULL for a global one, or one gone */
    bool local;
    bool pad_said; /* the chosen layout says how large it is stored: nothing else pads it */
} DimInfo;

typedef enum SymKind { SYM_DIM, SYM_CONST, SYM_VALUE, SYM_PARAM, SYM_BLOCK, SYM_INSTANCE } SymKind;

/* A block whose calls share their parameters, as it is declared in a frame. */
typedef struct Instance {
    const Node *node, *block;       /* block: NULL after an error */
    const char *path, *external;    /* of its parameters */
    struct Loop *loop;              /* around the declaration */
    const struct Instance *follows; /* whose parameters its own are averages of, or NULL; then: */
    Name beta;                      /* as Tensor has them */
    int64_t every;
} Instance;

typedef struct Sym {
    SymKind kind;
    Name name;
    Span span;
    const Node *node;  /* a global's expression, a block */
    struct Sym *other; /* a block of the prelude: the one of this name that takes more values */
    bool used;
    bool ready, busy;         /* a global: evaluated, being evaluated */
    bool gone;                /* assigned inside a repeat that has ended */
    bool metric;              /* SYM_VALUE: named by `metric` */
    bool fresh;               /* SYM_VALUE: nothing has read what it was given last, */
    bool by_repeat;           /* and the repeats around that have ended; */
    Span given;               /* the last assignment */
    const Instance *instance; /* SYM_INSTANCE */
    DimList dims;             /* SYM_DIM: one, or those an `over` parameter stands for */
    Val val;
} Sym;

typedef struct Frame {
    struct Frame *caller;
    const Node *block; /* BLOCK or MODEL; NULL: global expressions */
    Span call;
    bool prelude;
    struct Loop *loop; /* around the call */
    struct Loop *home; /* around the parameters: the same, but where an instance was declared */
    const Instance *follower; /* in a call of an instance that follows another, however deep */
    bool bare;                /* in a call of one that is another without its adapter, likewise */
    bool instance;            /* the call of one */
    bool shared;              /* in the call of an instance, however deep; then: */
    const char *place;        /* the calls that lead here; of an instance all calls are one */
    Map syms;
    VEC(Sym *) order;
    VEC(Name) dims;              /* declared here */
    VEC(Name) barred;            /* names of dims that the calls of its instances have */
    VEC(Name) refused;           /* declared here, though something else has the name */
    const char *path, *external; /* "layers.self_attn", "model.layers.{}.self_attn"; "" */
} Frame;

/* Iterations first, first + 1, ... of a repeat. The first `period` are written one behind the other
 * as the body of a loop of `count` iterations; if count is 1, there is no loop. */
typedef struct Run {
    int64_t first, period, count;
} Run;
typedef VEC(Run) RunList;

/* A loop over some of the iterations of the repeat over `whole`. */
typedef struct PartLoop {
    Name whole, dim;
    int64_t iterations; /* of the repeat */
} PartLoop;

/* A value from around a scan, and what its body reads of it. */
typedef struct Slice {
    Value of, slice;
} Slice;

/* A repeat or scan whose body is being built. */
typedef struct Loop {
    struct Loop *outer;
    Dim dim;
    Region *region, *outside;            /* its body; where it will stand */
    VEC(Value) carried, stacked, slices; /* arguments; operands of the loop; their slices */
    Value index;                         /* i32 */
    bool scan, counted;                  /* its body asks for the index */
    VEC(Slice) sources;                  /* of a scan: values that were read, each once */
} Loop;

typedef VEC(Loop *) LoopList;

/* A parameter that a call of an instance made, in the function being built. */
typedef struct Shared {
    const Node *node; /* its declaration, and where that was: Frame.place */
    const char *place;
    Span call; /* the call that made it */
    uint32_t tensor;
    Value arg;
} Shared;

/* A parameter of an instance that follows another. */
typedef struct Follower {
    const Instance *instance;
    uint32_t tensor;
    Span call; /* of the instance */
} Follower;

typedef enum Mode { MODE_TRAIN, MODE_EVAL, MODE_SAMPLE } Mode;

typedef struct Override {
    Name name; /* 0: another one of that name came later */
    const Node *node;
    Span span;
    bool used;
} Override;

/* A rule of a train block about some parameters: of those that follow its loss, but RULE_goal, by
 * which they do. general: of the optimizer's own `decay = ...
 * where ...`, which may hold for none. */
typedef enum RuleKind { RULE_decay, RULE_rate, RULE_frozen, RULE_goal } RuleKind;
typedef struct TrainRule {
    RuleKind kind;
    double value;
    const NodeList *where; /* empty: all */
    int goal;              /* number of the loss */
    bool *used, general;
} TrainRule;

/* Tensors whose external names differ in numbers alone. */
typedef VEC(uint32_t) Externals;
typedef struct ExternalNames {
    Externals plain, numbered; /* without a {}, with one */
} ExternalNames;

/* The windows of an input: at.data[n] begins n further on, or is 0. */
typedef struct Windows {
    Name name;
    Span span; /* of the input */
    Value arg;
    Dim along;
    VEC(Value) at;
} Windows;

/* adapter.h */
typedef struct AdapterLine AdapterLine;
typedef struct Adapted Adapted;

typedef struct Elab {
    Arena *arena;
    Names *names;
    Diag *diag;
    const Ast *ast, *prelude;
    const ElaborateOptions *options;
    Module *module;
    Builder b;
    VEC(Override) overrides;
    VEC(TrainRule) rules;                  /* in order */
    VEC(const OptimizerInfo *) optimizers; /* that the file declares */
    Span frozen_at, as_ready_at;
    const Node *cut_range;       /* a pattern of layers that cuts a parameter: it was told */
    VEC(AdapterLine *) adapters; /* of the adapter that is chosen */
    VEC(Adapted *) adapted_all;
    Map adapted_of;   /* Adapted, by number of the matrix + 1, */
    Map adapted;      /* and by the value that it is in the function being built */
    Map adapted_uses; /* what products made of them */
    /* names */
    Map globals, blocks, builtin_blocks; /* Sym by Name */
    VEC(Sym *) global_order, block_order;
    VEC(DimInfo) dims;
    Map dim_of; /* index in dims + 1, by Name */
    Frame *frame;
    /* the function being built */
    Mode mode;
    Fn *fn;
    Loop *loop;
    DType compute;
    Value tokens, next; /* the windows at 0 and at 1 */
    Value weight;       /* of the targets, or 0 */
    Value tokens_arg, step, seed, pos;
    Name batch;           /* the first dim of the inputs */
    Name vocab;           /* the dim that tokens index, or 0 */
    bool padding_said;    /* the chosen layout says whether that is padded */
    bool no_padding;      /* ... and `none`: of no dim but what it says */
    Value filled;         /* eval: how many rows there are, or 0 */
    VEC(Value) metrics;   /* of this function so far; of @eval with their values */
    bool in_metric;       /* the expression of one is elaborated */
    Value logits;         /* sample: of the first cross-entropy over next(...) */
    const Node *sampled;  /* that call */
    VEC(Value) documents; /* what document_start gave */
    VEC(PartLoop) parts;  /* train: the loops of repeats whose iterations are of several kinds */
    bool reads_next,
        reads_further; /* somewhere in the source: next(...), and more than next(tokens) */
    int64_t furthest, input_furthest[MAX_INPUTS]; /* the largest `by` so far */
    Windows token_windows, weight_windows, document_windows, input_windows[MAX_INPUTS];
    VEC(Ins *) windows, begins; /* made of them, and what stands behind them before all else */
    Map externals; /* tensor index + 1, by external name, and parts by their place too */
    VEC(Follower) followers;
    Map wholes;    /* Externals of parts in their order, by external name */
    Map shared;    /* Shared, by external name: of this function */
    Map alike;     /* ExternalNames, by external name without its numbers */
    Map paths;     /* how often a path was given out, by Name */
    Map local;     /* the local dims of training: Name, by place */
    bool rule;     /* an optimizer's: padding is like other elements */
    bool constant; /* only numbers are allowed */
    bool circle;   /* layouts extend each other, which was said */
    bool stopped;  /* a limit was passed: everything is poison */
    int nest;
    Span at; /* the expression that is elaborated, in the source */
    int64_t work;
    /* messages */
    VEC(uint64_t) reported;
    bool quiet;     /* the last error was a repetition */
    bool untrained; /* there is no train block, which was said */
    int64_t texts;  /* that are generated at once, on all ranks; 0: there are no caches */
    int warnings;
} Elab;

/* ---- scope.c ------------------------------------------------------------------------------ */

/* Reports at `at`; inside a block of the prelude at the call of it, with a note. A second error of
 * the same code at the same place is dropped, with the notes that follow. Returns poison. */
Val fail(Elab *e, Span at, int code, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void note(Elab *e, Span at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void help(Elab *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Proposes to write `with` at a place instead of what stands there; told, and true, if that works
 * (diag_remedy()). */
bool remedy(Elab *e, Span at, const char *with, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool remedies(Elab *e, const Remedy *r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Likewise an option of the command line, which is what it says: "-D batch=8". */
bool remedy_option(Elab *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *source_text(const Elab *e, Span s);
/* The first place in s of a word, or of a text that may be part of a word. */
bool word_place(const Elab *e, Span s, const char *word, Span *at);
bool text_place(const Elab *e, Span s, const char *text, Span *at);
/* "did you mean 'x'?" if a candidate is near, and does where the last error is. */
void suggest(Elab *e, const char *word, const char *const *candidates, size_t n);
void warn(Elab *e, Span at, int code, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
const char *text(const Elab *e, Name n);
const char *dims_text(Elab *e, const DimList *l); /* "batch, seq" */
const char *type_text(Elab *e, Value v);          /* "[batch, seq, hidden]" */

Sym *lookup(Elab *e, Name name);                /* visible here, or NULL; marks it used */
Sym *lookup_or_fail(Elab *e, const Node *name); /* NULL after an error */
/* A new symbol of the frame (or a global); NULL after an error if the name is taken. */
Sym *declare(Elab *e, SymKind kind, Name name, Span at);
Sym *find_local(const Frame *f, Name name);
/* A declaration of this name was refused here: what has it is not what is meant. */
bool was_refused(const Frame *f, Name name);

DimInfo *dim_info(Elab *e, Name dim);
Dim new_dim(Elab *e, Name wanted, int64_t size, Span at);
/* A dim of the block whose body is elaborated; number: which one of those that are declared at this
 * place. It has one name in all calls of an instance, whose parameters may have it, and in all
 * functions: those of training, also where a sample leaves out what was before. */
Dim local_dim(Elab *e, Name wanted, int64_t size, Span at, int64_t number);
/* The local dims of a frame that ends: the next of the same name and size may be the same dim. */
void free_dims(Elab *e, const Frame *f);
/* Dims of a list of NAMEs, `over` parameters expanded; false after an error. */
bool resolve_dims(Elab *e, const NodeList *names, DimList *out);
/* The same of one NAME: all dims that it stands for. */
bool resolve_all(Elab *e, const Node *name, DimList *out);
bool resolve_dim(Elab *e, const Node *name, Dim *out);
/* The number a dim is in arithmetic: its size without padding. */
Number dims_number(Elab *e, const DimList *l);

/* ---- rollout.c ---------------------------------------------------------------------------- */

/* Of a model that learns what its program generates: checks its inputs, and what the train block
 * says of answers; false after an error. Of others nothing. */
bool rollout_begins(Elab *e, const Node *model);
Value rollout_logits(Elab *e);                   /* by which answers are drawn, or 0 */
bool rollout_likely(Elab *e, const Node *model); /* a result of @eval, where it is needed */

/* ---- the rest ----------------------------------------------------------------------------- */

void declare_globals(Elab *e);
void read_overrides(Elab *e);
const Node *take_override(Elab *e, Name name); /* its value, or NULL */
void check_overrides(Elab *e, const NodeList *axes);
bool global_number(Elab *e, const Node *n, Number *result);
bool force(Elab *e, Sym *s); /* evaluates a global; false after an error */
/* unused.c: warnings of what nothing uses. A name that begins with `_` causes none. */
void warn_unused(Elab *e);
void warn_unused_names(Elab *e, const Frame *f, size_t from);
/* s is given a value, by the statement at `by`; what it had may be lost. */
void note_given(Elab *e, Sym *s, Span by, bool by_repeat);
/* The names in an expression that is not built in this program, and would be in another. */
void note_used(Elab *e, const Node *n);
/* Does what the loop of this body carries as number k matter to more than itself? */
bool feeds_others(const Elab *e, const Region *body, size_t k);

/* The blocks of prelude.mg: read, NULL after errors; declared. */
const Ast *read_prelude(Elab *e);
void declare_prelude(Elab *e);

/* update.c: x with another number in the padding along these dims. */
Value padded_with(Elab *e, Value x, const DimList *over, double fill);
/* optimizer.c: the optimizers that the file declares, checked. */
void read_optimizers(Elab *e);
void read_train(Elab *e);
void add_rule(Elab *e, RuleKind kind, double value, const NodeList *where, int goal);
void apply_rules(Elab *e, Tensor *t); /* decay, rate, frozen of a new parameter */
bool check_selector(Elab *e, const Node *selector);
bool selects(Elab *e, const Node *selector, const Tensor *t);
void all_rules_used(Elab *e); /* once all are declared */
/* adapter.c: a line of a train block; which of them hold, once all are read; a new parameter, which
 * may get one; once all are declared. */
void read_adapter(Elab *e, const Node *n, const Goal *g);
void choose_adapter(Elab *e);
void select_adapter(Elab *e, Tensor *t);
void finish_adapters(Elab *e);
/* adapt.c: v is the value here of that tensor, which may have one; y = x @ w, w made of `matrix`;
 * whether a function that is built reads matrices that have one by products alone. */
void note_adapted(Elab *e, uint32_t tensor, Value v);
/* Likewise of a table and what is looked up in it. */
Val adapted_table(Elab *e, Span at, Value table, Value index, const Attrs *attrs, Val y);
Val adapted_product(Elab *e, Span at, Value x, Value w, Value matrix, const DimList *over, Val y);
bool check_adapted(Elab *e);
/* noise.c: x with elements dropped, the others scaled; what is drawn is called `name`. */
Val drop_elements(Elab *e, Span at, Value x, double p, const char *name);
/* param.c: a parameter's value in the innermost of the repeats that it has. */
Value slices_in(Elab *e, const LoopList *around, Value v, Name hint);
/* names.c: an external name that is given; false after an error. */
bool claim_adapter(Elab *e, const Node *n, const Tensor *t);
void read_config(Elab *e); /* Module.config */
void read_layout(Elab *e);
/* generates.c: e->texts, and the layout without what is of no use to them; false after an error. */
bool layout_generates(Elab *e);
/* ... of a program with rollouts: can its layout generate, too? Its rules stay. */
bool layout_rolls_out(Elab *e);
/* So many texts of a rank that lie one after another begin with one prompt; 0: each has its own. */
int64_t texts_of_prompt(const Elab *e);
/* Of so many positions of a prompt, how many are computed at once at most. */
int64_t most_prefilled(const Module *m, int64_t positions);

/* windows.c: what the source asks of next(...). */
void find_next(Elab *e, const Node *model);
/* Of a function: before its inputs; the inputs, with e->tokens, e->next, e->weight; at its end. */
void begin_windows(Elab *e);
void token_windows(Elab *e, const Node *input, int64_t batch);
Val weight_windows(Elab *e, const Node *in, int64_t batch);
Value input_windows(Elab *e, const Node *in, uint32_t number, Value arg);
void end_windows(Elab *e);
/* The window of an argument that begins `by` further on. */
Value window_at(Elab *e, Windows *w, int64_t by);
/* The sizes of the arguments, when the functions are there. */
void size_windows(Elab *e);

/* documents.c: document_start of the data, in a call of the prelude's block; before the end of a
 * function that has asked for it: its weights. */
Val document_start_of_data(Elab *e, const Node *n, Val tokens, Dim along);
void count_documents(Elab *e);

/* Statements up to the end; *result is what `return` gave, poison without one. */
void statements(Elab *e, const NodeList *list, Val *result);
void param(Elab *e, const Node *n);
/* name : block encoder as "..." */
void declare_instance(Elab *e, const Node *n);
/* The instance of this name here, which is then used; NULL: there is none. */
const Instance *find_instance(Elab *e, Name name);
bool check_instance_call(Elab *e, const Instance *i, const Node *call);
/* The repeats (and scans) that a parameter declared here has, the innermost first. */
void loops_of_parameters(Elab *e, LoopList *out);
/* The parameter that an earlier call of an instance made of this declaration, or NULL; to be called
 * before it is declared anew. add_shared: this call made it. */
Shared *find_shared(Elab *e, const Node *n);
void add_shared(Elab *e, const Node *n, uint32_t tensor, Value arg);
/* Is it here what it was there? `now`: as this call would have made it. */
bool check_shared(Elab *e, const Node *n, const Shared *s, const Tensor *now);
/* initial.c: the initial value that a declaration says; t has its external form. False after an
 * error. */
bool initial(Elab *e, const Node *n, const DimList *own, Tensor *t);
/* A number from 0 to 1, which may be a formula of the step: its words (ir/initial.h). False after
 * an error. */
bool step_formula(Elab *e, const Node *n, Name *words);
/* follow.c: `follows online by 0.99` of an instance that is declared; false after an error. */
bool follow_instance(Elab *e, const Node *n, Instance *i);
/* Whether the instance is the one that it follows, but without the adapter: all that it could be a
 * copy of is frozen then, so that nothing is copied. */
bool is_unadapted(const Elab *e, const Instance *i);
/* t, which has its names, is a parameter of an instance that follows another. */
void add_follower(Elab *e, Tensor *t);
/* Once all are declared: which parameter each of them follows. */
void find_followed(Elab *e);
/* The iterations of `repeat d at l`, of which there are n, in runs; false after an error. */
bool alike_runs(Elab *e, const Node *n, int64_t iterations, RunList *out);
/* Copies of the body of a loop: all that its runs have, and how many are made. */
typedef struct Copies {
    int64_t all, made;
} Copies;
/* Elaborates the copies of a run, one behind the other, each with names of its own. */
void write_body(Elab *e, const Node *n, const Run *r, Copies *c);
/* Names that came after the first `before` of the frame are not known in another copy of the body,
 * nor after the loop n, but for what a scan gives. */
void hide_names(Elab *e, const Node *n, size_t before);
/* Calls a value, for dumps and for the emitted program, by the name to which it is assigned. */
void name_value(Elab *e, Val v, Name name);
void repeat(Elab *e, const Node *n);
void scan(Elab *e, const Node *n);
/* v as it is read here: of a dim that is scanned, the current index. */
Value at_index(Elab *e, Value v);
/* Numbers along d as t: the current one of a dim that is scanned. */
Value index_of(Elab *e, Dim d, DType t);
/* After an error about a dim that a value lacks: does it lack it because of a scan? */
void help_scan(Elab *e, Name dim);
void metric(Elab *e, const Node *n);
/* Further losses: results of @train, metrics of @eval; false after an error. */
bool goal_results(Elab *e);
/* The value as the next result of the function. */
void add_result(Elab *e, FnResult r, Value v);

Val expr(Elab *e, const Node *n);         /* one value */
Val several_expr(Elab *e, const Node *n); /* the same, or several */
/* A pointwise op of tensors and numbers: of numbers a number. */
Val apply_op(Elab *e, Span at, Op op, int n, const Val *x);
Val apply2(Elab *e, Span at, Op op, Val x, Val y);
/* The type of an operation of floats and numbers: f64 if one of them is, as a loss is. In the rule
 * of an optimizer only the numbers of a step are f64, as long as no tensor is beside them. */
DType common_type(const Elab *e, int n, const Val *x);
/* Joins the dims of `more` to t; false after an error about rank or size. */
bool join_dims(Elab *e, Span at, Type *t, const Type *more);
Val subscript(Elab *e, const Node *n); /* x[...] */
/* A part of x: a PART, or a sum of dims, which counts_dims knows. */
Val part(Elab *e, const Node *n, Val x);
bool counts_dims(Elab *e, const Node *n);
bool arrow_side(Elab *e, const Node *n, DimList *l); /* the dims of one side of `->` */
/* May these dims be cut, shifted, split, merged? Not that of the batch, and none that is padded. */
bool check_parts(Elab *e, Span at, const DimList *dims);
bool check_padding(Elab *e, Span at, const DimList *over); /* none of them is padded */
/* padding.c: leaves the padding out of what the function that was built sums; false after an error.
 */
bool mask_padding(Elab *e);
bool has_batch(const Elab *e, Value v);
Val number_expr(Elab *e, const Node *n);             /* a number, or poison after an error */
bool real_of(Elab *e, const Node *n, double *d);     /* the same, as a double */
bool integer_of(Elab *e, const Node *n, int64_t *i); /* the same, an integer */
Val tensor_val(Value v);
Value as_tensor(Elab *e, Val v, DType t); /* numbers become constants */
/* All floating, of one dtype: numbers become constants, f32 beside f64 is cast. */
bool unify(Elab *e, Span at, int n, const Val *x, Value *out);
/* Checks rank and element count of what would have these dims; reports at `at`. */
bool fits(Elab *e, Span at, const Type *t);
/* build after type_check: an operand no earlier check refused is reported, not a crash. */
Val make(Elab *e, Span at, Op op, const Attrs *attrs, int nin, const Value *in);

/* Arguments as written, sorted by kind; the same kind in the order of the text. */
typedef struct Args {
    const Node *call;
    VEC(const Node *) positional, along, over, named, arrows;
} Args;
Val call(Elab *e, const Node *n);
bool is_builtin(const char *name);
bool maps_numbers(const char *name); /* of numbers it gives a number */
const char *builtin_name(size_t n);  /* the nth, or NULL */
Val call_builtin(Elab *e, const Args *a);
/* The op that a block of the prelude defines, on what is bound in the block's frame (the current
 * one). *done is false if there is no such op or it does not take these operands. */
Val call_composite(Elab *e, const Node *call, bool *done);

const char *path_word(Elab *e, const char *s); /* letters, digits, '_', '.' */
/* The `as` of a node, or "": the number of a dim or constant stands for its name in braces. */
const char *external_text(Elab *e, const Node *n);
const char *path_join(Elab *e, const char *path, const char *word);
/* Gives t its external name; an error if no checkpoint can hold it, or another parameter has it. */
bool claim_external(Elab *e, const Node *n, Tensor *t);
/* Refuses external tensors whose parts, all of which are known now, leave gaps; tells the others
 * the size of their whole. */
void check_wholes(Elab *e);
/* Puts a part beside those that have its name; false after an error. */
bool join_whole(Elab *e, const Node *n, const Tensor *t, const Tensor *first);
/* The external name of a parameter that is declared here; false: there is none of that name. */
bool external_of(Elab *e, const Node *n, Name *name);
/* Number from 1 of the parameter of an external name, of several parts of it the one where `part`
 * is; 0: there is none. */
size_t external_tensor(const Elab *e, Name external, const Tensor *part);
/* The parameter that has the name of this declaration; false: there is none. */
bool find_external(Elab *e, const Node *n, uint32_t *index);
Name unique_path(Elab *e, const char *path); /* with _2, _3, ... if it was given out before */
Value loop_index(
    Elab *e); /* i32: which iteration of all the repeats around it; 0 outside of them */
Value fn_arg(Elab *e, ArgRole role, uint32_t tensor, Type t, const char *hint);
/* The value of v at index pos of dim along. Its inputs are computed for that index alone, as far
 * back as possible. */
Value at_position(Elab *e, Value v, Dim along, Value pos);
void sweep(Elab *e, Region *r); /* drops instructions without use */

#endif
