/* text_parse.c - reads the text that text_print.c writes.
 *
 * The input may be anything: every count is bounded by the text's length, nesting by a fixed depth,
 * and each error names its place. Instructions are built as they are read, so an operand must be
 * defined above its use; types are checked by ir_verify afterwards, not here. */
#include "ir/ir.h"
#include "ir/text.h"

#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_VALUES = 250 };

typedef enum TokenKind { TOK_end, TOK_word, TOK_value, TOK_string, TOK_number, TOK_mark } TokenKind;

typedef struct Token {
    TokenKind kind;
    const char *text; /* word, value, string: decoded; mark: the character */
    double real;
    int64_t integer;
    bool integral;
    Span span;
} Token;

typedef struct Reader {
    Module *m;
    Arena *a;
    const char *start, *at, *end;
    uint32_t file;
    Token t;                  /* the next token */
    VEC(Value) by_name;       /* value of each name, valid in the function being read */
    uint32_t source;          /* file that @line:column speaks of, 0 until needed */
    VEC(uint32_t) line_start; /* its lines */
    jmp_buf fail;
} Reader;

static _Noreturn void wrong(Reader *r, Span s, int code, const char *fmt, const char *what)
{
    diag_error(r->m->diag, s, code, fmt, what);
    longjmp(r->fail, 1);
}

/* ---- tokens -------------------------------------------------------------------------------- */

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static const char *read_string(Reader *r)
{
    const char *from = ++r->at;
    const char *close = memchr(from, '"', (size_t)(r->end - from));
    size_t room = (size_t)((close ? close : r->end) - from);
    char *s = arena_alloc(r->a, (room < 4096 ? room : 4096) + 1);
    size_t n = 0;
    while (r->at < r->end && *r->at != '"') {
        char c = *r->at++;
        if (n == 4096 || c == '\n' || c == '\0')
            break;
        if (c == '\\') {
            unsigned x;
            char hex[3] = {0};
            if (r->end - r->at < 3 || *r->at != 'x')
                break;
            memcpy(hex, r->at + 1, 2);
            if (!isxdigit((unsigned char)hex[0]) || !isxdigit((unsigned char)hex[1]))
                break;
            x = (unsigned)strtoul(hex, NULL, 16);
            if (!x)
                break;
            c = (char)x;
            r->at += 3;
        }
        s[n++] = c;
    }
    if (r->at >= r->end || *r->at != '"')
        wrong(r, (Span){r->file, (uint32_t)(from - r->start) - 1, (uint32_t)(from - r->start)}, 401,
              "this string is not closed, too long, or has a bad escape%s", "");
    r->at++;
    return s;
}

static void read_number(Reader *r)
{
    char s[48];
    size_t n = 0;
    const char *p = r->at;
    while (p < r->end && n < sizeof s - 1 &&
           (isalnum((unsigned char)*p) || *p == '.' || *p == '-' || *p == '+'))
        s[n++] = *p++;
    s[n] = 0;
    char *stop;
    r->t.real = strtod(s, &stop);
    size_t used = (size_t)(stop - s);
    errno = 0;
    char *istop;
    long long whole = strtoll(s, &istop, 10);
    r->t.integral = istop == stop && errno == 0;
    r->t.integer = whole;
    if (!used)
        wrong(r, r->t.span, 401, "'%s' is not a number", s);
    r->at += used;
    r->t.kind = TOK_number;
}

static void next(Reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r' || *r->at == '#')) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        else
            r->at++;
    }
    uint32_t from = (uint32_t)(r->at - r->start);
    r->t = (Token){.span = {r->file, from, from + 1}};
    if (r->at == r->end)
        return;
    char c = *r->at;
    if (c == '%') {
        r->at++;
        r->t.kind = TOK_value;
        if (r->at < r->end && *r->at == '"')
            r->t.text = read_string(r);
        else {
            const char *s = r->at;
            while (r->at < r->end && word_char(*r->at))
                r->at++;
            r->t.text = arena_strndup(r->a, s, (size_t)(r->at - s));
        }
    } else if (c == '"') {
        r->t.kind = TOK_string;
        r->t.text = read_string(r);
    } else if (isdigit((unsigned char)c) || c == '-') {
        read_number(r);
    } else if (isalpha((unsigned char)c) || c == '_') {
        const char *s = r->at;
        while (r->at < r->end && word_char(*r->at))
            r->at++;
        r->t.kind = TOK_word;
        r->t.text = arena_strndup(r->a, s, (size_t)(r->at - s));
    } else {
        r->t.kind = TOK_mark;
        r->t.text = arena_strndup(r->a, r->at++, 1);
    }
    r->t.span.end = (uint32_t)(r->at - r->start);
}

