/* optimizers.h - the table of optimizers.def, and how a pass asks for the rule of one.
 *
 * A rule is written in the language of .mg files, as a block of grammar/prelude.mg; what passes see
 * is the function that writes it out as instructions. It is a function of Module.train and of the
 * call alone, so a module's text does not hold it: whoever reads one sets Module.update_rule. */
#ifndef MGC_OPTIMIZERS_H
#define MGC_OPTIMIZERS_H

#include "ir/ir.h"

typedef enum NumberId {
#define NUMBER(name) NUMBER_##name,
#define FLAG(name)   NUMBER_##name,
#include "ir/optimizers.def"
    NUMBER_count,
    ALWAYS = NUMBER_count /* of a state */
} NumberId;

typedef struct NumberInfo {
    const char *name;
    size_t at; /* in Train */
    bool flag;
} NumberInfo;
extern const NumberInfo optimizer_numbers[NUMBER_count];
double *train_number(Train *t, int number);
double train_number_of(const Train *t, int number);
int optimizer_number(const char *name); /* NumberId, or -1 */

typedef enum OptionId {
    OPTION_none,
#define OPTION(name, ...) OPTION_##name,
#include "ir/optimizers.def"
    OPTION_count
} OptionId;

typedef struct OptionInfo {
    const char *name;
    enum { KIND_NUMBER, KIND_FLAG, KIND_PAIR, KIND_DECAY } kind;
    double low, high;
} OptionInfo;
extern const OptionInfo optimizer_options[OPTION_count];

enum { OPTIONS_MAX = 6, STATES_MAX = 4 };

typedef struct StateInfo {
    const char *slot; /* NULL: no more */
    enum { WHOLE, VECTOR, ROWS, COLS } shape;
    NumberId when;
} StateInfo;

typedef struct OptimizerInfo {
    const char *name;
    enum { ELEMENTS, MATRICES } of;
    Optimizer rest;
    struct {
        OptionId option; /* OPTION_none: no more */
        double without[2];
    } takes[OPTIONS_MAX];
    StateInfo states[STATES_MAX];
} OptimizerInfo;
extern const OptimizerInfo optimizers[OPT_count];

/* One parameter's update. `step` makes the number of the step, from 1, where the rule reads it. */
struct RuleCall {
    Optimizer optimizer;
    Value p, g, lr;           /* lr: f64 */
    Value states[STATES_MAX]; /* 0: there is no such one */
    bool matrix;
    DimList rows, cols, all; /* of a matrix; all: its dims but those that number it */
    Value (*step)(void *ctx);
    void *ctx;
    double rate, decay;
    void **kept; /* between the calls of one pass; NULL at first */
};

#endif
