/* interpret.c - the meaning of the IR against PyTorch: the loss and every gradient of a small
 * model, by the reference interpreter in double precision, against the numbers of a golden file.
 *
 *   parity-interpret F.mg golden/F.safetensors golden/F.json
 *
 *   parity-interpret F.mg F.safetensors F.json --write OUT     the loss and the gradients as a file
 *
 * The tensors: weight.NAME and grad.NAME for each parameter (a frozen one has no gradient), and the
 * data: "batch" or "tokens", windows of tokens, or the model's inputs by their names. */
#include "ir/external.h"
#include "ir/interpret.h"
#include "grammar/grammar.h"
#include "passes/passes.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Relative, between doubles: of the loss, of a gradient to its own norm, and to that of all.
 * OF_LOSS is rounding: a gradient that is zero by mathematics (the mean of a softmax) is a
 * difference of numbers as large as the loss. */
static const double LOSS_BOUND = 1e-10, GRADIENT_BOUND = 1e-9, OF_ALL = 1e-13, OF_LOSS = 1e-15;

typedef struct Golden {
    json_t *header;
    const char *data;
    double loss, norm; /* of all gradients */
} Golden;

/* A tensor of the file. */
typedef struct Stored {
    const char *type, *data;
    int64_t n;
} Stored;

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
    const json_t *loss = json_object_get(json, "loss");
    Golden g = {.header = json_loadb(file + 8, n, 0, &e), .data = file + 8 + n};
    if (!g.header || !json_is_number(loss))
        die("is no golden file", tensors);
    g.loss = json_number_value(loss);
    json_decref(json);
    return g;
}

static Stored find(const Golden *g, const char *name)
{
    const json_t *t = json_object_get(g->header, name);
    if (!t)
        die("is not in the golden file", name);
    const json_t *shape = json_object_get(t, "shape");
    Stored s = {.type = json_string_value(json_object_get(t, "dtype")), .n = 1};
    for (size_t i = 0; i < json_array_size(shape); i++)
        s.n *= json_integer_value(json_array_get(shape, i));
    s.data = g->data + json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 0));
    return s;
}

static double element(const Stored *s, int64_t i)
{
    if (!strcmp(s->type, "F64"))
        return ((const double *)s->data)[i];
    if (!strcmp(s->type, "F32"))
        return ((const float *)s->data)[i];
    if (!strcmp(s->type, "U8"))
        return ((const uint8_t *)s->data)[i];
    if (strcmp(s->type, "BF16") != 0)
        die("is a type that is not read", s->type);
    uint32_t bits = (uint32_t)((const uint16_t *)s->data)[i] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The index in the stored tensor of element e of the external one, for stacked index s. */
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

/* The index in the external tensor, which others have parts of too, of element e of a part. */
static int64_t file_index(const Tensor *t, int64_t e)
{
    int64_t behind = 1;
    for (int i = t->part_dim + 1; i < t->external_rank && t->part_of; i++)
        behind *= external_size(t, i);
    if (!t->part_of)
        return e;
    const int64_t run = external_size(t, t->part_dim) * behind;
    return (e / run * t->part_of + t->part_at) * behind + e % run;
}

/* Elements of the parameter in one external tensor. */
static int64_t elements_in(const Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->external_rank; i++)
        n *= external_size(t, i);
    return n;
}

static int64_t iterations(const Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->stacked; i++)
        n *= t->type.dims[i].size;
    return n;
}

static const char *external(Arena *a, const Module *m, const Tensor *t, const char *kind, int64_t s)
{
    int64_t sizes[MAX_RANK];
    for (int i = 0; i < t->stacked; i++)
        sizes[i] = t->type.dims[i].size;
    const char *name = external_name(a, name_str(m->names, t->external), sizes, s);
    return arena_printf(a, "%s.%s", kind, name);
}

static void fill_data(const Golden *g, const char *name, Tensor64 *to)
{
    Stored s = find(g, name);
    if (s.n != type_elements(&to->type))
        die("another size", name);
    for (int64_t i = 0; i < s.n; i++)
        to->data[i] = element(&s, i);
}

/* The rows as the first step has them, where their order counts, or as the file has them. */
static const char *batch_name(Arena *a, const Golden *g, const char *input)
{
    const char *name = arena_printf(a, "batch.%s", input);
    return json_object_get(g->header, name) ? name : input;
}

