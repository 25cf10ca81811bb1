/* model.c - building, running and comparing programs; see model.h. */
#include "tests/passes/model.h"
#include "grammar/grammar.h"
#include "ir/optimizers.h"
#include "runtime/dynamic8.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Nobody tries remedies here: all are told. */
static bool each_works(void *ctx, const Remedy *r, int code, Span at)
{
    (void)ctx, (void)r, (void)code, (void)at;
    return true;
}

void model_open(Model *t)
{
    *t = (Model){.a = arena_new()};
    t->messages = open_memstream(&t->text, &t->size);
    t->m = module_new(t->a, names_new(t->a), diag_new(t->a, t->messages, false));
    diag_on_remedy(t->m->diag, each_works, NULL);
    t->m->train = (Train){.goal[0] = {.loss = name_intern(t->m->names, "loss"),
                                      .optimizer = &optimizers[OPT_adamw],
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .eps = 1e-8,
                                      .momentum = 0.9,
                                      .clip = 1},
                          .goals = 1,
                          .compute = DT_f32};
    t->m->update_rule = mg_update_rule;
    t->m->layout = (Layout){.microbatch = 1, .recompute = RECOMPUTE_auto};
    t->m->batch = (Dim){.name = name_intern(t->m->names, "batch"), .size = 1};
    t->fn = NEW(t->a, Fn);
    t->fn->name = name_intern(t->m->names, "train");
    t->fn->body = region_new(t->m, NULL);
    vec_push(t->a, &t->m->fns, t->fn);
    t->b = (Builder){.m = t->m, .region = t->fn->body};
}

void model_close(Model *t)
{
    fclose(t->messages);
    free(t->text);
    arena_free(t->a);
}

const char *model_messages(Model *t)
{
    fflush(t->messages);
    return t->text;
}

Dim dim_of(Model *t, const char *name, int64_t size)
{
    return (Dim){.name = name_intern(t->m->names, name), .size = size};
}

Type type_in(DType dtype, int rank, const Dim *dims)
{
    Type t = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        t.dims[i] = dims[i];
    return t;
}

Value add_param(Model *t, const char *name, Type type, int stacked)
{
    Tensor p = {.name = name_intern(t->m->names, name), .type = type, .stacked = stacked};
    p.external = p.name;
    p.external_rank = type.rank - stacked;
    p.decay = p.external_rank >= 2 ? 0.1 : 0;
    p.rate = 1;
    p.parameter = (uint32_t)t->m->tensors.n;
    for (int i = 0; i < type.rank; i++)
        p.valid[i] = type.dims[i].size;
    for (int i = 0; i < p.external_rank; i++) {
        p.order[i] = (uint8_t)(stacked + i);
        p.merge[i] = 1;
    }
    vec_push(t->a, &t->m->tensors, p);
    vec_push(t->a, &t->fn->args, (FnArg){ARG_param, p.parameter});
    return region_arg(t->m, t->fn->body, type, p.name);
}

Value add_arg(Model *t, ArgRole role, Type type, const char *name)
{
    vec_push(t->a, &t->fn->args, (FnArg){.role = role});
    return region_arg(t->m, t->fn->body, type, name_intern(t->m->names, name));
}

void add_loss(Model *t, Value loss)
{
    vec_push(t->a, &t->fn->results, (FnResult){.role = RES_loss});
    vec_push(t->a, &t->fn->body->results, loss);
}

Value sum_all(Builder *b, Value x)
{
    DimList all = {0};
    const Type *type = type_of(b->m, x);
    for (; all.n < type->rank; all.n++)
        all.dim[all.n] = type->dims[all.n];
    return build_sum(b, x, &all);
}

Value weighed(Model *t, Value x, Value w)
{
    return build_cast(&t->b, sum_all(&t->b, build2(&t->b, OP_mul, x, w)), DT_f64);
}

/* ---- numbers --------------------------------------------------------------------------------- */

double draw(uint64_t *state, double low, double high)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    return low + (high - low) * (double)(x >> 11) / 9007199254740992.0;
}

int draw_int(uint64_t *state, int n)
{
    return (int)draw(state, 0, n);
}

/* An input by name: an index in range, or a number. */
static double draw_input(const Module *m, uint32_t input, uint64_t *state)
{
    const int64_t limit = m->inputs.data[input].limit;
    return limit ? draw_int(state, (int)limit) : draw(state, -1, 1);
}

/* Parameters, inputs and tokens each have a stream of their own; a copy has its parameter's. */
static uint64_t stream_of(const Module *m, const FnArg *a)
{
    return a->role <= ARG_rounded     ? m->tensors.data[a->tensor].parameter
           : a->role == ARG_input     ? 900 + a->tensor
           : a->role == ARG_documents ? 998
                                      : 999;
}

/* Documents of any length, and some that fill up, one behind the other in each row. */
static void draw_documents(Tensor64 *to, uint64_t *state)
{
    const int64_t window = to->type.dims[to->type.rank - 1].size;
    for (int64_t k = 0; k < type_elements(&to->type); k++)
        to->data[k] =
            k % window == 0 || draw_int(state, 4) == 0 ? (double)(k % window) : to->data[k - 1];
}

/* A number that the parameter can hold: of a base in codes any byte, or a number of dynamic8. */
static double draw_parameter(const Tensor *p, uint64_t *state, double low, double high)
{
    return p->type.dtype == DT_u8         ? draw_int(state, 256)
           : p->type.dtype == DT_dynamic8 ? (double)mg_from_dynamic8((uint8_t)draw_int(state, 256))
                                          : draw(state, low, high);
}

