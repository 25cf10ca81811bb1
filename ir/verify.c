/* verify.c - the invariants of ir/README.md, checked after every pass.
 *
 * A broken one is a bug of mgc. Every violation is reported with its number and its instruction, so
 * that one run shows all there are. */
#include "ir/initial.h"
#include "ir/level.h"
#include "ir/verify.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

void verify_broken(Verifier *v, const Ins *i, int invariant, const char *fmt, ...)
{
    va_list ap;
    v->broken++;
    if (!v->out)
        return;
    fprintf(v->out, "invariant I%d broken in @%s: ", invariant, v->fn);
    va_start(ap, fmt);
    vfprintf(v->out, fmt, ap);
    va_end(ap);
    fputc('\n', v->out);
    if (i)
        ir_print_ins(v->m, i, v->out);
}

const char *verify_name(const Verifier *v, Name n)
{
    return name_str(v->m->names, n);
}

/* I1: a type has a dtype, at most MAX_RANK dims of different names, each of size 1 or more. */
void verify_type(Verifier *v, const Ins *i, const Type *t)
{
    if (t->dtype <= DT_none || t->dtype >= DT_count || t->rank < 0 || t->rank > MAX_RANK) {
        verify_broken(v, i, 1, "a type without dtype or with a bad rank");
        return;
    }
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) {
        if (!t->dims[k].name || t->dims[k].size < 1)
            verify_broken(v, i, 1, "dim '%s' of size %lld", verify_name(v, t->dims[k].name),
                          (long long)t->dims[k].size);
        else if (__builtin_mul_overflow(n, t->dims[k].size, &n) || n >= (int64_t)1 << 58)
            n = 1, verify_broken(v, i, 1, "too many elements");
        for (int j = 0; j < k; j++)
            if (t->dims[j].name == t->dims[k].name)
                verify_broken(v, i, 1, "dim '%s' twice in a type", verify_name(v, t->dims[k].name));
        Dim d = t->dims[k];
        if (d.inner && ((d.inner & (d.inner - 1)) || d.inner >= (d.axes & ~d.inner) ||
                        !(d.axes & d.inner) || d.zigzag || d.blocks))
            verify_broken(v, i, 11, "dim '%s' is split within %s, which is not one axis of it",
                          verify_name(v, d.name), mesh_axes_text(v->m, d.inner));
        if (d.size % mesh_pieces(v->m, d))
            verify_broken(v, i, 11, "dim '%s' of %lld cannot be in zigzag order, or in blocks",
                          verify_name(v, d.name), (long long)d.size);
    }
}

/* I2: a value is used where it is defined: above, in the same region or one around it; a fused body
 * sees its own values only. */
static void check_use(Verifier *v, const Ins *i, Value x)
{
    if (x == 0 || x >= v->m->values.n || v->seen[x] != v->island)
        verify_broken(v, i, 2, "value %u is used where it is not defined", x);
}

/* I3: a value has one definition, and instructions, regions and values know where they stand. */
static void define(Verifier *v, const Ins *i, Value x, const Ins *def, const Region *home)
{
    if (x == 0 || x >= v->m->values.n) {
        verify_broken(v, i, 3, "value %u does not exist", x);
        return;
    }
    const ValueInfo *info = &v->m->values.data[x];
    if (v->seen[x])
        verify_broken(v, i, 3, "value %u is defined twice", x);
    if (info->def != def || info->home != home)
        verify_broken(v, i, 3, "value %u does not know where it is defined", x);
    v->seen[x] = v->island;
    verify_type(v, i, &info->type);
}

static bool superset(const Type *big, const Type *small)
{
    for (int k = 0; k < small->rank; k++) {
        int at = type_find(big, small->dims[k].name);
        if (at < 0 || big->dims[at].size != small->dims[k].size)
            return false;
    }
    return true;
}

/* The dtypes that const, iota, random and cast may choose for their result. */
static bool may_choose(Op op, DType t)
{
    if (op == OP_const || op == OP_cast)
        return true;
    return dtype_is_float(t) ? op == OP_iota || op == OP_random : op == OP_iota && t == DT_i32;
}