static bool is_word(const Reader *r, const char *w)
{
    return r->t.kind == TOK_word && strcmp(r->t.text, w) == 0;
}

static bool is_mark(const Reader *r, char c)
{
    return r->t.kind == TOK_mark && r->t.text[0] == c;
}

static bool take_mark(Reader *r, char c)
{
    if (!is_mark(r, c))
        return false;
    next(r);
    return true;
}

static void want_mark(Reader *r, char c)
{
    char s[2] = {c, 0};
    if (!take_mark(r, c))
        wrong(r, r->t.span, 402, "'%s' is expected here", s);
}

static bool take_word(Reader *r, const char *w)
{
    if (!is_word(r, w))
        return false;
    next(r);
    return true;
}

static void want_word(Reader *r, const char *w)
{
    if (!take_word(r, w))
        wrong(r, r->t.span, 402, "'%s' is expected here", w);
}

/* A name: a word or a string. */
static const char *want_text(Reader *r)
{
    if (r->t.kind != TOK_word && r->t.kind != TOK_string)
        wrong(r, r->t.span, 402, "%s is expected here", "a name");
    const char *s = r->t.text;
    next(r);
    return s;
}

static Name want_name(Reader *r)
{
    const char *s = want_text(r);
    return *s ? name_intern(r->m->names, s) : 0;
}

static double want_real(Reader *r)
{
    double x = r->t.real;
    if (is_word(r, "nan") || is_word(r, "inf"))
        x = strtod(r->t.text, NULL);
    else if (r->t.kind != TOK_number)
        wrong(r, r->t.span, 402, "%s is expected here", "a number");
    next(r);
    return x;
}

static int64_t want_int(Reader *r, int64_t low, int64_t high)
{
    if (r->t.kind != TOK_number || !r->t.integral || r->t.integer < low || r->t.integer > high)
        wrong(r, r->t.span, 403, "%s is expected here", "a whole number in range");
    int64_t n = r->t.integer;
    next(r);
    return n;
}

static int want_choice(Reader *r, const char *const *choices, int n)
{
    for (int i = 0; i < n; i++)
        if (take_word(r, choices[i]))
            return i;
    wrong(r, r->t.span, 404, "unknown word '%s'", r->t.kind == TOK_word ? r->t.text : "");
}

/* ---- places in the source ------------------------------------------------------------------- */

/* The source the dump was made from, if it can be read; else a blank page on which every place up
 * to the largest line and column exists. */
static void open_source(Reader *r)
{
    enum { LINES = 20000, COLUMNS = 200, LARGEST = 64 << 20 };
    const char *path = r->m->source ? r->m->source : "";
    FILE *f = *path ? fopen(path, "rb") : NULL;
    char *text = NULL;
    size_t size = 0;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        long n = ftell(f);
        rewind(f);
        if (n > 0 && n < LARGEST) {
            text = arena_alloc(r->a, (size_t)n + 1);
            size = fread(text, 1, (size_t)n, f);
        }
    }
    if (f)
        fclose(f);
    if (!text) {
        size = (size_t)LINES * COLUMNS;
        text = arena_alloc(r->a, size + 1);
        memset(text, ' ', size);
        for (int i = 1; i <= LINES; i++)
            text[i * COLUMNS - 1] = '\n';
    }
    r->source = diag_add_file(r->m->diag, path, text, size);
    vec_push(r->a, &r->line_start, 0);
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\n')
            vec_push(r->a, &r->line_start, (uint32_t)i + 1);
    vec_push(r->a, &r->line_start, (uint32_t)size + 1);
}

/* [ '@' line ':' column ] */
static Span read_place(Reader *r)
{
    Span none = {0};
    if (!take_mark(r, '@'))
        return none;
    Span here = r->t.span;
    int64_t line = want_int(r, 1, INT32_MAX);
    want_mark(r, ':');
    int64_t column = want_int(r, 1, INT32_MAX);
    if (!r->source)
        open_source(r);
    if ((size_t)line >= r->line_start.n ||
        column > r->line_start.data[line] - r->line_start.data[line - 1])
        wrong(r, here, 405, "there is no such place in '%s'", r->m->source ? r->m->source : "");
    uint32_t at = r->line_start.data[line - 1] + (uint32_t)column - 1;
    return (Span){r->source, at, at + 1};
}

/* ---- types and attributes ------------------------------------------------------------------- */

static Dim read_dim(Reader *r)
{
    Dim d = {.name = want_name(r)};
    want_mark(r, '=');
    d.size = want_int(r, 0, (int64_t)1 << 62);
    return d;
}

