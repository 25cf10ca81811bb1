/* text_parse.c - reads the text that text_print.c writes.
 *
 * The input may be anything: every count is bounded by the text's length, nesting by a fixed depth,
 * and each error names its place. Instructions are built as they are read, so an operand must be
 * defined above its use; types are checked by ir_verify afterwards, not here. */
#include "ir/text.h"
#include "ir/text_reader.h"

#include <string.h>

/* ---- types and attributes ------------------------------------------------------------------- */

int text_read_axis(Reader *r, const char *name, size_t n, Span s)
{
    const Layout *l = &r->m->layout;
    for (size_t i = 0; i < l->mesh.n; i++) {
        const char *axis = name_str(r->m->names, l->mesh.data[i].name);
        if (strlen(axis) == n && !memcmp(axis, name, n))
            return (int)i;
    }
    text_wrong(r, s, 412, "the mesh has no axis '%s'", arena_strndup(r->a, name, n));
}

/* "dp.cp"; of a dim "dp.cp~.tp", where some may be in zigzag order, and the last the inner one. */
static Axes read_axes(Reader *r, Dim *of)
{
    Axes all = 0;
    do {
        Span s = r->t.span;
        const char *text = text_want_text(r);
        Axes last = 0;
        for (size_t n = 0;; n++) {
            size_t end = n + strcspn(text + n, ".");
            last = (Axes)1 << text_read_axis(r, text + n, end - n, s);
            if (of && last < all)
                of->inner = last;
            all |= last;
            n = end;
            if (!text[n])
                break;
        }
        if (!of || !text_take_mark(r, '~'))
            return all;
        of->zigzag |= last;
    } while (text_take_mark(r, '.'));
    return all;
}

static Dim read_dim(Reader *r)
{
    Dim d = {.name = text_want_name(r)};
    text_want_mark(r, '=');
    d.size = text_want_int(r, 0, (int64_t)1 << 62);
    if (text_take_mark(r, '@'))
        d.axes = read_axes(r, &d);
    if (d.axes && text_take_mark(r, '/'))
        d.blocks = (uint16_t)text_want_int(r, 2, MAX_BLOCKS);
    return d;
}

static DimList read_dims(Reader *r)
{
    DimList l = {0};
    text_want_mark(r, '[');
    while (!text_is_mark(r, ']')) {
        if (l.n == MAX_RANK)
            text_wrong(r, r->t.span, 403, "there are more than %s dims", "8");
        if (l.n)
            text_want_mark(r, ',');
        l.dim[l.n++] = read_dim(r);
    }
    text_next(r);
    return l;
}

DType text_read_dtype(Reader *r)
{
    static const char *const names[] = {
        "",
#define DTYPE(name, ctype, bytes, floating) #name,
#include "ir/dtypes.def"
    };
    return (DType)text_want_choice(r, names, DT_count);
}

static Type read_type(Reader *r)
{
    Type t = {.dtype = text_read_dtype(r)};
    DimList l = read_dims(r);
    t.rank = l.n;
    memcpy(t.dims, l.dim, sizeof l.dim);
    if (text_take_mark(r, '(')) {
        t.indexes = text_want_name(r);
        text_want_mark(r, ')');
    }
    while (text_take_mark(r, '{')) {
        static const char *const words[] = {"partial", "max"};
        Axes *axes = text_want_choice(r, words, 2) ? &t.max : &t.partial;
        text_want_mark(r, ':');
        *axes = read_axes(r, NULL);
        text_want_mark(r, '}');
    }
    if (text_take_word(r, "on"))
        t.level = (Level)text_want_choice(r, level_names, LEVEL_count);
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
    *v = text_want_int(r, INT64_MIN, INT64_MAX);
}
static void read_attr_REAL(Reader *r, double *v)
{
    *v = text_want_real(r);
}
static void read_attr_FLAG(Reader *r, bool *v)
{
    static const char *const words[] = {"no", "yes"};
    *v = text_want_choice(r, words, 2) == 1;
}
static void read_attr_MARK(Reader *r, bool *v)
{
    (void)r;
    *v = true;
}
static void read_attr_NAME(Reader *r, Name *v)
{
    *v = text_want_name(r);
}

static void read_attr_AXES(Reader *r, Axes *v)
{
    *v = read_axes(r, NULL);
}

#define read_attr_SHARE read_attr_REAL
#define read_attr_COUNT read_attr_INT
#define read_attr_OTHER read_attr_DIM

