/* optimizers.c - the rows of optimizers as tables. */
#include "ir/optimizers.h"

#include <stddef.h>
#include <string.h>

const NumberInfo optimizer_numbers[NUMBER_count] = {
#define NUMBER(name, ...) [NUMBER_##name] = {#name, offsetof(Goal, name), false},
#define FLAG(name)        [NUMBER_##name] = {#name, offsetof(Goal, name), true},
#include "ir/optimizers.def"
};

const OptionInfo optimizer_options[OPTION_count] = {
    [OPTION_betas] = {"betas", KIND_PAIR, 0, 1},
    [OPTION_decay] = {"decay", KIND_DECAY, 0, 1e300},
#define NUMBER(name, low, high) [OPTION_##name] = {#name, KIND_NUMBER, low, high},
#define FLAG(name)              [OPTION_##name] = {#name, KIND_FLAG, 0, 2},
#include "ir/optimizers.def"
};

const OptimizerInfo optimizers[OPT_count] = {
#define TAKES(...)  {__VA_ARGS__}
#define STATES(...) {__VA_ARGS__}
#define OPTIMIZER(name, of, rest, takes, states)                                                   \
    [OPT_##name] = {#name, of, OPT_##rest, takes, states},
#include "ir/optimizers.def"
};

const char *const optimizer_names[OPT_count] = {
#define OPTIMIZER(name, ...) [OPT_##name] = #name,
#include "ir/optimizers.def"
};

double *train_number(Goal *g, int number)
{
    return (double *)(void *)((char *)g + optimizer_numbers[number].at);
}

double train_number_of(const Goal *g, int number)
{
    double d;
    memcpy(&d, (const char *)g + optimizer_numbers[number].at, sizeof d);
    return d;
}

int optimizer_number(const char *name)
{
    for (int i = 0; i < NUMBER_count; i++)
        if (!strcmp(optimizer_numbers[i].name, name))
            return i;
    return -1;
}
