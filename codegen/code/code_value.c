/* code_value.c - values of a kernel's body as C expressions; see code.h. Floats of 32 bits use the
 * functions with an f. So only values that are double in the body are computed in double. */
#include "codegen/code/code.h"

#include "ir/interpret.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *code_stored(const Dialect *d, DType t)
{
    static const char *const names[DT_count] = {
        [DT_f32] = "float",   [DT_f64] = "double", [DT_i32] = "int32_t",
        [DT_i64] = "int64_t", [DT_u8] = "uint8_t", [DT_bool] = "uint8_t"};
    return dtype_is_narrow(t) ? d->half[t] : names[t];
}

const char *code_computed(const Dialect *d, DType t)
{
    const bool widened = dtype_is_narrow(t) && !dtype_is_dynamic(t) && d->widened;
    return t == DT_bool ? "bool" : widened ? "float" : code_stored(d, t);
}

void code_begin(Code *c, const Dialect *d, const Module *m, const Kernel *k, Arena *a)
{
    const size_t n = m->values.n;
    c->dialect = d;
    c->m = m;
    c->k = k;
    c->body = k->ins->body;
    c->a = a;
    c->known = NEW_ARRAY(a, Known, n);
    c->reduced = NEW_ARRAY(a, const char *, n);
    c->stage = NEW_ARRAY(a, int, n);
    c->index = "int64_t";
}

void code_line(Code *c, const char *fmt, ...)
{
    va_list ap;
    fprintf(c->out, "%*s", 4 * c->depth, "");
    va_start(ap, fmt);
    vfprintf(c->out, fmt, ap);
    va_end(ap);
    fputc('\n', c->out);
}

Text code_variable(Code *c, const char *base, DType t, Text x)
{
    const char *name = c->dialect->fresh(c, base);
    code_line(c, "const %s %s = %s;", code_computed(c->dialect, t), name, x.s);
    return (Text){name, NAMED};
}

void code_forget(Code *c)
{
    memset(c->known, 0, c->m->values.n * sizeof *c->known);
}

const char *code_at(Code *c, Text x, Binding least)
{
    return x.level >= least ? x.s : arena_printf(c->a, "(%s)", x.s);
}

/* ---- indices ------------------------------------------------------------------------------ */

void code_enter(CodeEnv *e, Name d, const char *index)
{
    e->dim[e->n] = d;
    e->index[e->n++] = index;
}

static const char *index_of(Code *c, const CodeEnv *e, Name d)
{
    int i = e->n - 1;
    while (i >= 0 && e->dim[i] != d)
        i--;
    if (i >= 0 && e->index[i] && c->dialect->read)
        c->dialect->read(c, e->index[i]);
    return i < 0 ? NULL : e->index[i];
}

static bool entered(const CodeEnv *e, Name d)
{
    for (int i = 0; i < e->n; i++)
        if (e->dim[i] == d)
            return true;
    return false;
}

void code_env_loop(const Code *c, CodeEnv *e, int loop, const char *index)
{
    for (int i = 0; i < c->nest.ndims; i++)
        if (c->nest.loop[i] == loop)
            code_enter(e, c->nest.dim[i].name, index);
        else if (c->nest.loop[i] < 0 && !entered(e, c->nest.dim[i].name))
            code_enter(e, c->nest.dim[i].name, NULL);
}

/* index * stride; if the index is a number, the product as a number. NULL: 0. */
static const char *term(Code *c, const char *index, int64_t stride)
{
    if (index[strspn(index, "0123456789")])
        return stride == 1 ? index : arena_printf(c->a, "%s * %lld", index, (long long)stride);
    const long long at = strtoll(index, NULL, 10) * stride;
    return at ? arena_printf(c->a, "%lld", at) : NULL;
}

int code_place(const Kernel *k, int o)
{
    return o >= k->nin && k->alias[o] >= 0 ? k->alias[o] : o;
}

bool code_written(const Kernel *k, int o)
{
    bool is = false;
    for (int i = k->noperands - k->nout; i < k->noperands; i++)
        is |= i == o || k->alias[i] == o;
    return is;
}