static DimList read_dims(Reader *r)
{
    DimList l = {0};
    want_mark(r, '[');
    while (!is_mark(r, ']')) {
        if (l.n == MAX_RANK)
            wrong(r, r->t.span, 403, "there are more than %s dims", "8");
        if (l.n)
            want_mark(r, ',');
        l.dim[l.n++] = read_dim(r);
    }
    next(r);
    return l;
}

static DType read_dtype(Reader *r)
{
    static const char *const names[] = {
        "",
#define DTYPE(name, ctype, bytes, floating) #name,
#include "ir/dtypes.def"
    };
    return (DType)want_choice(r, names, DT_count);
}

static Type read_type(Reader *r)
{
    Type t = {.dtype = read_dtype(r)};
    DimList l = read_dims(r);
    t.rank = l.n;
    memcpy(t.dims, l.dim, sizeof l.dim);
    if (take_mark(r, '(')) {
        t.indexes = want_name(r);
        want_mark(r, ')');
    }
    return t;
}

static void read_attr_DIMS(Reader *r, DimList *l)
{
    *l = read_dims(r);
}
static void read_attr_DIM(Reader *r, Dim *d)
{
    *d = read_dim(r);
}
static void read_attr_INT(Reader *r, int64_t *v)
{
    *v = want_int(r, INT64_MIN, INT64_MAX);
}
static void read_attr_REAL(Reader *r, double *v)
{
    *v = want_real(r);
}
static void read_attr_FLAG(Reader *r, bool *v)
{
    static const char *const words[] = {"no", "yes"};
    *v = want_choice(r, words, 2) == 1;
}
static void read_attr_NAME(Reader *r, Name *v)
{
    *v = want_name(r);
}