static void read_attr_FACTORS(Reader *r, Factors *f)
{
    text_want_mark(r, '[');
    do {
        const int64_t by = text_want_int(r, INT32_MIN, INT32_MAX);
        if (f->n == MAX_RANK) {
            text_wrong(r, r->t.span, 402, "%s is expected here", "`]`");
            break;
        }
        f->by[f->n++] = (int32_t)by;
    } while (text_take_mark(r, ','));
    text_want_mark(r, ']');
}

/* row=8 at 2 half_row=4, 1 down=3, -1 every 1 */
static Tap read_tap(Reader *r)
{
    Tap t = {.dim = read_dim(r)};
    text_want_word(r, "at");
    for (;;) {
        const int64_t n = text_want_int(r, INT32_MIN, INT32_MAX);
        if (text_take_word(r, "every")) {
            t.at = n;
            t.every = text_want_int(r, 1, INT32_MAX);
            return t;
        }
        if (t.n == MAX_TAPS)
            text_wrong(r, r->t.span, 402, "%s is expected here", "`every`");
        t.by[t.n] = (int32_t)n;
        t.over[t.n++] = read_dim(r);
        text_want_mark(r, ',');
    }
}

static void read_attr_TAPS(Reader *r, const Taps **taps)
{
    Taps *t = NEW(r->a, Taps);
    *taps = t;
    text_want_mark(r, '[');
    do {
        if (t->n == MAX_TAPS)
            text_wrong(r, r->t.span, 402, "%s is expected here", "`]`");
        t->tap[t->n++] = read_tap(r);
    } while (text_take_mark(r, ','));
    text_want_mark(r, ']');
}

/* The separator between an attribute and the one before it. */
typedef enum Between { BEFORE_ALL, COMMA_WANTED, COMMA_READ } Between;

/* Up to an attribute's value; false: it need not be said, and is not. */
static bool read_attr_name(Reader *r, Between *b, const char *name, bool optional, bool alone)
{
    if (optional && *b == COMMA_WANTED) {
        if (!text_take_mark(r, ','))
            return false;
        *b = COMMA_READ;
    }
    if (optional && !text_is_word(r, name))
        return false;
    if (*b == COMMA_WANTED)
        text_want_mark(r, ',');
    text_want_word(r, name);
    if (!alone)
        text_want_mark(r, '=');
    *b = COMMA_WANTED;
    return true;
}