Tensor64 *inputs_for(Model *t, const Fn *fn, uint64_t seed, double low, double high)
{
    static const double scalars[] = {
        [ARG_lr] = 0.01, [ARG_scale] = 16, [ARG_step] = 3,   [ARG_seed] = 42,
        [ARG_pos] = 1,   [ARG_filled] = 3, [ARG_before] = 5, [ARG_total] = 0.75,
        [ARG_begin] = 2, [ARG_count] = 1,  [ARG_cache] = 0};
    Tensor64 *args = NEW_ARRAY(t->a, Tensor64, fn->args.n);
    for (size_t i = 0; i < fn->args.n; i++) {
        ArgRole role = fn->args.data[i].role;
        uint64_t state = seed * 1000 + stream_of(t->m, &fn->args.data[i]);
        args[i].type = *type_of(t->m, fn->body->args.data[i]);
        int64_t n = type_elements(&args[i].type);
        args[i].data = NEW_ARRAY(t->a, double, n);
        if (role == ARG_documents)
            draw_documents(&args[i], &state);
        for (int64_t k = 0; k < n && role != ARG_documents; k++)
            args[i].data[k] =
                role <= ARG_rounded  ? draw_parameter(&t->m->tensors.data[fn->args.data[i].tensor],
                                                      &state, low, high)
                : role == ARG_tokens ? draw_int(&state, (int)t->m->vocab)
                : role == ARG_weight ? draw_int(&state, 4) * 0.5
                : role == ARG_input  ? draw_input(t->m, fn->args.data[i].tensor, &state)
                : role == ARG_state  ? 0
                : role == ARG_lr     ? scalars[role] * (1 + fn->args.data[i].tensor)
                                     : scalars[role];
    }
    return args;
}

Tensor64 *run_fn(Model *t, const Fn *fn, const Tensor64 *args)
{
    Tensor64 *results = NEW_ARRAY(t->a, Tensor64, fn->results.n);
    ir_interpret(t->m, fn, args, results, t->a, false);
    return results;
}

PassStatus try_pass(Model *t, PassRun *pass)
{
    Job j = {.m = t->m, .tmp = arena_new(), .log = stderr};
    t->m->update_rule = mg_update_rule; /* texts that were read have none */
    PassStatus s = pass(&j);
    arena_free(j.tmp);
    return s;
}

void must_pass(Model *t, PassRun *pass)
{
    PassStatus s = try_pass(t, pass);
    if (s != PASS_ok)
        print_error("%s", model_messages(t));
    assert_int_equal(s, PASS_ok);
    int broken = ir_verify(t->m, stderr);
    if (broken)
        ir_print(t->m, stderr);
    assert_int_equal(broken, 0);
}

char *module_text(const Module *m)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    ir_print(m, f);
    fclose(f);
    return text;
}

void must_read_back(Model *t)
{
    char *text = module_text(t->m);
    uint32_t file = diag_add_file(t->m->diag, "again.mgir", text, strlen(text));
    Module *m = ir_parse(t->a, t->m->names, t->m->diag, file);
    if (!m)
        fail_msg("%s", model_messages(t));
    char *again = module_text(m);
    assert_string_equal(text, again);
    free(again);
    free(text);
}

double difference(const Tensor64 *x, const Tensor64 *y)
{
    double max = 0, size = 1e-30;
    int64_t n = type_elements(&x->type);
    assert_int_equal(n, type_elements(&y->type));
    for (int64_t i = 0; i < n; i++) {
        assert_true(isfinite(x->data[i]));
        max = fmax(max, fabs(x->data[i] - y->data[i]));
        size = fmax(size, fabs(x->data[i]));
    }
    return max / size;
}

/* d result 0 / d *x, by differences of fourth order */
static double slope(Model *t, const Fn *fn, const Tensor64 *args, double *x)
{
    static const double at[4] = {-2, -1, 1, 2}, weight[4] = {1, -8, 8, -1};
    const double h = 1e-4, here = *x;
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        Arena *a = arena_new();
        Tensor64 *results = NEW_ARRAY(a, Tensor64, fn->results.n);
        *x = here + at[k] * h;
        ir_interpret(t->m, fn, args, results, a, false);
        sum += weight[k] * results[0].data[0];
        arena_free(a);
    }
    *x = here;
    return sum / (12 * h);
}

double gradient_error(Model *t, const Fn *fn, Tensor64 *args, int samples, uint64_t seed)
{
    double worst = 0;
    Tensor64 *results = run_fn(t, fn, args);
    for (size_t r = 0; r < fn->results.n; r++) {
        if (fn->results.data[r].role != RES_grad)
            continue;
        size_t p = 0;
        while (fn->args.data[p].role != ARG_param ||
               fn->args.data[p].tensor != fn->results.data[r].tensor)
            p++;
        int64_t n = type_elements(&args[p].type);
        /* The loss is rounded: differences see no gradient far below it. */
        double size = 1e-5 * fmax(1, fabs(results[0].data[0]));
        for (int64_t k = 0; k < n; k++)
            size = fmax(size, fabs(results[r].data[k]));
        for (int64_t k = 0; k < (samples ? samples : n); k++) {
            int64_t e = samples ? draw_int(&seed, (int)n) : k;
            double fd = slope(t, fn, args, &args[p].data[e]);
            assert_true(isfinite(results[r].data[e]));
            worst = fmax(worst, fabs(fd - results[r].data[e]) / size);
        }
    }
    return worst;
}