static void read_attrs(Reader *r, Op op, Attrs *attrs)
{
    unsigned have = op_info[op].attrs;
    if (!have)
        return;
    const char *comma = "";
    want_mark(r, '{');
#define ATTR(name, kind)                                                                           \
    if (have & 1u << ATTR_##name) {                                                                \
        if (*comma)                                                                                \
            want_mark(r, ',');                                                                     \
        want_word(r, #name);                                                                       \
        want_mark(r, '=');                                                                         \
        read_attr_##kind(r, &attrs->name);                                                         \
        comma = ",";                                                                               \
    }
#include "ir/attrs.def"
    want_mark(r, '}');
}

/* ---- instructions --------------------------------------------------------------------------- */

/* The value's hint is the name without the number that made it unique: so what later passes name
 * after it comes out the same as without the text between. */
static void define(Reader *r, const char *name, Span s, Value v)
{
    Name n = name_intern(r->m->names, name);
    while (r->by_name.n <= n)
        vec_push(r->a, &r->by_name, 0);
    if (r->by_name.data[n])
        wrong(r, s, 406, "'%%%s' is defined twice", name);
    r->by_name.data[n] = v;
    r->m->values.data[v].name = name_intern_n(r->m->names, name, label_stem(name, strlen(name)));
}

static Value read_value(Reader *r)
{
    if (r->t.kind != TOK_value)
        wrong(r, r->t.span, 402, "%s is expected here", "a value");
    Name n = name_intern(r->m->names, r->t.text);
    if (n >= r->by_name.n || !r->by_name.data[n])
        wrong(r, r->t.span, 407, "'%%%s' is not defined above", r->t.text);
    next(r);
    return r->by_name.data[n];
}

static void read_region(Reader *r, Region *region, int depth);

typedef struct Results {
    int n;
    size_t cap;
    struct ResultText {
        const char *name;
        Span span;
    } *of;
    VEC(Type) types;
} Results;

static void read_results(Reader *r, Results *out)
{
    while (r->t.kind == TOK_value) {
        if (out->n == MAX_VALUES)
            wrong(r, r->t.span, 403, "there are more than %s results", "250");
        if ((size_t)out->n == out->cap)
            out->of = arena_grow(r->a, out->of, out->cap, &out->cap, sizeof *out->of);
        out->of[out->n++] = (struct ResultText){r->t.text, r->t.span};
        next(r);
        want_mark(r, ':');
        vec_push(r->a, &out->types, read_type(r));
        if (!take_mark(r, ','))
            break;
    }
    if (out->n)
        want_mark(r, '=');
}

static void read_ins(Reader *r, Region *region, int depth)
{
    Results results = {0}, *res = &results;
    Value in[MAX_VALUES];
    int nin = 0;
    Attrs attrs = {0};
    read_results(r, res);
    Span at = r->t.span;
    const char *name = want_text(r);
    Op op = op_find(name);
    if (op == OP_none)
        wrong(r, at, 408, "there is no op '%s'", name);
    while (r->t.kind == TOK_value) {
        if (nin == MAX_VALUES)
            wrong(r, r->t.span, 403, "there are more than %s operands", "250");
        in[nin++] = read_value(r);
        if (!take_mark(r, ','))
            break;
    }
    const OpInfo *info = &op_info[op];
    if (nin < info->least || nin > info->most || (info->results != 250 && res->n != info->results))
        wrong(r, at, 409, "'%s' has the wrong number of operands or results", name);
    read_attrs(r, op, &attrs);
    Builder b = {.m = r->m, .region = region, .span = read_place(r)};
    if (take_word(r, "in"))
        b.path = want_name(r);
    if (take_word(r, "of"))
        b.block = want_name(r);
    b.backward = take_word(r, "backward");
    Region *body = NULL;
    if (op == OP_repeat || op == OP_fused) {
        if (depth == MAX_DEPTH)
            wrong(r, at, 403, "regions are nested deeper than %s", "32");
        want_mark(r, '{');
        body = region_new(r->m, region);
        read_region(r, body, depth + 1);
        want_mark(r, '}');
    }
    Ins *i = build_typed(&b, op, &attrs, nin, in, res->n, res->types.data, body);
    for (int k = 0; k < res->n; k++)
        define(r, res->of[k].name, res->of[k].span, i->out[k]);
}

/* args, instructions, `give` values */
static void read_region(Reader *r, Region *region, int depth)
{
    while (take_word(r, "arg")) {
        if (r->t.kind != TOK_value)
            wrong(r, r->t.span, 402, "%s is expected here", "a value");
        const char *name = r->t.text;
        Span s = r->t.span;
        next(r);
        want_mark(r, ':');
        define(r, name, s, region_arg(r->m, region, read_type(r), 0));
    }
    while (!is_word(r, "give")) {
        if (r->t.kind == TOK_end)
            wrong(r, r->t.span, 402, "'%s' is expected here", "give");
        read_ins(r, region, depth);
    }
    next(r);
    while (r->t.kind == TOK_value) {
        Value v = read_value(r);
        vec_push(r->a, &region->results, v);
        if (!take_mark(r, ','))
            break;
    }
}

/* ---- the module ----------------------------------------------------------------------------- */

static uint32_t read_tensor_ref(Reader *r)
{
    Span s = r->t.span;
    Name n = want_name(r);
    for (size_t i = 0; i < r->m->tensors.n; i++)
        if (r->m->tensors.data[i].name == n)
            return (uint32_t)i;
    wrong(r, s, 410, "there is no tensor '%s'", name_str(r->m->names, n));
}

static void read_fn(Reader *r)
{
    static const char *const arg_roles[] = {"param", "state", "tokens", "lr",
                                            "step",  "seed",  "pos"};
    static const char *const result_roles[] = {"loss", "norm", "logits", "grad", "update"};
    Fn *f = NEW(r->a, Fn);
    want_mark(r, '@');
    f->name = want_name(r);
    r->by_name.n = 0;
    want_mark(r, '{');
    while (take_word(r, "role")) {
        FnArg a = {.role = (ArgRole)want_choice(r, arg_roles, 7)};
        if (a.role <= ARG_state)
            a.tensor = read_tensor_ref(r);
        vec_push(r->a, &f->args, a);
    }
    Span at = r->t.span;
    f->body = region_new(r->m, NULL);
    read_region(r, f->body, 0);
    while (take_word(r, "result")) {
        FnResult res = {.role = (ResultRole)want_choice(r, result_roles, 5)};
        if (res.role >= RES_grad)
            res.tensor = read_tensor_ref(r);
        vec_push(r->a, &f->results, res);
    }
    if (f->args.n != f->body->args.n || f->results.n != f->body->results.n)
        wrong(r, at, 411, "@%s has not one role for each argument and result",
              name_str(r->m->names, f->name));
    want_mark(r, '}');
    vec_push(r->a, &r->m->fns, f);
}

static void read_tensor(Reader *r)
{
    static const char *const inits[] = {"const", "normal", "uniform"};
    Tensor t = {.name = want_name(r)};
    t.type = read_type(r);
    want_word(r, "external");
    t.external = want_name(r);
    want_word(r, "slot");
    t.slot = want_name(r);
    want_word(r, "of");
    t.parameter = (uint32_t)want_int(r, 0, UINT32_MAX);
    want_word(r, "stacked");
    t.stacked = (int)want_int(r, 0, t.type.rank);
    want_word(r, "valid");
    want_mark(r, '[');
    for (int i = 0; i < t.type.rank; i++) {
        if (i)
            want_mark(r, ',');
        t.valid[i] = want_int(r, 0, t.type.dims[i].size);
    }
    want_mark(r, ']');
    want_word(r, "order");
    want_mark(r, '[');
    for (int i = 0; i < t.type.rank - t.stacked; i++) {
        if (i)
            want_mark(r, ',');
        t.order[i] = (uint8_t)want_int(r, t.stacked, t.type.rank - 1);
    }
    want_mark(r, ']');
    want_word(r, "merge");
    want_mark(r, '[');
    while (!is_mark(r, ']') && t.external_rank < MAX_RANK) {
        if (t.external_rank)
            want_mark(r, ',');
        t.merge[t.external_rank++] = (uint8_t)want_int(r, 1, MAX_RANK);
    }
    want_mark(r, ']');
    want_word(r, "init");
    t.init = (Init)want_choice(r, inits, 3);
    t.a = want_real(r);
    t.b = want_real(r);
    t.span = read_place(r);
    vec_push(r->a, &r->m->tensors, t);
}

static void read_train(Reader *r)
{
    static const char *const optimizers[] = {"adamw", "sgd"};
    static const char *const schedules[] = {"constant", "linear", "cosine"};
    Train *t = &r->m->train;
    struct {
        const char *name;
        double *value;
    } reals[] = {{"beta1", &t->beta1}, {"beta2", &t->beta2},       {"eps", &t->eps},
                 {"decay", &t->decay}, {"momentum", &t->momentum}, {"clip", &t->clip},
                 {"peak", &t->peak},   {"floor", &t->floor}};
    want_word(r, "train");
    t->optimizer = (Optimizer)want_choice(r, optimizers, 2);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        want_word(r, reals[i].name);
        *reals[i].value = want_real(r);
    }
    want_word(r, "decay_rank");
    t->decay_rank = (int)want_int(r, 0, MAX_RANK + 1);
    want_word(r, "lr");
    t->schedule = (Schedule)want_choice(r, schedules, 3);
    want_word(r, "warmup");
    t->warmup = want_int(r, 0, INT64_MAX);
    want_word(r, "steps");
    t->steps = want_int(r, 0, INT64_MAX);
    want_word(r, "compute");
    t->compute = read_dtype(r);
}