/* Windows of tokens, of which a model without next(tokens) reads all but the last. */
static void fill_tokens(Arena *a, const Golden *g, Tensor64 *to)
{
    Stored s = find(g, json_object_get(g->header, "batch") ? "batch" : batch_name(a, g, "tokens"));
    const int64_t rows = to->type.dims[0].size, n = to->type.dims[1].size, stored = s.n / rows;
    if (s.n != rows * n && s.n != rows * (n + 1))
        die("another size", "tokens");
    for (int64_t i = 0; i < rows * n; i++)
        to->data[i] = element(&s, i / n * stored + i % n);
}

/* Of each token of a window but the first. */
static void fill_weights(const Golden *g, Tensor64 *to)
{
    Stored s = find(g, "weights");
    const int64_t n = to->type.dims[1].size;
    if (s.n != to->type.dims[0].size * (n + 1))
        die("another size", "weights");
    for (int64_t i = 0; i < type_elements(&to->type); i++)
        to->data[i] = element(&s, i / n * (n + 1) + i % n + 1);
}

static void fill_parameter(Arena *a, const Module *m, const Golden *g, const Tensor *t, double *to)
{
    for (int64_t s = 0; s < iterations(t); s++) {
        Stored w = find(g, external(a, m, t, "weight", s));
        const int64_t n = elements_in(t);
        if (t->part_of ? w.n * external_size(t, t->part_dim) != n * t->part_of : w.n != n)
            die("another size", name_str(m->names, t->name));
        for (int64_t e = 0; e < n; e++)
            to[stored_index(t, s, e)] = element(&w, file_index(t, e));
    }
}

static void fill(Arena *a, const Module *m, const Golden *g, FnArg arg, Tensor64 *to)
{
    if (arg.role == ARG_param)
        fill_parameter(a, m, g, &m->tensors.data[arg.tensor], to->data);
    else if (arg.role == ARG_tokens)
        fill_tokens(a, g, to);
    else if (arg.role == ARG_weight)
        fill_weights(g, to);
    else if (arg.role == ARG_documents)
        fill_data(g, "documents", to);
    else if (arg.role == ARG_input)
        fill_data(g, batch_name(a, g, name_str(m->names, m->inputs.data[arg.tensor].name)), to);
    else if (arg.role != ARG_seed &&
             arg.role != ARG_step) /* both are 0, as they are in a run's first step */
        die("an argument that is neither a parameter nor data", "@train");
}

static bool report(const char *name, double off, double allowed)
{
    bool good = off <= allowed;
    if (!good)
        printf("%-40s off by %.2e, allowed %.2e\n", name, off, allowed);
    return good;
}

/* The norm of all gradients. */
static double whole(const Golden *g)
{
    const char *name;
    json_t *t;
    double sum = 0;
    json_object_foreach(g->header, name, t) {
        Stored s = strncmp(name, "grad.", 5) == 0 ? find(g, name) : (Stored){0};
        for (int64_t i = 0; i < s.n; i++)
            sum += element(&s, i) * element(&s, i);
    }
    if (!(sum > 0))
        die("is zero: nothing is tested", "the norm of all gradients");
    return sqrt(sum);
}

/* |a - b|, over all that a parameter has of one external tensor. */
static bool compare(Arena *a, const Module *m, const Golden *g, const Tensor *t, const double *mine)
{
    bool good = true;
    for (int64_t s = 0; s < iterations(t); s++) {
        const char *name = external(a, m, t, "grad", s);
        Stored theirs = find(g, name);
        double off = 0, size = 0;
        for (int64_t e = 0; e < elements_in(t); e++) {
            double x = mine[stored_index(t, s, e)], y = element(&theirs, file_index(t, e));
            off += (x - y) * (x - y);
            size += y * y;
        }
        good &= report(name, sqrt(off),
                       GRADIENT_BOUND * sqrt(size) + OF_ALL * g->norm + OF_LOSS * fabs(g->loss));
    }
    return good;
}

static bool compare_all(Arena *a, const Module *m, const Golden *g, const Fn *fn, const Tensor64 *r)
{
    bool good = true;
    size_t compared = 0, learn = 0;
    for (size_t i = 0; i < m->tensors.n; i++)
        learn += !m->tensors.data[i].frozen;
    for (size_t i = 0; i < fn->results.n; i++)
        if (fn->results.data[i].role == RES_loss && !fn->results.data[i].tensor)
            good &= report("loss", fabs(r[i].data[0] - g->loss), LOSS_BOUND * fabs(g->loss));
        else if (fn->results.data[i].role == RES_grad) {
            good &= compare(a, m, g, &m->tensors.data[fn->results.data[i].tensor], r[i].data);
            compared++;
        }
    if (compared != learn)
        die("a parameter has no gradient", name_str(m->names, fn->name));
    printf("loss %.12f and %zu gradients %s\n", g->loss, compared, good ? "agree" : "DIFFER");
    return good;
}