static void read_attrs(Reader *r, Op op, Attrs *attrs)
{
    uint64_t have = op_info[op].attrs;
    if (!have)
        return;
    Between between = BEFORE_ALL;
    text_want_mark(r, '{');
#define ATTR(name, kind)                                                                           \
    if (have >> ATTR_##name & 1 &&                                                                 \
        read_attr_name(r, &between, #name, TEXT_OPTIONAL_##kind, TEXT_ALONE_##kind))               \
        read_attr_##kind(r, &attrs->name);
#include "ir/attrs.def"
    if (between == COMMA_READ)
        text_wrong(r, r->t.span, 402, "%s is expected here", "an attribute");
    text_want_mark(r, '}');
}

/* ---- instructions --------------------------------------------------------------------------- */

/* The value's hint is the name without the number that made it unique: so what later passes name
 * after it comes out the same as without the text between. */
static void define(Reader *r, const char *name, Span s, Value v)
{
    Name n = name_intern(r->m->names, name);
    while (r->by_name.n <= n)
        vec_push(r->a, &r->by_name, (Label){0});
    if (r->by_name.data[n].fn == r->fn)
        text_wrong(r, s, 406, "'%%%s' is defined twice", name);
    r->by_name.data[n] = (Label){v, r->fn};
    r->m->values.data[v].name = name_intern_n(r->m->names, name, label_stem(name, strlen(name)));
}

static Value read_value(Reader *r)
{
    if (r->t.kind != TOK_value)
        text_wrong(r, r->t.span, 402, "%s is expected here", "a value");
    Name n = name_intern(r->m->names, r->t.text);
    if (n >= r->by_name.n || r->by_name.data[n].fn != r->fn)
        text_wrong(r, r->t.span, 407, "'%%%s' is not defined above", r->t.text);
    text_next(r);
    return r->by_name.data[n].value;
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
            text_wrong(r, r->t.span, 403, "there are more than %s results", "250");
        if ((size_t)out->n == out->cap)
            out->of = arena_grow(r->a, out->of, out->cap, &out->cap, sizeof *out->of);
        out->of[out->n++] = (struct ResultText){r->t.text, r->t.span};
        text_next(r);
        text_want_mark(r, ':');
        vec_push(r->a, &out->types, read_type(r));
        if (!text_take_mark(r, ','))
            break;
    }
    if (out->n)
        text_want_mark(r, '=');
}

static void read_ins(Reader *r, Region *region, int depth)
{
    Results results = {0}, *res = &results;
    Value in[MAX_VALUES];
    int nin = 0;
    Attrs attrs = {0};
    read_results(r, res);
    Span at = r->t.span;
    const char *name = text_want_text(r);
    Op op = op_find(name);
    if (op == OP_none)
        text_wrong(r, at, 408, "there is no op '%s'", name);
    while (r->t.kind == TOK_value) {
        if (nin == MAX_VALUES)
            text_wrong(r, r->t.span, 403, "there are more than %s operands", "250");
        in[nin++] = read_value(r);
        if (!text_take_mark(r, ','))
            break;
    }
    const OpInfo *info = &op_info[op];
    if (nin < info->min || nin > info->max || (info->results != 250 && res->n != info->results))
        text_wrong(r, at, 409, "'%s' has the wrong number of operands or results", name);
    read_attrs(r, op, &attrs);
    Builder b = {.m = r->m, .region = region, .span = text_read_place(r)};
    if (text_take_word(r, "in"))
        b.path = text_want_name(r);
    if (text_take_word(r, "of"))
        b.block = text_want_name(r);
    b.again = text_take_word(r, "again");
    b.backward = b.again || text_take_word(r, "backward");
    bool keep = text_take_word(r, "keep"), exact = text_take_word(r, "exact");
    Region *body = NULL;
    if (op == OP_repeat || op == OP_fused) {
        if (depth == MAX_DEPTH)
            text_wrong(r, at, 403, "regions are nested deeper than %s", "32");
        text_want_mark(r, '{');
        body = region_new(r->m, region);
        read_region(r, body, depth + 1);
        text_want_mark(r, '}');
    }
    Ins *i = build_typed(&b, op, &attrs, nin, in, res->n, res->types.data, body);
    i->keep = keep;
    i->exact = exact;
    for (int k = 0; k < res->n; k++)
        define(r, res->of[k].name, res->of[k].span, i->out[k]);
}

/* args, instructions, `give` values */
static void read_region(Reader *r, Region *region, int depth)
{
    while (text_take_word(r, "arg")) {
        if (r->t.kind != TOK_value)
            text_wrong(r, r->t.span, 402, "%s is expected here", "a value");
        const char *name = r->t.text;
        Span s = r->t.span;
        text_next(r);
        text_want_mark(r, ':');
        define(r, name, s, region_arg(r->m, region, read_type(r), 0));
    }
    while (!text_is_word(r, "give")) {
        if (r->t.kind == TOK_end)
            text_wrong(r, r->t.span, 402, "'%s' is expected here", "give");
        read_ins(r, region, depth);
    }
    text_next(r);
    while (r->t.kind == TOK_value) {
        Value v = read_value(r);
        vec_push(r->a, &region->results, v);
        if (!text_take_mark(r, ','))
            break;
    }
}

/* ---- the module ----------------------------------------------------------------------------- */

static uint32_t read_tensor_ref(Reader *r)
{
    Span s = r->t.span;
    Name n = text_want_name(r);
    for (size_t i = 0; i < r->m->tensors.n; i++)
        if (r->m->tensors.data[i].name == n)
            return (uint32_t)i;
    text_wrong(r, s, 410, "there is no tensor '%s'", name_str(r->m->names, n));
}

/* Totals come in order; `max` where one is a maximum. */
static void read_total(Reader *r, Fn *f, FnArg *a)
{
    a->tensor = (uint32_t)text_want_int(r, (int64_t)f->totals.n, (int64_t)f->totals.n);
    vec_push(r->a, &f->totals, text_take_word(r, "max"));
}

/* The number of a loss: the first has none. */
static uint32_t read_goal(Reader *r)
{
    const int most = r->m->train.goals - 1;
    return r->t.kind == TOK_number && most ? (uint32_t)text_want_int(r, 1, most) : 0;
}

static void read_fn(Reader *r)
{
    Fn *f = NEW(r->a, Fn);
    text_want_mark(r, '@');
    f->name = text_want_name(r);
    r->fn++;
    text_want_mark(r, '{');
    while (text_take_word(r, "role")) {
        FnArg a = {.role = (ArgRole)text_want_choice(r, arg_role_names, ARG_ROLES)};
        if (a.role <= ARG_state)
            a.tensor = read_tensor_ref(r);
        else if (a.role == ARG_input)
            a.tensor = (uint32_t)text_want_int(r, 0, (int64_t)r->m->inputs.n - 1);
        else if (a.role == ARG_lr)
            a.tensor = read_goal(r);
        else if (a.role == ARG_cache)
            a.tensor = (uint32_t)text_want_int(r, 0, MAX_CACHES - 1);
        else if (a.role == ARG_total)
            read_total(r, f, &a);
        else if (a.role == ARG_place)
            a.tensor = read_axes(r, NULL);
        vec_push(r->a, &f->args, a);
    }
    f->prefill = text_take_word(r, "prefill") ? text_want_int(r, 1, INT32_MAX) : 0;
    f->group = text_take_word(r, "group") ? text_want_int(r, 2, INT32_MAX) : 0;
    if (text_take_word(r, "head"))
        f->head = text_want_int(r, 1, INT32_MAX);
    f->whole = text_take_word(r, "whole");
    f->cuts = text_take_word(r, "cuts") ? text_want_int(r, 1, INT32_MAX) : 0;
    if (text_take_word(r, "batch"))
        f->batch = read_axes(r, NULL);
    Span at = r->t.span;
    f->body = region_new(r->m, NULL);
    read_region(r, f->body, 0);
    while (text_take_word(r, "result")) {
        FnResult res = {.role = (ResultRole)text_want_choice(r, result_role_names, RESULT_ROLES)};
        if (res.role <= RES_norm)
            res.tensor = read_goal(r);
        if (res.role == RES_metric)
            res.tensor = (uint32_t)text_want_int(r, 0, (int64_t)r->m->metrics.n - 1);
        if (res.role == RES_cache)
            res.tensor = (uint32_t)text_want_int(r, 0, MAX_CACHES - 1);
        if (res.role == RES_total)
            res.tensor = (uint32_t)text_want_int(r, 0, (int64_t)f->totals.n - 1);
        if (res.role >= RES_grad)
            res.tensor = read_tensor_ref(r);
        vec_push(r->a, &f->results, res);
    }
    while (text_take_word(r, "gradient")) {
        FnGradient g = {.tensor = read_tensor_ref(r)};
        g.v = read_value(r);
        vec_push(r->a, &f->gradients, g);
    }
    if (f->args.n != f->body->args.n || f->results.n != f->body->results.n)
        text_wrong(r, at, 411, "@%s has not one role for each argument and result",
                   name_str(r->m->names, f->name));
    text_want_mark(r, '}');
    vec_push(r->a, &r->m->fns, f);
}

static void read_tensor(Reader *r)
{
    static const char *const inits[] = {"const", "normal", "uniform", "formula"};
    Tensor t = {.name = text_want_name(r)};
    t.type = read_type(r);
    text_want_word(r, "external");
    t.external = text_want_name(r);
    text_want_word(r, "slot");
    t.slot = text_want_name(r);
    t.rounded = dtype_is_half(t.type.dtype) && !strcmp(name_str(r->m->names, t.slot), ROUNDED_SLOT);
    text_want_word(r, "of");
    t.parameter = (uint32_t)text_want_int(r, 0, UINT32_MAX);
    text_want_word(r, "stacked");
    t.stacked = (int)text_want_int(r, 0, t.type.rank);
    if (text_take_word(r, "numbered"))
        t.numbered = (int)text_want_int(r, 1, t.stacked);
    text_want_word(r, "valid");
    text_want_mark(r, '[');
    for (int i = 0; i < t.type.rank; i++) {
        if (i)
            text_want_mark(r, ',');
        t.valid[i] = text_want_int(r, 0, dim_whole(r->m, t.type.dims[i]));
    }
    text_want_mark(r, ']');
    text_want_word(r, "order");
    text_want_mark(r, '[');
    for (int i = 0; i < t.type.rank - t.stacked; i++) {
        if (i)
            text_want_mark(r, ',');
        t.order[i] = (uint8_t)text_want_int(r, t.stacked, t.type.rank - 1);
    }
    text_want_mark(r, ']');
    text_want_word(r, "merge");
    text_want_mark(r, '[');
    while (!text_is_mark(r, ']') && t.external_rank < MAX_RANK) {
        if (t.external_rank)
            text_want_mark(r, ',');
        t.merge[t.external_rank++] = (uint8_t)text_want_int(r, 0, MAX_RANK);
    }
    text_want_mark(r, ']');
    if (text_take_word(r, "part")) {
        t.part_dim = (int)text_want_int(r, 0, MAX_RANK - 1);
        text_want_word(r, "at");
        t.part_at = text_want_int(r, 0, INT64_MAX);
        text_want_word(r, "of");
        t.part_of = text_want_int(r, 1, INT64_MAX);
    }
    for (int i = 0; i < t.type.rank && r->m->local; i++)
        t.axes[i] = t.type.dims[i].axes, t.zigzag[i] = t.type.dims[i].zigzag;
    if (r->m->local)
        type_strip(&t.type);
    text_want_word(r, "init");
    t.init = (Init)text_want_choice(r, inits, 4);
    if (t.init == INIT_formula) {
        t.formula = text_want_name(r);
    } else {
        t.a = text_want_real(r);
        t.b = text_want_real(r);
    }
    text_want_word(r, "decay");
    t.decay = text_want_real(r);
    text_want_word(r, "rate");
    t.rate = text_want_real(r);
    if (text_take_word(r, "goal"))
        t.goal = (uint8_t)text_want_int(r, 1, r->m->train.goals - 1);
    if (text_take_word(r, "follows")) {
        t.follows = (uint32_t)text_want_int(r, 0, UINT32_MAX - 1) + 1;
        text_want_word(r, "every");
        t.every = text_want_int(r, 1, INT64_MAX);
        text_want_word(r, "beta");
        t.beta = text_want_name(r);
    }
    t.absmax = text_take_word(r, "absmax");
    if (text_take_word(r, "adapter")) {
        t.adapter = (uint8_t)text_want_int(r, ADAPTER_A, ADAPTER_whole);
        t.turned = text_want_int(r, 0, 1);
        t.scale = text_want_real(r);
    }
    t.frozen = text_take_word(r, "frozen");
    if (text_take_word(r, "base"))
        t.base = (uint8_t)text_want_int(r, BASE_codes, BASE_bytes);
    t.master = text_take_word(r, "master");
    t.ahead = text_take_word(r, "ahead");
    if (text_take_word(r, "at"))
        for (int k = 0; k < 3; k++)
            t.at |= (StageSet)(text_take_word(r, stage_names[k]) << k);
    t.span = text_read_place(r);
    vec_push(r->a, &r->m->tensors, t);
}

static void read_module(Reader *r)
{
    text_want_word(r, "mgir");
    text_want_int(r, 1, 1);
    text_want_word(r, "model");
    r->m->name = text_want_name(r);
    text_want_word(r, "source");
    r->m->source = text_want_text(r);
    text_want_word(r, "batch");
    r->m->batch = read_dim(r);
    text_want_word(r, "seq");
    r->m->seq = read_dim(r);
    text_want_word(r, "vocab");
    r->m->vocab = text_want_int(r, 0, INT64_MAX);
    text_read_train(r);
    text_read_layout(r);
    text_read_mesh(r);
    while (text_take_word(r, "input")) {
        Input in = {.name = text_want_name(r)};
        text_want_word(r, "limit");
        in.limit = text_want_int(r, 0, INT32_MAX);
        vec_push(r->a, &r->m->inputs, in);
    }
    while (text_take_word(r, "metric"))
        vec_push(r->a, &r->m->metrics, text_want_name(r));
    if (text_take_word(r, "config"))
        r->m->config = text_want_text(r);
    if (text_take_word(r, "adapter"))
        r->m->adapter = text_want_text(r);
    while (text_take_word(r, "tensor"))
        read_tensor(r);
    Span here = r->t.span;
    for (size_t i = 0; i < r->m->tensors.n; i++)
        if (r->m->tensors.data[i].parameter >= r->m->tensors.n ||
            r->m->tensors.data[i].follows > r->m->tensors.n)
            text_wrong(r, here, 410, "there is no tensor numbered as that of '%s'",
                       name_str(r->m->names, r->m->tensors.data[i].name));
    while (text_take_word(r, "fn"))
        read_fn(r);
    if (r->t.kind != TOK_end)
        text_wrong(r, r->t.span, 402, "'%s' is expected here", "fn");
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
    text_next(r);
    read_module(r);
    return r->m;
}
