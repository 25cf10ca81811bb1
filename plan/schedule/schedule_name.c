/* schedule_name.c - what an action is called: in traces, in progress, when a number is not finite.
 *
 * The path of its block, then the name of its result in the source. Products without one are named
 * after the weight: "layers.mlp.gate", in the backward part "layers.mlp.gate.dx"; those that make a
 * weight's gradient "dw". Updates are "update", unnamed kernels are named after their last op. A
 * name that comes again gets a number.
 *
 * A generated kernel is named after what it computes: the function that the source calls there
 * ("k_rmsnorm"), the block ("k_swiglu"), the optimizer ("k_adamw"); "d_" if it computes gradients.
 */
#include "plan/schedule/schedule.h"
#include "ir/optimizers.h"
#include "passes/view.h"

#include <ctype.h>
#include <string.h>

/* The parameter that v is, or is a slice of: its name, else 0. */
static Name parameter_name(const Sched *s, Value v)
{
    const Fn *f = s->prog->fn;
    Value stacked;
    v = view_of(s->m, v).root;
    Name name = s->m->values.data[v].name;
    while (slice_loop(s->m, v, &stacked))
        v = view_of(s->m, stacked).root;
    for (size_t k = 0; k < f->args.n; k++)
        if (f->body->args.data[k] == v && f->args.data[k].role <= ARG_rounded)
            return name ? name : s->m->values.data[v].name;
    return 0;
}

static const char *product_name(const Sched *s, const Ins *i)
{
    for (int k = 0; k < 2; k++) {
        Name n = parameter_name(s, i->in[k]);
        if (n)
            return i->backward ? arena_printf(s->m->arena, "%s.dx", name_str(s->m->names, n))
                               : name_str(s->m->names, n);
    }
    return i->backward ? "dw" : op_info[i->op].name;
}

/* The tensor that an action writes, or -1. */
static int64_t updated(const Sched *s, const Operand *op, int noperands)
{
    for (int k = 0; k < noperands; k++)
        for (size_t t = 0; op[k].write && t < s->p->tensor_buffer.n; t++)
            if ((uint32_t)s->p->tensor_buffer.data[t] == op[k].at.buffer)
                return (int64_t)t;
    return -1;
}

static const char *own_name(const Sched *s, const Ins *i, const Operand *op, int noperands)
{
    if (updated(s, op, noperands) >= 0)
        return "update";
    const char *op_name = op_info[i->op].name;
    for (uint32_t k = 0; k < i->nout; k++) {
        const char *name = name_str(s->m->names, s->m->values.data[i->out[k]].name);
        if (*name && strcmp(name, op_name) != 0)
            return name;
    }
    return op_is_product(i->op) ? product_name(s, i) : op_name;
}

/* The last number that actions of a name have, 1 for the one without; 0: none is called so. */
static uint32_t *last_number(Sched *s, Name name)
{
    while (s->called.n <= name)
        vec_push(s->tmp, &s->called, 0);
    return &s->called.data[name];
}