static bool holds(DType t, double x)
{
    if (dtype_is_float(t))
        return true;
    double max = t == DT_bool ? 1 : t == DT_u8 ? 255 : t == DT_i32 ? INT32_MAX : 0x1p53;
    return x == trunc(x) && x <= max &&
           x >= (t == DT_bool || t == DT_u8 ? 0 : -max - (t == DT_i32));
}

/* Result k of a product of halves that is wanted as it was summed: a dot's, the head's gradient of
 * its weight. */
static bool may_be_wide(Op op, uint32_t k, DType t, DType rule)
{
    return t == DT_f32 && dtype_is_half(rule) &&
           (op == OP_dot || op == OP_conv || op == OP_grouped || op == OP_grouped_weight ||
            op == OP_scatter_add || (op == OP_dot_sum && k == 0) || (op == OP_head && k == 2));
}

/* A product that knows its scales is rounded, unless something is added to it. */
static bool may_be_half(const Verifier *v, const Ins *i, DType t)
{
    return i->op == OP_dot_scaled && i->nin == 4 && dtype_is_half(t) && t == v->m->train.half;
}

/* I4: result types are those of the op's rule, up to the order of dims but where dims are laid next
 * to each other; `copy` may add dims. const, iota, random and cast choose their dtype, random its
 * dims; products of halves may give f32; a constant is a number of its dtype. */
static void check_types(Verifier *v, const Ins *i)
{
    Type want[8] = {0};
    int results = op_info[i->op].results;
    if (i->nin > RULE_OPERANDS || i->nout != (uint32_t)results) {
        verify_broken(v, i, 4, "%u operands, %u results", i->nin, i->nout);
        return;
    }
    const char *wrong = type_check((Module *)v->m, i->op, &i->attrs, (int)i->nin, i->in, 8, want);
    if (wrong) {
        verify_broken(v, i, 4, "%s", wrong);
        return;
    }
    for (uint32_t k = 0; k < i->nout; k++) {
        const Type *t = type_of(v->m, i->out[k]);
        if (t->dtype != want[k].dtype && !may_choose(i->op, t->dtype) &&
            !may_be_wide(i->op, k, t->dtype, want[k].dtype) && !may_be_half(v, i, t->dtype))
            verify_broken(v, i, 4, "the result is %s, by the rule %s", dtype_name(t->dtype),
                          dtype_name(want[k].dtype));
        if (i->op == OP_copy ? !superset(t, &want[k])
                             : i->op != OP_random && !type_same_dims(t, &want[k]))
            verify_broken(v, i, 4, "the result has not the dims of the rule");
        bool zero = i->op == OP_const && i->attrs.value == 0; /* is a part of zero too */
        if (t->level != want[k].level)
            verify_broken(v, i, 14, "the result is on the %s, by the rule on the %s",
                          level_names[t->level], level_names[want[k].level]);
        if (!zero && (t->partial != want[k].partial || t->max != want[k].max))
            verify_broken(v, i, 4, "the result is partial over other axes than by the rule");
        if ((i->op == OP_split || i->op == OP_merge) && !type_equal(t, &want[k]))
            verify_broken(v, i, 4, "the result has not the order of dims of the rule");
    }
    if (i->op == OP_const && !holds(type_of(v->m, i->out[0])->dtype, i->attrs.value))
        verify_broken(v, i, 4, "%g is no %s", i->attrs.value,
                      dtype_name(type_of(v->m, i->out[0])->dtype));
}

static void check_region(Verifier *v, const Region *r, const Ins *owner, const Region *parent);

static Type without(const Type *t, Name d)
{
    Type u = {.dtype = t->dtype,
              .indexes = t->indexes,
              .partial = t->partial,
              .max = t->max,
              .level = t->level};
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].name != d)
            u.dims[u.rank++] = t->dims[k];
    return u;
}

