/* interpret.c - the meaning of the IR against PyTorch: the loss and every gradient of a small
 * model, by the reference interpreter in double precision, against the numbers of generate.py.
 *
 *   parity-interpret F.mg golden/F.safetensors golden/F.json */
#include "grammar/grammar.h"
#include "passes/passes.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LOSS_BOUND = 1e-9, GRADIENT_BOUND = 1e-9; /* relative, between doubles */

typedef struct Golden {
    json_t *header;
    const char *data;
    double loss;
} Golden;

static _Noreturn void die(const char *what, const char *name)
{
    fprintf(stderr, "parity-interpret: %s: %s\n", name, what);
    exit(1);
}

static char *read_all(Arena *a, const char *path, size_t *size)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        die("cannot be read", path);
    fseek(in, 0, SEEK_END);
    *size = (size_t)ftell(in);
    rewind(in);
    char *text = arena_alloc(a, *size + 1);
    if (fread(text, 1, *size, in) != *size)
        die("cannot be read", path);
    fclose(in);
    return text;
}

static Golden read_golden(Arena *a, const char *tensors, const char *numbers)
{
    size_t size;
    uint64_t n;
    json_error_t e;
    char *file = read_all(a, tensors, &size);
    memcpy(&n, file, 8);
    json_t *json = json_load_file(numbers, 0, &e);
    Golden g = {json_loadb(file + 8, n, 0, &e), file + 8 + n,
                json_number_value(json_object_get(json, "loss"))};
    if (!g.header || !(g.loss > 0))
        die("is no golden file", tensors);
    json_decref(json);
    return g;
}

/* The tensor called kind.name in memory, and how many elements it has. */
static const void *find(const Golden *g, const char *name, int64_t *n)
{
    const json_t *t = json_object_get(g->header, name);
    if (!t)
        die("is not in the golden file", name);
    const json_t *shape = json_object_get(t, "shape");
    *n = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        *n *= json_integer_value(json_array_get(shape, i));
    return g->data + json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 0));
}

/* Where element e of the external tensor for stacked index s lies in the stored one. */
static int64_t stored_index(const Tensor *t, int64_t s, int64_t e)
{
    int64_t stride[MAX_RANK], at = 0;
    for (int d = t->type.rank - 1, step = 1; d >= 0; d--) {
        stride[d] = step;
        step *= (int)t->type.dims[d].size;
    }
    for (int k = t->type.rank - t->stacked - 1; k >= 0; k--) {
        int d = t->order[k];
        at += e % t->type.dims[d].size * stride[d];
        e /= t->type.dims[d].size;
    }
    return t->stacked ? at + s * stride[t->stacked - 1] : at;
}

static int64_t rounds(const Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->stacked; i++)
        n *= t->type.dims[i].size;
    return n;
}

static const char *external(Arena *a, const Module *m, const Tensor *t, const char *kind, int64_t s)
{
    const char *rest = name_str(m->names, t->external), *name = arena_printf(a, "%s.", kind);
    int64_t behind = rounds(t);
    int dim = 0;
    for (const char *hole; (hole = strstr(rest, "{}")); rest = hole + 2) {
        behind /= t->type.dims[dim++].size;
        name =
            arena_printf(a, "%s%.*s%lld", name, (int)(hole - rest), rest, (long long)(s / behind));
        s %= behind;
    }
    return arena_printf(a, "%s%s", name, rest);
}

static void fill(Arena *a, const Module *m, const Golden *g, FnArg arg, Tensor64 *to)
{
    int64_t n;
    if (arg.role == ARG_tokens) {
        const uint8_t *bytes = find(g, "batch", &n);
        if (n != type_elements(&to->type))
            die("another size", "batch");
        for (int64_t i = 0; i < n; i++)
            to->data[i] = bytes[i];
        return;
    }
    if (arg.role != ARG_param)
        die("an argument that is neither a parameter nor the tokens", "@train");
    const Tensor *t = &m->tensors.data[arg.tensor];
    for (int64_t s = 0; s < rounds(t); s++) {
        const float *w = find(g, external(a, m, t, "weight", s), &n);
        if (n * rounds(t) != type_elements(&t->type))
            die("another size", name_str(m->names, t->name));
        for (int64_t e = 0; e < n; e++)
            to->data[stored_index(t, s, e)] = w[e];
    }
}

static bool report(const char *name, double off, double bound)
{
    bool good = off <= bound;
    if (!good)
        printf("%-40s off by %.2e, allowed %.0e\n", name, off, bound);
    return good;
}

/* |a - b| / |b| over all of one external tensor. */
static bool compare(Arena *a, const Module *m, const Golden *g, const Tensor *t, const double *mine)
{
    bool good = true;
    for (int64_t s = 0; s < rounds(t); s++) {
        int64_t n;
        const char *name = external(a, m, t, "grad", s);
        const double *theirs = find(g, name, &n);
        double off = 0, size = 0;
        for (int64_t e = 0; e < n; e++) {
            double x = mine[stored_index(t, s, e)];
            off += (x - theirs[e]) * (x - theirs[e]);
            size += theirs[e] * theirs[e];
        }
        if (size == 0)
            die("is zero: nothing is tested", name);
        good &= report(name, sqrt(off / size), GRADIENT_BOUND);
    }
    return good;
}

static Module *front(Arena *a, const char *path)
{
    size_t size;
    Names *names = names_new(a);
    Diag *d = diag_new(a, stderr, false);
    char *text = read_all(a, path, &size);
    const Ast *ast = mg_parse(a, names, d, diag_add_file(d, path, text, size));
    Module *m = ast ? mg_elaborate(a, names, d, ast, &(ElaborateOptions){0}) : NULL;
    Job job = {.m = m, .log = stderr};
    if (!m || passes_run(&job, &(PassRange){.until = "differentiate"}) != PASS_ok)
        die("does not compile", path);
    return m;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("usage: F.mg F.safetensors F.json", argc > 1 ? argv[1] : "?");
    Arena *a = arena_new();
    Module *m = front(a, argv[1]);
    Golden g = read_golden(a, argv[2], argv[3]);
    const Fn *fn = module_fn(m, "train");
    Tensor64 *args = NEW_ARRAY(a, Tensor64, fn->args.n);
    Tensor64 *results = NEW_ARRAY(a, Tensor64, fn->results.n);
    for (size_t i = 0; i < fn->args.n; i++) {
        args[i].type = *type_of(m, fn->body->args.data[i]);
        args[i].data = NEW_ARRAY(a, double, type_elements(&args[i].type));
        fill(a, m, &g, fn->args.data[i], &args[i]);
    }
    ir_interpret(m, fn, args, results, a, false);
    bool good = true;
    size_t compared = 0;
    for (size_t i = 0; i < fn->results.n; i++)
        if (fn->results.data[i].role == RES_loss)
            good &= report("loss", fabs(results[i].data[0] / g.loss - 1), LOSS_BOUND);
        else if (fn->results.data[i].role == RES_grad) {
            good &=
                compare(a, m, &g, &m->tensors.data[fn->results.data[i].tensor], results[i].data);
            compared++;
        }
    if (compared != m->tensors.n)
        die("a parameter has no gradient", argv[1]);
    printf("%s: loss %.12f and %zu gradients %s\n", argv[1], g.loss, compared,
           good ? "agree" : "DIFFER");
    json_decref(g.header);
    arena_free(a);
    return good ? 0 : 1;
}
