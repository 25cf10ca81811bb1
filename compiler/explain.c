/* explain.c - mgc explain CODE: a row of errors.def. mgc explain F.mg NAME: what becomes of a
 * parameter or a value, from the line that makes it to the bytes it lies in. */
#include "compiler/explain.h"
#include "compiler/session.h"
#include "ir/external.h"
#include "ir/mesh.h"
#include "plan/levels.h"
#include "plan/show.h"

#include <stdlib.h>
#include <string.h>

/* ---- codes --------------------------------------------------------------------------------- */

static const struct Code {
    int number;
    const char *title, *text;
} codes[] = {
#define ERROR(number, title, text) {number, title, text},
#include "compiler/errors.def"
};

Exit explain_code(Session *s, const char *code)
{
    const char *digits = !strncmp(code, "MG", 2) || !strncmp(code, "mg", 2) ? code + 2 : code;
    char *end;
    long number = strtol(digits, &end, 10);
    bool whole = *digits >= '0' && *digits <= '9' && !*end;
    for (size_t i = 0; whole && i < sizeof codes / sizeof *codes; i++)
        if (codes[i].number == number) {
            printf("MG%04d: %s\n\n%s\n", codes[i].number, codes[i].title, codes[i].text);
            return EXIT_done;
        }
    diag_error(s->diag, (Span){0}, 0, "no error has the code '%s'", code);
    diag_help(s->diag, "a code is written as in a message: mgc explain MG0101");
    return EXIT_usage;
}

/* ---- names --------------------------------------------------------------------------------- */

typedef struct Search {
    Session *s;
    const Module *m;
    const char *name;
    int found;
} Search;

/* The name itself, or its last part: "wq" finds "layers.self_attn.wq". */
static bool matches(const char *full, const char *name)
{
    size_t n = strlen(full), k = strlen(name);
    return n >= k && !strcmp(full + n - k, name) && (n == k || full[n - k - 1] == '.');
}

static const char *type_text(const Search *q, const Type *t)
{
    Arena *a = q->s->arena;
    const char *text = arena_printf(a, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        text = arena_printf(a, "%s%s%s=%lld", text, i ? ", " : "",
                            name_str(q->m->names, t->dims[i].name), (long long)t->dims[i].size);
    return arena_printf(a, "%s], %s", text, text_bytes(a, (double)type_bytes(t)));
}

static const char *place(const Search *q, Span at)
{
    int line, column;
    if (!at.file)
        return "no line of the source";
    diag_locate(q->m->diag, at, &line, &column);
    return arena_printf(q->s->arena, "%s:%d:%d", diag_path(q->m->diag, at.file), line, column);
}

static void print_line(const Search *q, Span at)
{
    size_t size;
    const char *text = diag_text(q->m->diag, at.file, &size);
    if (!at.file || at.begin >= size)
        return;
    size_t from = at.begin, to = at.begin;
    while (from > 0 && text[from - 1] != '\n')
        from--;
    while (to < size && text[to] != '\n')
        to++;
    while (from < to && (text[from] == ' ' || text[from] == '\t'))
        from++;
    printf("  %-10s  %.*s\n", "", (int)(to - from), text + from);
}

void explain_row(const char *left, const char *right)
{
    printf("  %-10s  %s\n", left, right);
}

static const char *external_shape(const Search *q, const Tensor *t)
{
    Arena *a = q->s->arena;
    const char *text = "";
    for (int i = 0; i < t->external_rank; i++) {
        const bool part = t->part_of && i == t->part_dim;
        text = arena_printf(a, "%s%s%lld", text, i ? ", " : "",
                            (long long)(part ? t->part_of : external_size(t, i)));
    }
    return text;
}

/* The range of a part, and its dim, counted from 1. */
static const char *part_text(const Search *q, const Tensor *t)
{
    if (!t->part_of)
        return "";
    return arena_printf(
        q->s->arena, ", of which it is %lld to %lld along dim %d", (long long)t->part_at,
        (long long)(t->part_at + external_size(t, t->part_dim) - 1), t->part_dim + 1);
}

static void print_tensor(const Search *q, const Tensor *t)
{
    Arena *a = q->s->arena;
    printf("parameter %s\n", name_str(q->m->names, t->name));
    explain_row("declared", place(q, t->span));
    print_line(q, t->span);
    Type kept = t->type;
    kept.dtype = tensor_kept(q->m, t) ? tensor_kept(q->m, t) : kept.dtype;
    explain_row("stored", type_text(q, &kept));
    explain_row(
        "external",
        arena_printf(a, "%s [%s]%s%s", name_str(q->m->names, t->external), external_shape(q, t),
                     part_text(q, t),
                     t->stacked ? ", one for every iteration of the repeats around it" : ""));
    if (t->follows)
        explain_row("follows",
                    arena_printf(a, "%s: a copy of it before the first step",
                                 name_str(q->m->names, q->m->tensors.data[t->follows - 1].name)));
    else if (t->formula)
        explain_row("starts as",
                    arena_printf(a, "of each element: %s", name_str(q->m->names, t->formula)));
    else if (t->init == INIT_const)
        explain_row("starts as", arena_printf(a, "%g", t->a));
    else
        explain_row("starts as",
                    arena_printf(a,
                                 t->init == INIT_normal ? "normal, mean %g, deviation %g"
                                                        : "uniform between %g and %g",
                                 t->a, t->b));
}

/* Every instruction of the region and those inside it that reads v; what a repeat takes in is
 * followed into its body. */
static void print_users(const Search *q, const Region *r, Value v)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        bool reads = false;
        for (uint32_t k = 0; k < ins->nin; k++)
            if (ins->in[k] == v && ins->op == OP_repeat)
                print_users(q, ins->body, ins->body->args.data[k]);
            else
                reads |= ins->in[k] == v;
        if (reads)
            explain_row("read by", arena_printf(q->s->arena, "%s, %s", op_info[ins->op].name,
                                                place(q, ins->span)));
        if (ins->body)
            print_users(q, ins->body, v);
    }
}