/* I5: a repeat's operands, body and results fit (see Region in ir.h). */
static void check_repeat(Verifier *v, const Ins *i)
{
    const Region *b = i->body;
    int64_t carried = i->attrs.carried;
    Dim d = i->attrs.dim;
    if (carried < 0 || carried > i->nin || carried > i->nout || b->args.n != i->nin + 1u ||
        b->results.n != i->nout || d.size < 1) {
        verify_broken(v, i, 5, "repeat: operands, arguments, results do not match in number");
        return;
    }
    for (uint32_t k = 0; k < i->nin; k++) {
        const Type *in = type_of(v->m, i->in[k]), *arg = type_of(v->m, b->args.data[k]);
        Type slice = without(in, d.name);
        int at = type_find(in, d.name);
        if (k < carried ? !type_equal(in, arg)
                        : at != 0 || in->dims[0].size != d.size || !type_equal(&slice, arg))
            verify_broken(v, i, 5, "repeat: operand %u does not fit its argument", k);
    }
    const Type *index = type_of(v->m, b->args.data[i->nin]);
    if (index->dtype != DT_i32 || index->rank)
        verify_broken(v, i, 5, "repeat: the last argument is not the i32 index");
    for (uint32_t k = 0; k < i->nout; k++) {
        const Type *out = type_of(v->m, i->out[k]), *res = type_of(v->m, b->results.data[k]);
        Type slice = without(out, d.name);
        if (k < carried ? !type_equal(out, res) || !type_equal(out, type_of(v->m, i->in[k]))
                        : !out->rank || out->dims[0].name != d.name ||
                              out->dims[0].size != d.size || !type_equal(&slice, res))
            verify_broken(v, i, 5, "repeat: result %u does not fit the body's", k);
    }
}

/* Does a value fit that of a fused body which stands for it? Nothing in a body is on a level. */
static bool fits_body(const Verifier *v, Value outside, Value inside)
{
    Type t = *type_of(v->m, outside);
    t.level = LEVEL_device;
    return type_equal(&t, type_of(v->m, inside));
}

/* I14: all operands and results of a kernel are on the level where it runs. */
static void check_level(Verifier *v, const Ins *i)
{
    const Level at = fused_level(v->m, i);
    for (uint32_t k = 0; k < i->nin + i->nout; k++) {
        const Level l = type_of(v->m, k < i->nin ? i->in[k] : i->out[k - i->nin])->level;
        if (l != at || l == LEVEL_disk)
            verify_broken(v, i, 14,
                          "fused: an operand or a result is on the %s, and another on "
                          "the %s",
                          level_names[l], level_names[at]);
    }
}

/* I6: a fused body holds FUSE ops only, fits operands and results, and is of a kind there is. */
static void check_fused(Verifier *v, const Ins *i)
{
    const Region *b = i->body;
    if (b->args.n != i->nin || b->results.n != i->nout) {
        verify_broken(v, i, 6, "fused: operands or results do not match the body's in number");
        return;
    }
    for (uint32_t k = 0; k < i->nin; k++)
        if (!fits_body(v, i->in[k], b->args.data[k]))
            verify_broken(v, i, 6, "fused: operand %u does not fit its argument", k);
    check_level(v, i);
    for (uint32_t k = 0; k < i->nout; k++)
        if (!fits_body(v, i->out[k], b->results.data[k]))
            verify_broken(v, i, 6, "fused: result %u does not fit the body's", k);
    for (size_t k = 0; k < b->ins.n; k++)
        if (!op_is(b->ins.data[k]->op, FUSE))
            verify_broken(v, i, 6, "fused: %s cannot be in a kernel",
                          op_info[b->ins.data[k]->op].name);
    const char *kind = verify_name(v, i->attrs.kind);
    if (strcmp(kind, "map") && strcmp(kind, "row") && strcmp(kind, "col"))
        verify_broken(v, i, 6, "fused: no kernel is of the kind '%s'", kind);
}

