/* optimizers.h - the optimizers as tables, and how a pass asks for the rule of one.
 *
 * grammar/prelude.mg declares optimizers, and a file may declare more in the same form, which
 * become rows when it is compiled (grammar/optimizer.c). Of the prelude's the build makes
 * ir/optimizers.def, in the build folder:
 *
 *   NUMBER(name, low, high)  a number that rules are given: Goal.name. A source may set it to at
 *                            least `low`, above 0 where `low` is -1, and below `high`.
 *   FLAG(name)               one that is 1 or 0
 *   OPTIMIZER(name, of, rest, TAKES(...), STATES(...))  an OptimizerInfo
 *
 * A rule is written in the language of .mg files; what passes see is the function that writes it
 * out as instructions. It is a function of the call alone, so a module's text
 * does not hold it: whoever reads one sets Module.update_rule. */
#ifndef MGC_OPTIMIZERS_H
#define MGC_OPTIMIZERS_H

#include "ir/ir.h"

typedef enum NumberId {
#define NUMBER(name, ...) NUMBER_##name,
#define FLAG(name)        NUMBER_##name,
#include "ir/optimizers.def"
    NUMBER_count,
    ALWAYS = NUMBER_count, /* of a state */
    NUMBER_own             /* the first of OptimizerInfo.own */
} NumberId;

typedef struct NumberInfo {
    const char *name;
    size_t at; /* in Goal */
    bool flag;
} NumberInfo;
extern const NumberInfo optimizer_numbers[NUMBER_count];
double *train_number(Goal *g, int number);
double train_number_of(const Goal *g, int number);
/* NumberId of a number of the optimizer; of the rest's too, as that has no others. -1: none. */
int optimizer_number(const OptimizerInfo *o, const char *name);
const char *optimizer_number_name(const OptimizerInfo *o, int number);

/* The settings that a source may give in an optimizer's parentheses. */
typedef enum OptionId {
    OPTION_none,
    OPTION_betas, /* betas = (beta1, beta2) */
    OPTION_decay, /* weight decay, `decay = 0.1 where rank >= 2`: Tensor.decay */
#define NUMBER(name, ...) OPTION_##name,
#define FLAG(name)        OPTION_##name,
#include "ir/optimizers.def"
    OPTION_count,
    OPTION_own = OPTION_count /* the first of OptimizerInfo.own */
} OptionId;

typedef struct OptionInfo {
    const char *name;
    enum { KIND_NUMBER, KIND_FLAG, KIND_PAIR, KIND_DECAY } kind;
    double low, high; /* of a number */
} OptionInfo;
extern const OptionInfo optimizer_options[OPTION_count];

enum { OPTIONS_MAX = 24, STATES_MAX = 8 }; /* of one optimizer */

/* All are of the parameter's dtype.
 *   WHOLE       the parameter's dims
 *   VECTOR      the same, of parameters that are no matrices
 *   ROWS, COLS  of matrices: without the dims of the columns, of the rows
 *   ONE         one number
 * A matrix has two external dims or more; the last but one is its rows, the last its columns. What
 * lies side by side (layers) is as many matrices. */
typedef enum StateShape { WHOLE, VECTOR, ROWS, COLS, ONE } StateShape;
typedef struct StateInfo {
    const char *slot; /* NULL: no more */
    StateShape shape;
    int when;     /* a number without which (it is 0) there is no such state, or ALWAYS */
    double first; /* the value that all its elements have before the first step */
} StateInfo;

/* A number that a file's optimizer names itself: at least `low`, or above it, and below `high`. */
typedef struct OwnNumber {
    const char *name; /* NULL: no more */
    bool flag, above;
    double low, high;
} OwnNumber;

struct OptimizerInfo {
    const char *name;
    enum { ELEMENTS, MATRICES } of; /* each element by itself; sums over whole matrices */
    const OptimizerInfo *rest; /* the one whose rule parameters follow that are no hidden matrix */
    struct {                   /* in the order in which values come without names */
        int option;            /* OptionId, or OPTION_own + its number; OPTION_none: no more */
        double without[2];
    } takes[OPTIONS_MAX];
    StateInfo states[STATES_MAX];
    OwnNumber own[OWN_MAX];
    const void *declaration; /* update_rule's own, of a file's optimizer; NULL: the prelude's */
};

/* Those of the prelude. */
typedef enum OptimizerId {
#define OPTIMIZER(name, ...) OPT_##name,
#include "ir/optimizers.def"
    OPT_count
} OptimizerId;
extern const OptimizerInfo optimizers[OPT_count];
const OptimizerInfo *optimizer_find(const char *name); /* NULL: there is none */

/* One parameter's update. `step` makes the number of the step, from 1, where the rule reads it. */
struct RuleCall {
    const Goal *goal;               /* whose settings are the rule's; */
    const OptimizerInfo *optimizer; /* and whose optimizer, or the one of the rest */
    const Tensor *of;
    Value p, g, lr;           /* lr: f64 */
    Value states[STATES_MAX]; /* 0: there is no such one */
    bool matrix;
    DimList rows, cols, all; /* of a matrix; all: its dims but those that number it */
    Dim outer, inner; /* where outer.size > 1, the dim of this name that p, g and states have is in
                         parts of this size, which `outer` numbers: blocks of elements */
    Value (*step)(void *ctx);
    void *ctx;
    double rate, decay;
    void **kept; /* between the calls of one pass; NULL at first */
};

#endif