const char *code_element(Code *c, int o, const Operand *as, const CodeEnv *e, const char *base)
{
    const char *at = base;
    for (int i = 0; i < as->type.rank; i++) {
        const char *index = index_of(c, e, as->type.dims[i].name);
        const char *part = index && as->stride[i] ? term(c, index, as->stride[i]) : NULL;
        if (part)
            at = at ? arena_printf(c->a, "%s + %s", at, part) : part;
    }
    const char *pointer = c->dialect->pointer(c, code_place(c->k, o));
    return arena_printf(c->a, "%s[%s]", pointer, c->dialect->offset(c, at ? at : "0"));
}

Operand code_dense(const Operand *o, int64_t *elements)
{
    Operand dense = *o;
    *elements = 1;
    for (int i = o->type.rank - 1; i >= 0; i--) {
        dense.stride[i] = *elements;
        *elements *= o->type.dims[i].size;
    }
    return dense;
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* The fewest digits that read back as x. */
static const char *digits(Code *c, DType t, double x)
{
    const bool single = t == DT_f32;
    for (int n = 1;; n++) {
        const char *s = arena_printf(c->a, "%.*g", n, x);
        const double back = strtod(s, NULL);
        if (n == 17 || (single ? strtof(s, NULL) == (float)x : back == x))
            return strpbrk(s, ".e") ? s : arena_printf(c->a, "%s.0", s);
    }
}

static Text real(Code *c, DType t, double x)
{
    const Binding level = signbit(x) ? SIGNED : NAMED;
    if (!isfinite(x))
        return (Text){isnan(x) ? "NAN" : x < 0 ? "-INFINITY" : "INFINITY", level};
    return (Text){arena_printf(c->a, "%s%s", digits(c, t, x), t == DT_f32 ? "f" : ""), level};
}

Text code_number(Code *c, DType t, double x)
{
    if (t == DT_bool)
        return (Text){x != 0 ? "true" : "false", NAMED};
    if (dtype_is_narrow(t))
        return c->dialect->to_half(c, t, real(c, DT_f32, x));
    if (dtype_is_float(t))
        return real(c, t, x);
    return (Text){arena_printf(c->a, t == DT_i64 ? "INT64_C(%lld)" : "%lld", (long long)x),
                  x < 0 ? SIGNED : NAMED};
}

const char *code_start(Code *c, const Ins *reduction)
{
    const DType t = type_of(c->m, reduction->out[0])->dtype;
    return code_number(c, t, reduction->op == OP_sum ? 0 : -INFINITY).s;
}

/* ---- operations --------------------------------------------------------------------------- */

Text code_cast(Code *c, DType from, DType to, Text x)
{
    if (from == to)
        return x;
    if (dtype_is_narrow(from))
        return code_cast(c, DT_f32, to, c->dialect->from_half(c, from, x));
    if (to == DT_bool)
        return code_pointwise(c, OP_ne, from, 2, (Text[]){x, code_number(c, from, 0)});
    if (dtype_is_narrow(to))
        return c->dialect->to_half(c, to, code_cast(c, from, DT_f32, x));
    return (Text){
        arena_printf(c->a, "(%s)%s", code_computed(c->dialect, to), code_at(c, x, CALLED)), SIGNED};
}

/* An operand at other indices than those that values are known at. */
static Text elsewhere(Code *c, Value v, const CodeEnv *e, bool turned)
{
    Known *known = c->known;
    const bool was_moved = c->moved, was_turned = c->turned;
    c->known = NEW_ARRAY(c->a, Known, c->m->values.n);
    c->moved = true;
    c->turned = turned;
    Text x = code_eval(c, v, e);
    c->moved = was_moved;
    c->turned = was_turned;
    c->known = known;
    return x;
}

static Text moved(Code *c, const Ins *i, const CodeEnv *e)
{
    CodeEnv other = *e;
    const Attrs *a = &i->attrs;
    if (i->op == OP_rename)
        code_enter(&other, a->dim.name, index_of(c, e, a->to.name));
    else if (i->op == OP_pick)
        code_enter(&other, a->dim.name, arena_printf(c->a, "%lld", (long long)a->at));
    else if (a->at)
        code_enter(
            &other, a->along.name,
            arena_printf(c->a, "(%s + %lld)", index_of(c, e, a->along.name), (long long)a->at));
    return elsewhere(c, i->in[0], &other, false);
}

/* Does v differ along d? A value that was broadcast along it does not: its index is not read. */
static bool reads_index(const Code *c, Value v, Name d)
{
    const Ins *i = c->m->values.data[v].def;
    if (type_find(type_of(c->m, v), d) < 0)
        return false;
    if (!i || i->op == OP_iota || (i->op == OP_reindex && dims_have(&i->attrs.over, d)))
        return !i || i->op != OP_iota || i->attrs.dim.name == d;
    if (i->op == OP_rename && i->attrs.to.name == d)
        d = i->attrs.dim.name;
    bool reads = false;
    for (uint32_t k = 0; !reads && k < i->nin; k++)
        reads = reads_index(c, i->in[k], d);
    return reads;
}

const char *code_opposite(Code *c, const char *at, int64_t half)
{
    const char *to = c->dialect->fresh(c, "other");
    const long long n = half;
    code_line(c, "const %s %s = %s < %lld ? %s + %lld : %s - %lld;", c->index, to, at, n, at, n, at,
              n);
    return to;
}

/* x[i + n/2] negated in the first half, x[i - n/2] in the second. */
static Text rotated(Code *c, const Ins *i, const CodeEnv *e)
{
    const Type *t = type_of(c->m, i->in[0]);
    Name d = i->attrs.dim.name;
    long long half = t->dims[type_find(t, d)].size / 2;
    const char *at = index_of(c, e, d), *to = NULL;
    const bool reads = reads_index(c, i->in[0], d);
    if (reads && c->dialect->turn)
        to = c->dialect->turn(c, d, half, &at);
    const bool shared = to;
    if (reads && !to)
        to = code_opposite(c, at, half);
    CodeEnv other = *e;
    code_enter(&other, d, to);
    Text x = elsewhere(c, i->in[0], &other, shared);
    if (strchr(x.s, ' ')) /* it stands there twice */
        x = code_variable(c, "turned", type_of(c->m, i->out[0])->dtype, x);
    return (Text){arena_printf(c->a, "%s < %lld ? -%s : %s", at, half, code_at(c, x, CALLED),
                               code_at(c, x, COMPARED)),
                  CHOICE};
}

/* The element that is counted by the indices of the loops, or 0. What lies outside is read at 0,
 * and not taken. */
static Text reindexed(Code *c, const Ins *i, const CodeEnv *e)
{
    const Attrs *a = &i->attrs;
    const char *sum = NULL;
    for (int k = 0; k < a->over.n; k++) {
        const int by = a->factors.by[k], size = by < 0 ? -by : by;
        const char *index = index_of(c, e, a->over.dim[k].name);
        const char *term = size == 1 ? index : arena_printf(c->a, "%d * %s", size, index);
        sum = sum ? arena_printf(c->a, "%s %c %s", sum, by < 0 ? '-' : '+', term)
                  : arena_printf(c->a, "%s%s", by < 0 ? "-" : "", term);
    }
    if (a->at)
        sum = arena_printf(c->a, "%s %c %lld", sum, a->at < 0 ? '-' : '+', llabs(a->at));
    CodePlace own = {0}, *p = &own;
    if (c->dialect->place)
        p = c->dialect->place(c, arena_printf(c->a, "%s by %lld of %lld", sum, (long long)a->every,
                                              (long long)a->dim.size));
    if (!p->at) {
        p->at = c->dialect->fresh(c, "place");
        code_line(c, "const %s %s = %s;", c->index, p->at, sum);
    }
    const char *there = arena_printf(c->a, "%s >= 0", p->at), *element = p->at;
    if (a->every > 1) {
        there = arena_printf(c->a, "%s && %s %% %lld == 0", there, p->at, (long long)a->every);
        element = arena_printf(c->a, "%s / %lld", p->at, (long long)a->every);
    }
    if (!p->is) {
        p->is = c->dialect->fresh(c, "there");
        code_line(c, "const bool %s = %s && %s < %lld;", p->is, there, element,
                  (long long)a->dim.size);
    }
    if (!p->from && reads_index(c, i->in[0], a->dim.name)) {
        p->from = c->dialect->fresh(c, "from");
        code_line(c, "const %s %s = %s ? %s : 0;", c->index, p->from, p->is, element);
    }
    CodeEnv other = *e;
    code_enter(&other, a->dim.name, p->from ? p->from : "0");
    Text x = elsewhere(c, i->in[0], &other, false);
    return (Text){arena_printf(c->a, "%s ? %s : %s", p->is, code_at(c, x, COMPARED),
                               code_number(c, type_of(c->m, i->out[0])->dtype, 0).s),
                  CHOICE};
}

/* Of halves, as half.h and device.h have it: operands, then the key and the number of the bits. */
static Text stochastic(Code *c, const Ins *i, const CodeEnv *e)
{
    const char *all = "";
    for (uint32_t k = 0; k < i->nin; k++)
        all = arena_printf(c->a, "%s%s, ", all, code_eval(c, i->in[k], e).s);
    const char *x = arena_printf(c->a, "mg_stochastic_bf16(%sUINT64_C(0x%llx), %lld)", all,
                                 (unsigned long long)ir_key(name_str(c->m->names, i->attrs.key)),
                                 (long long)i->attrs.at);
    return (Text){c->dialect->widened ? arena_printf(c->a, "mg_from_bf16(%s)", x) : x, CALLED};
}

static Text expression(Code *c, const Ins *i, const CodeEnv *e)
{
    DType t = type_of(c->m, i->out[0])->dtype;
    if (i->op == OP_const)
        return code_number(c, t, i->attrs.value);
    if (i->op == OP_iota)
        return code_cast(c, DT_i64, t, (Text){index_of(c, e, i->attrs.dim.name), NAMED});
    if (i->op == OP_rotate)
        return rotated(c, i, e);
    if (i->op == OP_reindex)
        return reindexed(c, i, e);
    if (i->op == OP_rename || i->op == OP_pick || i->op == OP_window)
        return moved(c, i, e);
    if (i->op == OP_stochastic_round)
        return stochastic(c, i, e);
    if (i->op == OP_cast)
        return code_cast(c, type_of(c->m, i->in[0])->dtype, t, code_eval(c, i->in[0], e));
    Text x[3] = {0};
    for (uint32_t k = 0; k < i->nin; k++)
        x[k] = code_eval(c, i->in[k], e);
    return code_pointwise(c, i->op, type_of(c->m, i->in[i->nin - 1])->dtype, (int)i->nin, x);
}

static Text load(Code *c, Value v, const CodeEnv *e)
{
    int o = 0;
    while (c->body->args.data[o] != v)
        o++;
    return c->dialect->load(c, o, e);
}

Text code_eval(Code *c, Value v, const CodeEnv *e)
{
    if (c->reduced[v])
        return (Text){c->reduced[v], NAMED};
    if (c->known[v].text.s) {
        if (c->counting)
            c->uses.data[c->known[v].order]++;
        if (c->dialect->read)
            c->dialect->read(c, c->known[v].text.s);
        return c->known[v].text;
    }
    const int order = c->order++;
    if (c->counting)
        vec_push(c->a, &c->uses, 1);
    const Ins *def = c->m->values.data[v].def;
    bool here = def && def->op != OP_fused && def->home == c->body;
    Text x = here ? expression(c, def, e) : load(c, v, e);
    if (!here || def->op != OP_const)
        x = c->dialect->keep(c, v, x, order);
    c->known[v] = (Known){x, order};
    return x;
}