static void check_body(Verifier *v, const Ins *i, const Region *home)
{
    int before = v->broken;
    uint32_t island = v->island;
    if (i->op == OP_fused)
        v->island = ++v->islands;
    check_region(v, i->body, i, home);
    v->island = island;
    if (v->broken == before)
        i->op == OP_repeat ? check_repeat(v, i) : check_fused(v, i);
}

/* Can the value's type be looked at? (If not, that is told where the value is defined.) */
static bool sound(const Verifier *v, Value x)
{
    return x != 0 && x < v->m->values.n && type_of(v->m, x)->rank >= 0 &&
           type_of(v->m, x)->rank <= MAX_RANK;
}

static void check_ins(Verifier *v, const Ins *i, const Region *home)
{
    bool body = i->op == OP_repeat || i->op == OP_fused, exist = true;
    for (uint32_t k = 0; k < i->nin; k++) {
        check_use(v, i, i->in[k]);
        exist &= sound(v, i->in[k]);
    }
    for (uint32_t k = 0; k < i->nout; k++)
        exist &= sound(v, i->out[k]);
    if (i->home != home)
        verify_broken(v, i, 3, "the instruction does not know its region");
    if (body != (i->body != NULL))
        verify_broken(v, i, 5, "a region where there is none, or none where there is one");
    else if (body && exist)
        check_body(v, i, home);
    else if (exist)
        check_types(v, i);
    for (uint32_t k = 0; k < i->nout; k++)
        define(v, i, i->out[k], i, home);
}

/* Whatever a region defines is out of scope after it. */
static void forget(Verifier *v, const Region *r)
{
    for (size_t k = 0; k < r->args.n; k++)
        if (r->args.data[k] < v->m->values.n)
            v->seen[r->args.data[k]] = 0;
    for (size_t k = 0; k < r->ins.n; k++)
        for (uint32_t o = 0; o < r->ins.data[k]->nout; o++)
            if (r->ins.data[k]->out[o] < v->m->values.n)
                v->seen[r->ins.data[k]->out[o]] = 0;
}

static void check_region(Verifier *v, const Region *r, const Ins *owner, const Region *parent)
{
    if (r->owner != owner || r->parent != parent)
        verify_broken(v, owner, 3, "a region does not know what it belongs to");
    for (size_t k = 0; k < r->args.n; k++)
        define(v, owner, r->args.data[k], NULL, r);
    for (size_t k = 0; k < r->ins.n; k++)
        check_ins(v, r->ins.data[k], r);
    for (size_t k = 0; k < r->results.n; k++)
        check_use(v, owner, r->results.data[k]);
    forget(v, r);
}

static bool scalar(const Type *t, DType want)
{
    return t->rank == 0 && t->dtype == want;
}

static ArgRole tensor_role(const Tensor *t)
{
    return tensor_is_rounded(t) ? ARG_rounded : t->slot ? ARG_state : ARG_param;
}

static bool arg_fits(const Module *m, FnArg a, const Type *t)
{
    static const DType scalars[] = {
        [ARG_lr] = DT_f64,  [ARG_scale] = DT_f64,  [ARG_step] = DT_i64,   [ARG_seed] = DT_i64,
        [ARG_pos] = DT_i32, [ARG_filled] = DT_i64, [ARG_before] = DT_i64, [ARG_place] = DT_i32};
    if (a.role == ARG_tokens || a.role == ARG_documents)
        return t->dtype == DT_i32;
    if (a.role == ARG_weight)
        return t->rank >= 2 && dtype_is_float(t->dtype);
    if (a.role == ARG_input)
        return a.tensor < m->inputs.n && type_find(t, m->batch.name) >= 0 &&
               (m->inputs.data[a.tensor].limit ? t->dtype == DT_i32 : dtype_is_float(t->dtype));
    if (a.role == ARG_total)
        return t->dtype == DT_f64;
    if (a.role == ARG_cache)
        return dtype_is_float(t->dtype) && type_find(t, m->batch.name) >= 0;
    if (a.role == ARG_begin || a.role == ARG_count)
        return t->dtype == DT_i32 && t->rank == 1 && t->dims[0].name == m->batch.name;
    if (a.role == ARG_lr && a.tensor >= (uint32_t)m->train.goals)
        return false;
    if (a.role > ARG_state)
        return scalar(t, scalars[a.role]);
    return a.tensor < m->tensors.n && type_equal(t, &m->tensors.data[a.tensor].type) &&
           tensor_role(&m->tensors.data[a.tensor]) == a.role;
}