Name action_name(Sched *s, const Ins *i, const Operand *op, int noperands)
{
    const char *path = i ? name_str(s->m->names, i->path) : "";
    const char *own = i ? own_name(s, i, op, noperands) : "move";
    const char *base = *path ? arena_printf(s->m->arena, "%s.%s", path, own) : own;
    const Name first = name_intern(s->m->names, base);
    Name name = first;
    uint32_t n = *last_number(s, first);
    while (*last_number(s, name))
        name = name_intern(s->m->names, arena_printf(s->m->arena, "%s_%u", base, ++n));
    *last_number(s, name) = 1;
    if (n)
        *last_number(s, first) = n;
    return name;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* "rmsnorm" where the source says `rmsnorm(x, ...)` at the place of an instruction, else "". */
static const char *callee(const Sched *s, const Ins *i)
{
    size_t size = 0, end;
    const char *text = i->span.file ? diag_text(s->m->diag, i->span.file, &size) : NULL;
    for (end = i->span.begin; text && end < size; end++)
        if (!isalnum((unsigned char)text[end]) && text[end] != '_')
            break;
    if (!text || end >= size || text[end] != '(')
        return "";
    return arena_strndup(s->m->arena, text + i->span.begin, end - i->span.begin);
}

static bool computes(const Ins *i)
{
    return i->op != OP_const && i->op != OP_cast && i->op != OP_copy && i->op != OP_iota;
}

/* The name a source gives a kernel's first result, else that of the op which makes it. */
static const char *result_name(const Sched *s, const Ins *i, bool *given)
{
    const Ins *def = s->m->values.data[i->body->results.data[0]].def;
    const char *name = name_str(s->m->names, s->m->values.data[i->out[0]].name);
    const char *op = def ? op_info[def->op].name : "copy";
    *given = strcmp(name, op) != 0 && op_find(name) == OP_none && !strchr(name, '.');
    return *given ? name : op;
}

/* A kernel whose inputs are constants of the model: of angles, of positions. */
static bool makes_table(const Sched *s, const Ins *i)
{
    bool table = i->op == OP_fused;
    for (uint32_t k = 0; k < i->nin && table; k++) {
        const Ins *def = s->m->values.data[i->in[k]].def;
        table = def && makes_table(s, def);
    }
    return table;
}

static bool past_guard(const Sched *s)
{
    for (size_t k = 0; k < s->prog->actions.n; k++)
        if (s->prog->actions.data[k].kind == ACT_guard)
            return true;
    return false;
}

static bool has_op(const Ins *i, Op op)
{
    for (size_t k = 0; k < i->body->ins.n; k++)
        if (i->body->ins.data[k]->op == op)
            return true;
    return false;
}

static const char *rule_of(const Sched *s, int goal)
{
    return s->m->train.goal[goal].optimizer->name;
}

/* Of the block "optimizer": the update itself, what comes before the guard, the rest. */
static const char *optimizer_word(const Sched *s, const Kernel *k)
{
    bool given, scalars = true;
    const int64_t tensor = updated(s, k->operand, k->noperands);
    if (tensor >= 0)
        return rule_of(s, s->m->tensors.data[tensor].goal);
    if (!past_guard(s))
        return has_op(k->ins, OP_sqrt)  ? "grad_norm"
               : has_op(k->ins, OP_mul) ? "grad_squares"
                                        : "grad_total";
    for (uint32_t r = 0; r < k->ins->nout; r++)
        scalars &= !type_of(s->m, k->ins->out[r])->rank;
    return arena_printf(s->m->arena, "%s_%s", s->m->train.goals == 1 ? rule_of(s, 0) : "optimizer",
                        scalars ? "factors" : result_name(s, k->ins, &given));
}

/* The function of the source that all of a kernel's ops belong to, else their block; before it, an
 * op of another block that was fused with them. */
static const char *block_word(const Sched *s, const Ins *i)
{
    const char *one = NULL, *some = "", *before = "", *word;
    bool mixed = false, given;
    for (size_t k = 0; k < i->body->ins.n; k++) {
        const Ins *b = i->body->ins.data[k];
        if (!computes(b) && i->body->ins.n > 1)
            continue;
        if (b->path != i->path) {
            before = *before ? before : op_info[b->op].name;
            continue;
        }
        const char *c = callee(s, b);
        mixed |= one && strcmp(one, c) != 0;
        one = one ? one : c;
        some = *some ? some : c;
    }
    if (i->block)
        word = one && *one && !mixed ? one : name_str(s->m->names, i->block);
    else if (*some)
        word = some;
    else {
        const char *path = name_str(s->m->names, i->path), *last = strrchr(path, '.');
        word = arena_printf(s->m->arena, "%s_%s",
                            last    ? last + 1
                            : *path ? path
                                    : name_str(s->m->names, s->m->name),
                            result_name(s, i, &given));
    }
    const char *own = result_name(s, i, &given);
    const size_t n = strlen(word), m = strlen(own);
    const bool said = n >= m && !strcmp(word + n - m, own);
    if (makes_table(s, i) && !said)
        return arena_printf(s->m->arena, "%s_%s", word, own);
    return *before ? arena_printf(s->m->arena, "%s_%s", before, word) : word;
}

static bool kernel_taken(const Sched *s, const char *name)
{
    const Name known = name_find(s->m->names, name);
    for (size_t i = 0; known && i < s->p->kernels.n; i++)
        if (s->p->kernels.data[i].name == known)
            return true;
    return false;
}

/* PTX calls the parameters of a kernel K K_param_0, K_param_1 and so on; ptxas 13.0 crashes if
 * another kernel has such a name. Where in the name its number begins, if it is one; else its end.
 */
static size_t number_of_ptx(const char *name)
{
    const size_t n = strlen(name), word = strlen("_param_");
    size_t at = n;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < n && at >= word && !strncmp(name + at - word, "_param_", word) ? at : n;
}

static const char *numbered(const Sched *s, const char *base, int n)
{
    const char *name = arena_printf(s->m->arena, "%s_%d", base, n);
    return name[number_of_ptx(name)] ? arena_printf(s->m->arena, "%s%d", base, n) : name;
}

/* The first name that is free: as it is, with the program's, with the result's, with a number. */
static Name free_name(const Sched *s, const Ins *i, const char *base)
{
    bool given;
    const char *own = result_name(s, i, &given), *name = base;
    const char *program = name_str(s->m->names, s->prog->fn->name);
    if (kernel_taken(s, name) && s->prog->fn != module_fn(s->m, "train"))
        name = base = arena_printf(s->m->arena, "%s_%s", base, program);
    if (kernel_taken(s, name) && given)
        name = base = arena_printf(s->m->arena, "%s_%s", base, own);
    for (int n = 2; kernel_taken(s, name); n++)
        name = numbered(s, base, n);
    return name_intern(s->m->names, name);
}

Name kernel_name(const Sched *s, const Kernel *k)
{
    static const char *const phases[] = {
        [PHASE_whole] = "", [PHASE_partial] = "_parts", [PHASE_combine] = "_total"};
    const Ins *i = k->ins;
    const bool update = !strcmp(name_str(s->m->names, i->block), "optimizer");
    const bool sums = i->backward && !strcmp(name_str(s->m->names, i->attrs.kind), "col");
    char *name = arena_printf(s->m->arena, "%s_%.48s%s%s", i->backward && !update ? "d" : "k",
                              update ? optimizer_word(s, k) : block_word(s, i),
                              sums ? "_param" : "", phases[k->phase]);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    const size_t number = number_of_ptx(name);
    if (name[number]) /* of a block that is called so */
        name[number - 1] = 'n';
    return free_name(s, i, name);
}
