/* emit_formula.c - the formula of a generated kernel, as a line of mathematics: its fused body,
 * read back from the results, with the names of the source if there are any. */
#include "codegen/code/code.h"
#include "codegen/emit/emit.h"

#include <stdlib.h>
#include <string.h>

typedef struct Formula {
    const Emitter *e;
    const Region *body;
    Names *used;
    const char **name; /* per value of the body that has one */
    Uses uses;
    const char **operand; /* per operand of the kernel: its name */
    bool update;          /* an optimizer kernel: one formula is valid for all shapes */
    FILE *out;
} Formula;

static const char *str(const Emitter *e, Name n)
{
    return name_str(e->m->names, n);
}

static const ValueInfo *info(const Formula *f, Value v)
{
    return &f->e->m->values.data[v];
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *unique(Formula *f, const char *base)
{
    const char *name = base;
    for (int k = 2;; k++) {
        uint32_t before = name_count(f->used);
        if (name_intern(f->used, name) > before)
            return name;
        name = arena_printf(f->e->a, "%s%d", base, k);
    }
}

/* A letter for an operand without a name in the source: a scalar, or another one. */
static const char *letter(Formula *f, Value v)
{
    const char *set = type_of(f->e->m, v)->rank ? "xzuvw" : "abcst";
    for (; *set; set++) {
        uint32_t before = name_count(f->used);
        const char *name = arena_printf(f->e->a, "%c", *set);
        if (name_intern(f->used, name) > before)
            return name;
    }
    return unique(f, "t");
}

bool emit_op_tells(const char *op)
{
    static const char *const ops[] = {"cos", "sin", "rsqrt", "sqrt", "exp", "tanh", "sigmoid"};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (!strcmp(op, ops[k]))
            return true;
    return false;
}

/* "x" for a value with this name in the source; "exp_avg" for "exp_avg.embed"; NULL: the value has
 * the name of an op. */
static const char *own_name(const Formula *f, Value v)
{
    const char *name = str(f->e, info(f, v)->name), *dot = strchr(name, '.');
    if (dot)
        name = arena_strndup(f->e->a, name, (size_t)(dot - name));
    return *name && (op_find(name) == OP_none || (emit_op_tells(name) && !f->update)) ? name : NULL;
}

/* A product with a weight of the source has the name of the weight. */
static const char *product_name(const Formula *f, Value v)
{
    const Ins *def = info(f, v)->def;
    if (!def || !op_is_product(def->op) || def->backward)
        return NULL;
    const char *name = str(f->e, info(f, def->in[1])->name);
    return *name && op_find(name) == OP_none && !strchr(name, '.') ? name : NULL;
}

static bool is_parameter(const Formula *f, Value v)
{
    const Fn *fn = f->e->p->train ? f->e->p->train->fn : NULL;
    for (size_t k = 0; fn && k < fn->args.n; k++)
        if (fn->body->args.data[k] == v)
            return fn->args.data[k].role == ARG_param;
    return false;
}

static void name_inputs(Formula *f, const Kernel *k)
{
    for (uint32_t i = 0; i < k->ins->nin; i++) {
        Value arg = f->body->args.data[i], outer = k->ins->in[i];
        const char *own = f->update && is_parameter(f, outer) ? "p" : own_name(f, outer);
        own = own ? own : product_name(f, outer);
        f->name[arg] = own ? unique(f, own) : letter(f, arg);
        f->operand[i] = f->name[arg];
    }
}

/* ---- expressions ----------------------------------------------------------------------------- */

static Text expression(Formula *f, Value v);

static const char *at(Formula *f, Value v, Binding least)
{
    Text t = f->name[v] ? (Text){f->name[v], NAMED} : expression(f, v);
    return t.level >= least ? t.s : arena_printf(f->e->a, "(%s)", t.s);
}

/* " over hidden, head" */
static const char *over(const Formula *f, const DimList *d)
{
    const char *all = d->n && !f->update ? " over" : "";
    for (int i = 0; i < d->n && !f->update; i++)
        all = arena_printf(f->e->a, "%s%s %s", all, i ? "," : "", str(f->e, d->dim[i].name));
    return all;
}

/* A sum times 1 / n is a mean. */
static const char *mean(Formula *f, const Ins *i)
{
    const Ins *sum = info(f, i->in[0])->def, *factor = info(f, i->in[1])->def;
    double n = 1;
    if (!sum || !factor || sum->op != OP_sum || factor->op != OP_const || f->name[i->in[0]])
        return NULL;
    for (int k = 0; k < sum->attrs.over.n; k++)
        n *= (double)sum->attrs.over.dim[k].size;
    if (n < 2 || factor->attrs.value != 1 / n)
        return NULL;
    return arena_printf(f->e->a, "mean(%s%s)", at(f, sum->in[0], CHOICE),
                        over(f, &sum->attrs.over));
}

static Text infix(Formula *f, const Ins *i, const CodeOperator *o)
{
    return (Text){arena_printf(f->e->a, "%s %s %s", at(f, i->in[0], o->level), o->sign,
                               at(f, i->in[1], o->level + o->ordered)),
                  o->level};
}

static Text function(Formula *f, const Ins *i)
{
    const char *all = "";
    for (uint32_t k = 0; k < i->nin; k++)
        all = arena_printf(f->e->a, "%s%s%s", all, k ? ", " : "", at(f, i->in[k], CHOICE));
    return (Text){arena_printf(f->e->a, "%s(%s)", op_info[i->op].name, all), NAMED};
}

static Text number(Formula *f, const Ins *i)
{
    return (Text){real_text(f->e->a, i->attrs.value), i->attrs.value < 0 ? SIGNED : NAMED};
}

static Text negated(Formula *f, const Ins *i)
{
    return (Text){arena_printf(f->e->a, "-%s", at(f, i->in[0], SIGNED)), SIGNED};
}

static Text chosen(Formula *f, const Ins *i)
{
    return (Text){arena_printf(f->e->a, "%s ? %s : %s", at(f, i->in[0], COMPARED),
                               at(f, i->in[1], COMPARED), at(f, i->in[2], COMPARED)),
                  CHOICE};
}

static Text index_of(Formula *f, const Ins *i)
{
    return (Text){arena_printf(f->e->a, "index(%s)", str(f->e, i->attrs.dim.name)), NAMED};
}

static Text cast(Formula *f, const Ins *i)
{
    return (Text){arena_printf(f->e->a, "%s(%s)", dtype_name(info(f, i->out[0])->type.dtype),
                               at(f, i->in[0], CHOICE)),
                  NAMED};
}

/* "stochastic(m * a + b)": where its bits are from is not shown. */
static Text stochastic(Formula *f, const Ins *i)
{
    return (Text){arena_printf(f->e->a, "stochastic(%s)", at(f, i->in[0], CHOICE)), NAMED};
}

static Text itself(Formula *f, const Ins *i)
{
    return (Text){at(f, i->in[0], CHOICE), CHOICE};
}

static Text picked(Formula *f, const Ins *i)
{
    return (Text){arena_printf(f->e->a, "%s[%s = %lld]", at(f, i->in[0], NAMED),
                               str(f->e, i->attrs.dim.name), (long long)i->attrs.at),
                  NAMED};
}

static Text window(Formula *f, const Ins *i)
{
    return (Text){arena_printf(f->e->a, "%s[%s + %lld]", at(f, i->in[0], NAMED),
                               str(f->e, i->attrs.along.name), (long long)i->attrs.at),
                  NAMED};
}

/* "x[seq = seq - 2 * tap + 1]" */
static Text reindexed(Formula *f, const Ins *i)
{
    const Attrs *a = &i->attrs;
    const char *sum = "";
    for (int k = 0; k < a->over.n; k++) {
        const int by = a->factors.by[k], size = by < 0 ? -by : by;
        const char *sign = k ? (by < 0 ? " - " : " + ") : by < 0 ? "-" : "";
        const char *times = size == 1 ? "" : arena_printf(f->e->a, "%d * ", size);
        sum = arena_printf(f->e->a, "%s%s%s%s", sum, sign, times, str(f->e, a->over.dim[k].name));
    }
    if (a->at)
        sum = arena_printf(f->e->a, "%s %c %lld", sum, a->at < 0 ? '-' : '+', llabs(a->at));
    if (a->every > 1)
        sum = arena_printf(f->e->a, "(%s) / %lld", sum, (long long)a->every);
    return (Text){
        arena_printf(f->e->a, "%s[%s = %s]", at(f, i->in[0], NAMED), str(f->e, a->dim.name), sum),
        NAMED};
}

static Text rotated(Formula *f, const Ins *i)
{
    return (Text){arena_printf(f->e->a, "rotate(%s over %s)", at(f, i->in[0], CHOICE),
                               str(f->e, i->attrs.dim.name)),
                  NAMED};
}

static Text reduced(Formula *f, const Ins *i)
{
    return (Text){arena_printf(f->e->a, "%s(%s%s)", i->op == OP_sum ? "sum" : "max",
                               at(f, i->in[0], CHOICE), over(f, &i->attrs.over)),
                  NAMED};
}

/* Notation other than an operator; NULL: a function of the op's name. */
static Text (*const notation[OP_count])(Formula *f, const Ins *i) = {
    [OP_const] = number,      [OP_neg] = negated,
    [OP_select] = chosen,     [OP_iota] = index_of,
    [OP_cast] = cast,         [OP_copy] = itself,
    [OP_rename] = itself,     [OP_pick] = picked,
    [OP_window] = window,     [OP_rotate] = rotated,
    [OP_reindex] = reindexed, [OP_sum] = reduced,
    [OP_rmax] = reduced,      [OP_stochastic_round] = stochastic,
};

static Text expression(Formula *f, Value v)
{
    const Ins *i = info(f, v)->def;
    if (i->op == OP_mul && mean(f, i))
        return (Text){mean(f, i), NAMED};
    if (code_operator[i->op].sign)
        return infix(f, i, &code_operator[i->op]);
    return notation[i->op] ? notation[i->op](f, i) : function(f, i);
}

/* ---- a kernel -------------------------------------------------------------------------------- */

/* The name of a result: of the input that it replaces, of the source, or "y". */
static const char *result_name(Formula *f, const Kernel *k, size_t r)
{
    int old = k->alias[k->nin + (int)r];
    const char *own = own_name(f, k->ins->out[r]);
    if (k->phase == PHASE_whole && old >= 0 && old < k->nin)
        return arena_printf(f->e->a, "%s'", f->name[f->body->args.data[old]]);
    return unique(f, own ? own : "y");
}

static bool trivial(const Ins *i)
{
    return i->op == OP_const || i->op == OP_copy || i->op == OP_iota || i->op == OP_cast ||
           i->op == OP_rename || i->op == OP_pick || i->op == OP_window;
}

/* Index of a value among the results of the kernel, or -1. */
static int result_of(const Formula *f, Value v)
{
    for (size_t r = 0; r < f->body->results.n; r++)
        if (f->body->results.data[r] == v)
            return (int)r;
    return -1;
}

static void define(Formula *f, Value v, const char *name, const char *part)
{
    const char *s = at(f, v, CHOICE);
    f->name[v] = name;
    fprintf(f->out, "%s%s%s = %s", ftell(f->out) ? "; " : "", part, name, s);
}

static void define_result(Formula *f, const Kernel *k, size_t r, const char *part)
{
    const char *name = result_name(f, k, r);
    f->operand[k->nin + (int)r] = *part ? arena_printf(f->e->a, "%s_parts", name) : name;
    define(f, f->body->results.data[r], name, part);
}

/* Writes results, and values that several others need, in the order of computation. */
static void definitions(Formula *f, const Kernel *k)
{
    const char *part = k->phase == PHASE_partial ? "part of " : "";
    for (size_t n = 0; n < f->body->ins.n; n++) {
        const Ins *i = f->body->ins.data[n];
        const Value v = i->out[0];
        const int r = result_of(f, v);
        const char *own = own_name(f, v);
        if (r >= 0)
            define_result(f, k, (size_t)r, part);
        else if (!trivial(i) && f->uses.count[v] > 1)
            define(f, v, unique(f, own ? own : "t"), "");
    }
    for (size_t r = 0; r < f->body->results.n; r++) /* an input as it is, a value twice */
        if (!info(f, f->body->results.data[r])->def ||
            result_of(f, f->body->results.data[r]) != (int)r)
            define_result(f, k, r, part);
}

static void sums_of_parts(Formula *f, const Kernel *k)
{
    for (size_t r = 0; r < f->body->results.n; r++) {
        const char *name = result_name(f, k, r);
        f->operand[r] = arena_printf(f->e->a, "%s_parts", name);
        f->operand[k->nout + (int)r] = name;
        fprintf(f->out, "%s%s = sum(parts of %s)", r ? "; " : "", name, name);
    }
}

KernelText kernel_text(const Emitter *e, const Kernel *k)
{
    char *text;
    size_t size;
    KernelText all = {0};
    Formula f = {.e = e, .body = k->ins->body, .used = names_new(e->a), .operand = all.operand};
    f.out = open_memstream(&text, &size);
    f.name = NEW_ARRAY(e->a, const char *, e->m->values.n);
    f.uses = ir_uses(e->m, f.body, e->a);
    f.update = !strcmp(str(e, k->ins->block), "optimizer");
    name_inputs(&f, k);
    if (k->phase == PHASE_combine)
        sums_of_parts(&f, k);
    else
        definitions(&f, k);
    fclose(f.out);
    all.formula = arena_strdup(e->a, text);
    all.value = f.name;
    free(text);
    return all;
}