static bool result_fits(const Module *m, FnResult r, const Type *t)
{
    if (r.role <= RES_norm)
        return scalar(t, DT_f64) && r.tensor < (uint32_t)m->train.goals;
    if (r.role < RES_logits) /* dropped, metric */
        return scalar(t, DT_f64);
    if (r.role == RES_logits)
        return dtype_is_float(t->dtype);
    if (r.role == RES_total)
        return t->dtype == DT_f64;
    if (r.role == RES_cache)
        return dtype_is_float(t->dtype) && r.tensor < MAX_CACHES;
    return r.tensor < m->tensors.n && type_equal(t, &m->tensors.data[r.tensor].type) &&
           !(r.role == RES_grad && m->tensors.data[r.tensor].slot);
}

/* Each total comes in and goes out, with one type. */
static void check_totals(Verifier *v, const Fn *f)
{
    size_t in = 0, out = 0;
    for (size_t k = 0; k < f->args.n; k++)
        in += f->args.data[k].role == ARG_total;
    for (size_t k = 0; k < f->results.n; k++) {
        const FnResult r = f->results.data[k];
        Value x = f->body->results.data[k];
        if (r.role != RES_total || x == 0 || x >= v->m->values.n)
            continue;
        out++;
        for (size_t i = 0; i < f->args.n; i++)
            if (f->args.data[i].role == ARG_total && f->args.data[i].tensor == r.tensor &&
                !type_equal(type_of(v->m, f->body->args.data[i]), type_of(v->m, x)))
                verify_broken(v, NULL, 7, "total %u comes in with another type", r.tensor);
    }
    if (in != f->totals.n || out != in)
        verify_broken(v, NULL, 7, "%zu totals come in and %zu go out of %zu", in, out,
                      (size_t)f->totals.n);
}

/* The argument that is a cache; 0: there is none. */
static Value cache_in(const Fn *f, uint32_t number)
{
    for (size_t k = 0; k < f->args.n && k < f->body->args.n; k++)
        if (f->args.data[k].role == ARG_cache && f->args.data[k].tensor == number)
            return f->body->args.data[k];
    return 0;
}

/* Each cache comes in and goes out once, with one type, which is that of all functions; those of
 * prompts come into @spread alone. Numbers follow each other. */
static void check_caches(Verifier *v, const Fn *f)
{
    const Module *m = v->m;
    const bool spreads = f == module_fn(m, "spread");
    size_t in = 0, out = 0;
    uint32_t first = 0;
    for (size_t k = 0; k < f->args.n; k++)
        in += f->args.data[k].role == ARG_cache;
    for (size_t k = 0; k < f->results.n; k++) {
        const FnResult r = f->results.data[k];
        const Value x = f->body->results.data[k];
        if (r.role != RES_cache || x == 0 || x >= m->values.n)
            continue;
        const Value was = cache_in(f, r.tensor);
        first = out ? first : r.tensor;
        if (r.tensor != first + out++ || !was || !type_equal(type_of(m, was), type_of(m, x)))
            verify_broken(v, NULL, 7, "cache %u does not come in as it goes out", r.tensor);
        for (size_t n = 0; was && n < m->fns.n; n++) {
            const Value other = cache_in(m->fns.data[n], r.tensor);
            if (other && !type_equal(type_of(m, was), type_of(m, other)))
                verify_broken(v, NULL, 7, "cache %u has two types", r.tensor);
        }
    }
    if (in != (spreads ? 2 * out : out))
        verify_broken(v, NULL, 7, "%zu caches come in and %zu go out", in, out);
}

