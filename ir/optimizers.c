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
    [OPT_##name] = {#name, of, &optimizers[OPT_##rest], takes, states, {{0}}, NULL},
#include "ir/optimizers.def"
};

const OptimizerInfo *optimizer_find(const char *name)
{
    for (int i = 0; i < OPT_count; i++)
        if (!strcmp(optimizers[i].name, name))
            return &optimizers[i];
    return NULL;
}

double *train_number(Goal *g, int number)
{
    if (number >= NUMBER_own)
        return &g->own[number - NUMBER_own];
    return (double *)(void *)((char *)g + optimizer_numbers[number].at);
}

double train_number_of(const Goal *g, int number)
{
    double d;
    if (number >= NUMBER_own)
        return g->own[number - NUMBER_own];
    memcpy(&d, (const char *)g + optimizer_numbers[number].at, sizeof d);
    return d;
}

int optimizer_number(const OptimizerInfo *o, const char *name)
{
    for (int i = 0; i < OWN_MAX && o->own[i].name; i++)
        if (!strcmp(o->own[i].name, name))
            return NUMBER_own + i;
    for (int i = 0; i < NUMBER_count; i++)
        if (!strcmp(optimizer_numbers[i].name, name))
            return i;
    return -1;
}

const char *optimizer_number_name(const OptimizerInfo *o, int number)
{
    return number >= NUMBER_own ? o->own[number - NUMBER_own].name : optimizer_numbers[number].name;
}
