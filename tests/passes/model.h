/* model.h - programs for the tests of passes/: built by hand or drawn at random, run in the
 * interpreter, compared. */
#ifndef MGC_TESTS_PASSES_MODEL_H
#define MGC_TESTS_PASSES_MODEL_H

#include "ir/interpret.h"
#include "passes/passes.h"
#include "tests/sample.h"

/* A module under construction: @train with its builder at the end of the body. */
typedef struct Model {
    Arena *a;
    Module *m;
    Fn *fn;
    Builder b;
    FILE *messages; /* what diag says goes here, to be read back */
    char *text;
    size_t size;
} Model;

void model_open(Model *t);
void model_close(Model *t);
const char *model_messages(Model *t);

Dim dim_of(Model *t, const char *name, int64_t size);
Type type_in(DType dtype, int rank, const Dim *dims);
#define TYPE(dtype, ...)                                                                           \
    type_in(dtype, (int)(sizeof((Dim[]){__VA_ARGS__}) / sizeof(Dim)), (Dim[]){__VA_ARGS__})
#define SCALAR(dtype) type_in(dtype, 0, NULL)

Value add_param(Model *t, const char *name, Type type, int stacked);
Value add_arg(Model *t, ArgRole role, Type type, const char *name);
void add_loss(Model *t, Value loss); /* an f64 scalar, the one result */

/* The sum over all dims of x * w, as f64: a loss to which every element of x counts differently. */
Value weighed(Model *t, Value x, Value w);
Value sum_all(Builder *b, Value x);

/* A random number in [low, high), and an integer below n. */
double draw(uint64_t *state, double low, double high);
int draw_int(uint64_t *state, int n);

/* Arguments for a function: parameters in [low, high), state 0, tokens below the module's vocab. */
Tensor64 *inputs_for(Model *t, const Fn *fn, uint64_t seed, double low, double high);
Tensor64 *run_fn(Model *t, const Fn *fn, const Tensor64 *args);

/* Runs one pass and the verifier; fails the test if either complains. */
void must_pass(Model *t, PassRun *pass);
PassStatus try_pass(Model *t, PassRun *pass);

/* The text of a module, which the caller frees. */
char *module_text(const Module *m);
/* Fails the test unless the text of the program, read, is the program. */
void must_read_back(Model *t);

/* The greatest difference of two tensors, relative to the greatest element of the first. */
double difference(const Tensor64 *x, const Tensor64 *y);
/* How far the gradients among fn's results are from differences of its first result, relative to
 * the greatest element of each: every element, or `samples` of each tensor. */
double gradient_error(Model *t, const Fn *fn, Tensor64 *args, int samples, uint64_t seed);

/* A program drawn from a seed: embedding, repeated layers of random blocks, loss. */
void random_model(Model *t, uint64_t seed);
/* random_keep.c: a Layout.plan for the repeats of @train, before it is differentiated. */
void random_keep(Model *t, uint64_t seed);

#endif