/* @eval gives each metric once, and no other function gives one. */
static void check_metrics(Verifier *v, const Fn *f)
{
    const size_t n = v->m->metrics.n;
    bool *given = NEW_ARRAY(v->tmp, bool, n + 1);
    size_t count = 0;
    if (n > MAX_METRICS)
        verify_broken(v, NULL, 7, "%zu metrics; the limit is %d", n, MAX_METRICS);
    for (size_t k = 0; k < f->results.n; k++) {
        const FnResult r = f->results.data[k];
        if (r.role != RES_metric)
            continue;
        if (r.tensor >= n || given[r.tensor])
            verify_broken(v, NULL, 7,
                          "result %zu is a metric that there is not, or that came before", k);
        else
            given[r.tensor] = true;
        count++;
    }
    if (count != (f == module_fn(v->m, "eval") ? n : 0))
        verify_broken(v, NULL, 7, "@%s gives %zu metrics of %zu", name_str(v->m->names, f->name),
                      count, n);
}

/* I7: roles fit: a parameter or state argument, an update and a gradient have the tensor's type and
 * come once; the scalars have theirs. */
static void check_roles(Verifier *v, const Fn *f)
{
    size_t n = v->m->tensors.n;
    if (f->args.n != f->body->args.n || f->results.n != f->body->results.n) {
        verify_broken(v, NULL, 7, "not one role for each argument and result");
        return;
    }
    bool *given = NEW_ARRAY(v->tmp, bool, n), *taken = NEW_ARRAY(v->tmp, bool, n * 2);
    for (size_t k = 0; k < f->args.n; k++) {
        FnArg a = f->args.data[k];
        Value x = f->body->args.data[k];
        if (x == 0 || x >= v->m->values.n)
            continue; /* I3 */
        if (!arg_fits(v->m, a, type_of(v->m, x)))
            verify_broken(v, NULL, 7, "argument %zu has not the type of its role", k);
        else if (a.role <= ARG_state && given[a.tensor])
            verify_broken(v, NULL, 7, "argument %zu is a tensor that came before", k);
        else if (a.role <= ARG_state)
            given[a.tensor] = true;
    }
    for (size_t k = 0; k < f->results.n; k++) {
        FnResult r = f->results.data[k];
        Value x = f->body->results.data[k];
        if (x == 0 || x >= v->m->values.n)
            continue; /* I2 */
        size_t at = r.tensor * 2 + (r.role == RES_grad);
        if (!result_fits(v->m, r, type_of(v->m, x)))
            verify_broken(v, NULL, 7, "result %zu has not the type of its role", k);
        else if (r.role >= RES_grad && taken[at])
            verify_broken(v, NULL, 7, "result %zu is of a tensor that came before", k);
        else if (r.role >= RES_grad)
            taken[at] = true;
    }
    check_totals(v, f);
    check_caches(v, f);
    if (f->prefill < 0 || (f->prefill && f->whole) || (f->group && !f->prefill))
        verify_broken(v, NULL, 7, "a prompt is read %lld tokens at once", (long long)f->prefill);
    check_metrics(v, f);
}

/* I9: functions and tensors have names, each its own. */
static void check_names(Verifier *v)
{
    size_t n = name_count(v->m->names) + 1;
    bool *tensor = NEW_ARRAY(v->tmp, bool, n), *fn = NEW_ARRAY(v->tmp, bool, n);
    for (size_t i = 0; i < v->m->tensors.n; i++) {
        Name name = v->m->tensors.data[i].name;
        if (!name || tensor[name])
            verify_broken(v, NULL, 9, "tensor %zu is called '%s', as another", i,
                          verify_name(v, name));
        tensor[name] = true;
    }
    for (size_t i = 0; i < v->m->fns.n; i++) {
        Name name = v->m->fns.data[i]->name;
        if (!name || fn[name])
            verify_broken(v, NULL, 9, "function %zu is called '%s', as another", i,
                          verify_name(v, name));
        fn[name] = true;
    }
}