static void read_layout(Reader *r)
{
    static const char *const policies[] = {"auto", "none"};
    Layout *l = &r->m->layout;
    want_word(r, "layout");
    l->name = want_name(r);
    want_word(r, "device");
    l->device = want_name(r);
    want_word(r, "microbatch");
    l->microbatch = want_int(r, 0, INT64_MAX);
    want_word(r, "recompute");
    l->recompute = want_choice(r, policies, 2) ? RECOMPUTE_none : RECOMPUTE_auto;
    want_word(r, "assert_peak");
    l->assert_peak = want_real(r);
    l->assert_span = read_place(r);
}

static void read_module(Reader *r)
{
    want_word(r, "mgir");
    want_int(r, 1, 1);
    want_word(r, "model");
    r->m->name = want_name(r);
    want_word(r, "source");
    r->m->source = want_text(r);
    want_word(r, "batch");
    r->m->batch = read_dim(r);
    want_word(r, "seq");
    r->m->seq = read_dim(r);
    want_word(r, "vocab");
    r->m->vocab = want_int(r, 0, INT64_MAX);
    read_train(r);
    read_layout(r);
    while (take_word(r, "tensor"))
        read_tensor(r);
    Span here = r->t.span;
    for (size_t i = 0; i < r->m->tensors.n; i++)
        if (r->m->tensors.data[i].parameter >= r->m->tensors.n)
            wrong(r, here, 410, "there is no tensor numbered as that of '%s'",
                  name_str(r->m->names, r->m->tensors.data[i].name));
    while (take_word(r, "fn"))
        read_fn(r);
    if (r->t.kind != TOK_end)
        wrong(r, r->t.span, 402, "'%s' is expected here", "fn");
}

Module *ir_parse(Arena *a, Names *names, Diag *d, uint32_t file)
{
    size_t size;
    const char *text = diag_text(d, file, &size);
    Reader *r = NEW(a, Reader);
    *r = (Reader){.m = module_new(a, names, d),
                  .a = a,
                  .start = text,
                  .at = text,
                  .end = text + size,
                  .file = file};
    if (setjmp(r->fail))
        return NULL;
    next(r);
    read_module(r);
    return r->m;
}
