/* program.c - see program.h. */
#include "tests/ir/program.h"

#include <math.h>

void world_open(World *w)
{
    *w = (World){.a = arena_new()};
    w->out = open_memstream(&w->text, &w->size);
    w->names = names_new(w->a);
    w->diag = diag_new(w->a, w->out, false);
}

void world_close(World *w)
{
    fclose(w->out);
    free(w->text);
    arena_free(w->a);
}

const char *world_messages(World *w)
{
    fflush(w->out);
    return w->text;
}

/* ---- text ------------------------------------------------------------------------------------ */

const char program_head[] = "mgir 1\n"
                            "model m source \"nowhere/m.mg\"\n"
                            "batch b=2 seq s=2 vocab 7\n"
                            "train adamw beta1 0.9 beta2 0.95 eps 1e-08 momentum 0.9 power 0 "
                            "threshold 0 clip 1 peak 0.01 floor 0 "
                            "lr constant warmup 0 steps 0 last 0 linear compute f64\n"
                            "layout one device cpu microbatch 2 recompute auto assert_peak 0\n";

/* Of a program with arguments of fp8. */
static const char *head(Arena *a, const char *const *args)
{
    static const char f64[] = "compute f64", fp8[] = "compute f32 half bf16 fp8 e4m3 e5m2 products";
    const char *at = strstr(program_head, f64);
    bool eights = false;
    for (int n = 0; n < MAX_ARGS && args && args[n]; n++)
        eights |= strstr(args[n], ": e4m3") != NULL;
    return eights ? arena_printf(a, "%.*s%s%s", (int)(at - program_head), program_head, fp8,
                                 at + sizeof f64 - 1)
                  : program_head;
}

/* A tensor of an argument's name and type; its external form is its own. */
static void write_tensor(FILE *out, const char *arg, int at)
{
    int name = (int)strcspn(arg, ":"), rank = 0;
    fprintf(out, "tensor \"%.*s\"%s external \"%.*s\" slot \"\" of %d stacked 0 valid [", name, arg,
            arg + name + 1, name, arg, at);
    for (const char *p = arg; (p = strchr(p, '=')) != NULL; rank++)
        fprintf(out, "%s%ld", rank ? ", " : "", strtol(++p, NULL, 10));
    fputs("] order [", out);
    for (int i = 0; i < rank; i++)
        fprintf(out, "%s%d", i ? ", " : "", i);
    fputs("] merge [", out);
    for (int i = 0; i < rank; i++)
        fputs(i ? ", 1" : "1", out);
    fputs("] init const 0 0 decay 0 rate 1\n", out);
}

char *program_text(Arena *a, const char *const *args, const char *body, int results)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    int n = 0;
    fputs(head(a, args), out);
    for (; n < MAX_ARGS && args && args[n]; n++)
        write_tensor(out, args[n], n);
    fputs("\nfn @f {\n", out);
    for (int i = 0; i < n; i++)
        fprintf(out, "role param \"%.*s\"\n", (int)strcspn(args[i], ":"), args[i]);
    for (int i = 0; i < n; i++)
        fprintf(out, "arg %%%s\n", args[i]);
    fprintf(out, "%s\n", body);
    for (int i = 0; i < results; i++)
        fputs("result logits\n", out);
    fputs("}\n", out);
    fclose(out);
    char *copy = arena_strdup(a, text);
    free(text);
    return copy;
}

Module *world_read(World *w, const char *text)
{
    uint32_t file = diag_add_file(w->diag, "test.mgir", text, strlen(text));
    return ir_parse(w->a, w->names, w->diag, file);
}

char *module_text(Arena *a, const Module *m)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    ir_print(m, out);
    fclose(out);
    char *copy = arena_strndup(a, text, size);
    free(text);
    return copy;
}

int world_verify(World *w, const Module *m)
{
    return ir_verify(m, w->out);
}

Module *must_read(World *w, const char *const *args, const char *body, int results)
{
    const char *text = program_text(w->a, args, body, results);
    Module *m = world_read(w, text);
    if (!m || world_verify(w, m))
        fail_msg("%s\n%s", world_messages(w), text);
    return m;
}

/* ---- running --------------------------------------------------------------------------------- */

static void fill(double *to, int64_t n, DType t, size_t arg)
{
    for (int64_t k = 0; k < n; k++) {
        double u = ir_random(arg + 1, 0, 99, (uint64_t)k);
        to[k] = dtype_is_float(t) ? 2 * u - 1 : floor(3 * u);
    }
}

static void read_numbers(double *to, int64_t n, const char *text)
{
    char *end = (char *)text;
    for (int64_t k = 0; k < n; k++) {
        const char *from = end;
        to[k] = strtod(from, &end);
        if (end == from)
            fail_msg("'%s' has less than %lld numbers", text, (long long)n);
    }
    if (end[strspn(end, " ")])
        fail_msg("'%s' has more than %lld numbers", text, (long long)n);
}

Tensor64 *program_args(World *w, const Module *m, const char *const *data)
{
    const Fn *f = m->fns.data[0];
    Tensor64 *args = NEW_ARRAY(w->a, Tensor64, f->args.n);
    for (size_t i = 0; i < f->args.n; i++) {
        args[i].type = *type_of(m, f->body->args.data[i]);
        int64_t n = type_elements(&args[i].type);
        args[i].data = NEW_ARRAY(w->a, double, n);
        if (data)
            read_numbers(args[i].data, n, data[i]);
        else
            fill(args[i].data, n, args[i].type.dtype, i);
    }
    return args;
}

Tensor64 *run_program(World *w, const Module *m, const char *const *data, bool round)
{
    const Fn *f = m->fns.data[0];
    const Tensor64 *args = program_args(w, m, data);
    Tensor64 *results = NEW_ARRAY(w->a, Tensor64, f->results.n);
    ir_interpret(m, f, args, results, w->a, round);
    return results;
}

void assert_close(const Tensor64 *x, const Tensor64 *y, double tolerance, const char *what)
{
    double size = 1e-300;
    int64_t n = type_elements(&x->type);
    assert_int_equal(n, type_elements(&y->type));
    for (int64_t k = 0; k < n; k++)
        size = fmax(size, fabs(x->data[k]));
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(x->data[k] - y->data[k]) <= tolerance * size))
            fail_msg("%s: element %lld is %.17g and %.17g", what, (long long)k, x->data[k],
                     y->data[k]);
}

void assert_numbers(const Tensor64 *x, const char *want, const char *what)
{
    int64_t n = type_elements(&x->type);
    double *y = calloc((size_t)n, sizeof *y);
    read_numbers(y, n, want);
    for (int64_t k = 0; k < n; k++)
        if (!(x->data[k] == y[k] || fabs(x->data[k] - y[k]) <= 1e-12 * fabs(y[k]) ||
              (isnan(x->data[k]) && isnan(y[k]))))
            fail_msg("%s: element %lld is %.17g, not %.17g", what, (long long)k, x->data[k], y[k]);
    free(y);
}