/* Does the program compute with narrow numbers of this type, or keep something in it? */
static bool has_narrow(const Train *t, DType narrow)
{
    bool is = t->half == narrow || t->master == narrow || t->sums == narrow || t->fp8 == narrow ||
              (t->fp8 && t->fp8_gradients == narrow) ||
              (narrow == DT_dynamic8 && t->base == BASE_nf4) ||
              (narrow == DT_e8m0 && t->fp8_products && t->fp8_scales == SCALES_mx);
    for (int i = 0; i < t->goals; i++)
        is |= t->goal[i].state == narrow ||
              (dtype_is_dynamic(narrow) && dtype_is_dynamic(t->goal[i].state));
    return is;
}

/* Narrow values where the program has none of them would meet what knows none. */
static void check_narrow(Verifier *v)
{
    for (size_t i = 1; i < v->m->values.n; i++) {
        DType t = v->m->values.data[i].type.dtype;
        if (dtype_is_narrow(t) && !has_narrow(&v->m->train, t)) {
            verify_broken(v, v->m->values.data[i].def, 10,
                          "a value is %s, which the program does not say", dtype_name(t));
            return;
        }
    }
}

/* I10: the program computes in f32 or f64, with halves of one kind or none; microbatches of one
 * size make up the batch, a power of two of them over one axis if they are a tree's. */
static void check_header(Verifier *v)
{
    const Module *m = v->m;
    int64_t part = m->layout.microbatch * mesh_batch_ranks(m);
    if (m->train.compute != DT_f32 && m->train.compute != DT_f64)
        verify_broken(v, NULL, 10, "the program computes in %s", dtype_name(m->train.compute));
    if (m->train.half && (!dtype_is_half(m->train.half) || m->train.compute != DT_f32))
        verify_broken(v, NULL, 10, "the program stores %s beside %s", dtype_name(m->train.half),
                      dtype_name(m->train.compute));
    if (m->train.fp8 && (m->train.half != DT_bf16 || m->train.fp8 != DT_e4m3 ||
                         !dtype_is_fp8(m->train.fp8_gradients)))
        verify_broken(v, NULL, 10, "the program multiplies %s and gradients of %s beside %s",
                      dtype_name(m->train.fp8), dtype_name(m->train.fp8_gradients),
                      dtype_name(m->train.half));
    if (part < 1 || m->batch.size < 1 || m->batch.size % part)
        verify_broken(v, NULL, 10, "microbatches of %lld for a batch of %lld", (long long)part,
                      (long long)m->batch.size);
    int64_t all = m->layout.microbatch > 0 ? m->batch.size / m->layout.microbatch : 0;
    Axes tree = mesh_tree_axes(m);
    if (m->train.tree && ((all & (all - 1)) || (tree & (tree - 1))))
        verify_broken(v, NULL, 10, "a tree of %lld microbatches over '%s'", (long long)all,
                      mesh_axes_text(m, tree));
}

int ir_verify(const Module *m, FILE *out)
{
    Verifier v = {.m = m, .out = out, .fn = "module", .tmp = arena_new()};
    check_header(&v);
    check_narrow(&v);
    check_names(&v);
    for (size_t i = 0; i < m->tensors.n; i++)
        verify_tensor(&v, (uint32_t)i);
    v.seen = NEW_ARRAY(v.tmp, uint32_t, m->values.n);
    size_t nfns = v.broken ? 0 : m->fns.n; /* roles speak of tensors */
    for (size_t i = 0; i < nfns; i++) {
        const Fn *f = m->fns.data[i];
        v.fn = verify_name(&v, f->name);
        v.island = ++v.islands;
        check_region(&v, f->body, NULL, NULL);
        check_roles(&v, f);
    }
    verify_stages(&v);
    const char *why = "";
    if (!v.broken && !ir_rounded_holds(m, &why)) { /* which follows uses that have to be there */
        v.fn = "module";
        verify_broken(&v, NULL, 13, "%s", why);
    }
    arena_free(v.tmp);
    return v.broken;
}