static void print_value(Search *q, const Fn *fn, const Ins *ins, Value v)
{
    q->found++;
    printf("value %s of @%s\n", name_str(q->m->names, q->m->values.data[v].name),
           name_str(q->m->names, fn->name));
    explain_row("made by", arena_printf(q->s->arena, "%s%s%s, %s", op_info[ins->op].name,
                                        ins->block ? " in block " : "",
                                        name_str(q->m->names, ins->block), place(q, ins->span)));
    print_line(q, ins->span);
    explain_row("is", type_text(q, type_of(q->m, v)));
    print_users(q, fn->body, v);
}

static void find_values(Search *q, const Fn *fn, const Region *r)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        for (uint32_t k = 0; k < ins->nout; k++) {
            Name n = q->m->values.data[ins->out[k]].name;
            if (n && matches(name_str(q->m->names, n), q->name))
                print_value(q, fn, ins, ins->out[k]);
        }
        if (ins->body)
            find_values(q, fn, ins->body);
    }
}

/* Parameters and their users, and values of @train, in the program as it was written. */
static void search_logical(Search *q)
{
    for (size_t i = 0; i < q->m->tensors.n; i++) {
        const Tensor *t = &q->m->tensors.data[i];
        if (t->slot || (!matches(name_str(q->m->names, t->name), q->name) &&
                        strcmp(name_str(q->m->names, t->external), q->name)))
            continue;
        q->found++;
        print_tensor(q, t);
        const Fn *fn = module_fn(q->m, "train");
        for (size_t k = 0; k < fn->args.n; k++)
            if (fn->args.data[k].role == ARG_param && fn->args.data[k].tensor == i)
                print_users(q, fn->body, fn->body->args.data[k]);
    }
    const Fn *fn = module_fn(q->m, "train");
    find_values(q, fn, fn->body);
}

/* ---- the plan ------------------------------------------------------------------------------ */

static const char *const owner_names[OWN_count] = {
    [OWN_params] = "a parameter",        [OWN_grads] = "a gradient",
    [OWN_optimizer] = "optimizer state", [OWN_activations] = "an activation",
    [OWN_comm] = "communication",        [OWN_workspace] = "workspace",
    [OWN_io] = "input or result",        [OWN_cache] = "what positions before left",
};

/* The maker of a GPU's collective. */
static const char *maker(const Search *q, const Plan *p, const Action *act)
{
    if (!action_sends(act) || p->device->target != TARGET_cuda)
        return "";
    return arena_printf(q->s->arena, " along %s, by %s", mesh_axes_text(q->m, act->comm.axes),
                        act->comm.piece ? "copies through the host" : "NCCL");
}

static void print_access(const Search *q, const Plan *p, const Program *program, uint32_t buffer)
{
    for (size_t i = 0; i < program->actions.n; i++) {
        const Action *act = &program->actions.data[i];
        bool read = false, write = false;
        for (int k = 0; k < act->noperands && !action_transfers(act); k++)
            if (act->operand[k].at.buffer == buffer) {
                read |= act->operand[k].read;
                write |= act->operand[k].write;
            }
        if (!read && !write)
            continue;
        const char *kernel = act->kind == ACT_kernel || act->epilogue
                                 ? name_str(q->m->names, p->kernels.data[act->kernel].name)
                                 : "";
        explain_row(read && write ? "updated by"
                    : read        ? "read by"
                                  : "written by",
                    arena_printf(q->s->arena, "@%s action %u: %s %s%s%s%s%s, %s",
                                 name_str(q->m->names, program->fn->name), act->id,
                                 action_info[act->kind].name, act->epilogue ? "and " : "", kernel,
                                 *kernel ? " for " : "", name_str(q->m->names, act->name),
                                 maker(q, p, act), place(q, act->span)));
    }
}