/* ---- gradients as a file ----------------------------------------------------------------------
 */

/* Of all external tensors, "name -> {data_offsets}", and their elements one behind the other. */
typedef struct Written {
    json_t *header;
    double *data;
    size_t n, room;
} Written;

static void add_element(Written *w, const char *name, const Tensor *t, int64_t at, double x)
{
    json_t *entry = json_object_get(w->header, name);
    const int64_t n = elements_in(t) / (t->part_of ? external_size(t, t->part_dim) : 1) *
                      (t->part_of ? t->part_of : 1);
    if (!entry) {
        if (w->n + (size_t)n > w->room)
            die("are too many elements to write", name);
        json_object_set_new(w->header, name,
                            json_pack("{s:s, s:[I], s:[I, I]}", "dtype", "F64", "shape",
                                      (json_int_t)n, "data_offsets", (json_int_t)(w->n * 8),
                                      (json_int_t)((w->n + (size_t)n) * 8)));
        w->n += (size_t)n;
        entry = json_object_get(w->header, name);
    }
    const json_t *offsets = json_object_get(entry, "data_offsets");
    w->data[json_integer_value(json_array_get(offsets, 0)) / 8 + at] = x;
}

static void write_file(const Written *w, const char *path)
{
    char *header = json_dumps(w->header, JSON_COMPACT);
    FILE *out = fopen(path, "wb");
    if (!out || !header)
        die("cannot be written", path);
    const uint64_t size = strlen(header);
    fwrite(&size, 8, 1, out);
    fwrite(header, 1, size, out);
    fwrite(w->data, 8, w->n, out);
    if (fclose(out))
        die("cannot be written", path);
    free(header);
}

static void write_all(Arena *a, const Module *m, const Fn *fn, const Tensor64 *r, const char *path)
{
    enum { ROOM = 1 << 22 };
    Written w = {json_object(), NEW_ARRAY(a, double, ROOM), 0, ROOM};
    for (size_t i = 0; i < fn->results.n; i++) {
        const FnResult *f = &fn->results.data[i];
        if (f->role == RES_loss && !f->tensor)
            add_element(&w, "loss", &(Tensor){0}, 0, r[i].data[0]);
        if (f->role != RES_grad)
            continue;
        const Tensor *t = &m->tensors.data[f->tensor];
        for (int64_t s = 0; s < iterations(t); s++)
            for (int64_t e = 0; e < elements_in(t); e++)
                add_element(&w, external(a, m, t, "grad", s), t, file_index(t, e),
                            r[i].data[stored_index(t, s, e)]);
    }
    write_file(&w, path);
    json_decref(w.header);
}

/* how: a number is of the positions that a linear scan computes at once, a name that of the
 * adapter; NULL: as the file says. */
static Module *front(Arena *a, const char *path, const char *how)
{
    const int64_t chunk = how ? strtoll(how, NULL, 10) : 0;
    const ElaborateOptions o = {.adapter = chunk ? NULL : how};
    size_t size;
    Names *names = names_new(a);
    Diag *d = diag_new(a, stderr, false);
    char *text = read_all(a, path, &size);
    const Ast *ast = mg_parse(a, names, d, diag_add_file(d, path, text, size));
    Module *m = ast ? mg_elaborate(a, names, d, ast, &o) : NULL;
    Job job = {.m = m, .log = stderr};
    if (m && chunk)
        m->layout.chunk = chunk;
    if (!m || passes_run(&job, &(PassRange){.until = "differentiate"}) != PASS_ok)
        die("does not compile", path);
    return m;
}

int main(int argc, char **argv)
{
    const bool write = argc == 6 && !strcmp(argv[4], "--write");
    if (argc != 4 && argc != 5 && !write)
        die("usage: F.mg F.safetensors F.json [CHUNK|ADAPTER]", argc > 1 ? argv[1] : "?");
    Arena *a = arena_new();
    Module *m = front(a, argv[1], argc == 5 ? argv[4] : NULL);
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
    if (write) {
        write_all(a, m, fn, results, argv[5]);
    } else {
        g.norm = whole(&g);
        printf("%s: ", argv[1]);
        good = compare_all(a, m, &g, fn, results);
    }
    json_decref(g.header);
    arena_free(a);
    return good ? 0 : 1;
}