/* The part of a tensor that a rank has, and the rule that says so. */
static void print_split(const Search *q, const Plan *p, uint32_t b)
{
    const Module *m = p->module;
    for (size_t i = 0; i < m->tensors.n && m->layout.mesh.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        if (p->tensor_buffer.data[i] != (int)b)
            continue;
        explain_row("of a rank", type_text(q, &t->type));
        TensorSplit all[MAX_AXES];
        for (int k = 0, n = tensor_splits(m, t, all); k < n; k++)
            explain_row("split", arena_printf(q->s->arena, "%s on %s%s, by the rule for %s, %s",
                                              name_str(m->names, all[k].dim),
                                              name_str(m->names, all[k].axis),
                                              all[k].zigzag ? " in zigzag order" : "",
                                              split_rule(m, &all[k]), place(q, all[k].rule->span)));
    }
}

static void print_buffer(const Search *q, const Plan *p, uint32_t b)
{
    const Buffer *buffer = &p->buffers.data[b];
    Program *const *const programs = p->programs;
    printf("buffer %s, %s\n", name_str(q->m->names, buffer->name), owner_names[buffer->owner]);
    explain_row("bytes", arena_printf(q->s->arena, "%lld at offset %lld of %s%s",
                                      (long long)buffer->bytes, (long long)buffer->offset,
                                      buffer->level ? arena_printf(q->s->arena, "the %s's arena",
                                                                   level_names[buffer->level])
                                                    : "the arena",
                                      buffer->persistent ? ", always" : ""));
    print_split(q, p, b);
    if (levels_used(p->module))
        explain_lies(p, b);
    for (size_t i = 0; i < PLAN_PROGRAMS; i++)
        if (programs[i]) {
            explain_transfers(p, programs[i], b);
            print_access(q, p, programs[i], b);
        }
}

static bool body_has(const Search *q, const Region *r)
{
    for (size_t i = 0; i < r->ins.n; i++)
        for (uint32_t k = 0; k < r->ins.data[i]->nout; k++) {
            Name n = q->m->values.data[r->ins.data[i]->out[k]].name;
            if (n && matches(name_str(q->m->names, n), q->name))
                return true;
        }
    return false;
}

static void search_plan(Search *q, const Plan *p)
{
    for (uint32_t b = 0; b < p->buffers.n; b++) {
        const Buffer *buffer = &p->buffers.data[b];
        Name value = buffer->value ? q->m->values.data[buffer->value].name : 0;
        bool hit = matches(name_str(q->m->names, buffer->name), q->name) ||
                   (value && matches(name_str(q->m->names, value), q->name));
        for (size_t i = 0; !hit && i < q->m->tensors.n; i++)
            hit = p->tensor_buffer.data[i] == (int)b && !q->m->tensors.data[i].slot &&
                  !strcmp(name_str(q->m->names, q->m->tensors.data[i].external), q->name);
        if (hit) {
            q->found++;
            print_buffer(q, p, b);
        }
    }
    for (size_t k = 0; k < p->kernels.n; k++) {
        const Kernel *kernel = &p->kernels.data[k];
        if (kernel->ins->body && body_has(q, kernel->ins->body)) {
            q->found++;
            printf("inside kernel %s, %s\n", name_str(q->m->names, kernel->name),
                   place(q, kernel->ins->span));
        }
    }
}

Exit explain_names(Session *s, const char *path)
{
    Compiled c = {0};
    const Exit wrong = compile_front(s, path, &c);
    if (wrong)
        return wrong;
    const Search q = {s, c.module, "", 0};
    for (size_t i = 0; i < c.module->tensors.n; i++) {
        const Tensor *t = &c.module->tensors.data[i];
        if (!t->slot && t->external)
            printf("%s [%s]  %s\n", name_str(c.module->names, t->external), external_shape(&q, t),
                   place(&q, t->span));
    }
    return EXIT_done;
}

Exit explain_name(Session *s, const char *path, const char *name)
{
    Compiled c = {0};
    Exit wrong = compile_front(s, path, &c);
    if (wrong)
        return wrong;
    Search q = {s, c.module, name, 0};
    search_logical(&q);
    wrong = compile_middle(s, &c, NULL, NULL);
    if (wrong)
        return wrong;
    q.m = c.module;
    search_plan(&q, c.plan);
    if (q.found)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 567, "nothing in '%s' is called '%s'", path, name);
    diag_help(s->diag, "names are those of the source, like 'wq' or 'layers.self_attn.wq'");
    return EXIT_usage;
}
