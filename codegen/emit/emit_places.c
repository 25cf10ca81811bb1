/* emit_places.c - places in the arena: a macro for each buffer. If loops walk through the buffer
 * step by step, layer by layer, the macro has an index. */
#include "codegen/emit/emit.h"

#include <string.h>

static const char *str(const Emitter *e, Name n)
{
    return name_str(e->m->names, n);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The main result of an action is the last operand that it writes. */
static bool is_main(const Action *a, int operand)
{
    for (int k = operand + 1; k < a->noperands; k++)
        if (a->operand[k].write && a->operand[k].value)
            return false;
    return true;
}

/* The action that writes a buffer first, and the number of that operand; or NULL. */
static const Action *maker(const Emitter *e, size_t buffer, int *operand)
{
    Program *const *const programs = e->p->programs;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; programs[k] && i < programs[k]->actions.n; i++) {
            const Action *a = &programs[k]->actions.data[i];
            for (*operand = 0; *operand < a->noperands; ++*operand)
                if (a->operand[*operand].write && a->operand[*operand].at.buffer == buffer)
                    return a;
        }
    return NULL;
}

/* The names of the results of hand-written kernels. */
static const char *library_result(const Action *a, int operand)
{
    static const char *const attention[] = {[3] = "attention", [4] = "lse"};
    static const char *const grad[] = {[6] = "dq", [7] = "dk", [8] = "dv"};
    static const char *const head[] = {[4] = "loss", [5] = "dx", [6] = "dw"};
    if (a->kind == ACT_attention && operand >= 3 && operand <= 4)
        return attention[operand];
    if (a->kind == ACT_attention_grad && operand >= 6 && operand <= 8)
        return grad[operand];
    if (a->kind == ACT_attention_bias_grad && operand == 6)
        return "dbias";
    if (a->kind == ACT_head && operand >= 4 && operand <= 6)
        return head[operand];
    return NULL;
}

/* The name without the repeats around the value: the index says these. */
const char *emit_short_name(const Emitter *e, const char *name)
{
    const Program *p = e->p->train;
    for (size_t l = 0; p && l < p->loops.n; l++) {
        const char *dim = str(e, p->loops.data[l].dim.name);
        const size_t n = strlen(dim);
        if (!strncmp(name, dim, n) && name[n] == '.')
            return emit_short_name(e, name + n + 1);
        const char *dot = strchr(name, '.');
        if (dot && !strncmp(dot + 1, dim, n) && dot[1 + n] == '.') /* exp_avg.layers.wq */
            return arena_printf(e->a, "%.*s%s", (int)(dot - name + 1), name, dot + 2 + n);
    }
    return name;
}

static const char *without_number(const Emitter *e, const char *name)
{
    size_t n = strlen(name);
    while (n && strchr("0123456789", name[n - 1]))
        n--;
    return n && name[n - 1] == '_' ? arena_strndup(e->a, name, n - 1) : name;
}

/* A buffer without a name in the source has the name of its product or of its kernel. */
static const char *buffer_name(const Emitter *e, size_t buffer)
{
    int operand;
    const Buffer *b = &e->p->buffers.data[buffer];
    const char *name = str(e, b->name), *last = strrchr(name, '.');
    last = last ? last + 1 : name;
    const char *op = arena_strndup(e->a, last, strcspn(last, "0123456789"));
    if (strlen(op) > 1 && op[strlen(op) - 1] == '_')
        op = arena_strndup(e->a, op, strlen(op) - 1);
    const Action *a = b->owner == OWN_activations ? maker(e, buffer, &operand) : NULL;
    if (!a || op_find(op) == OP_none || emit_op_tells(op))
        return name;
    const char *path = str(e, a->path), *made = library_result(a, operand);
    if (a->kind == ACT_gemm && !a->epilogue)
        return str(e, a->name);
    if (a->kind == ACT_kernel) {
        made = str(e, e->p->kernels.data[a->kernel].name);
        made += strncmp(made, "k_", 2) ? 0 : 2;
        made = without_number(e, made);
        const bool updates = !strcmp(str(e, a->block), "optimizer");
        const char *factors = updates ? strstr(made, "factors") : NULL;
        made = factors ? factors : made;
        if (!is_main(a, operand) && !updates)
            made = arena_printf(e->a, "%s.%s", made, op);
        if (updates && !a->operand[operand].type.rank)
            path = "";
    }
    return !made ? name : *path ? arena_printf(e->a, "%s.%s", path, made) : made;
}

/* ---- macros ---------------------------------------------------------------------------------- */

/* For each buffer, the largest step with which its places follow a loop. */
static void find_steps(Emitter *e)
{
    Program *const *const programs = e->p->programs;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; programs[k] && i < programs[k]->actions.n; i++) {
            const Action *a = &programs[k]->actions.data[i];
            for (int j = 0; j < a->noperands; j++) {
                const Place *at = &a->operand[j].at;
                for (int l = 0; l < at->nloops; l++)
                    if (at->loop[l].stride > e->step[at->buffer])
                        e->step[at->buffer] = at->loop[l].stride;
            }
        }
}

/* The sizes of dims, the most frequent first. A type with another size states it. */
typedef struct Sizes {
    int n;
    Dim dim[64];
    int times[64];
} Sizes;

static bool is_usual(const Sizes *s, Dim d)
{
    for (int k = 0; k < s->n; k++)
        if (s->dim[k].name == d.name)
            return s->dim[k].size == d.size;
    return false;
}

static void collect_sizes(const Emitter *e, Sizes *usual)
{
    Sizes all = {0}, *s = &all;
    for (size_t i = 0; i < e->p->buffers.n; i++) {
        const Buffer *b = &e->p->buffers.data[i];
        const Type *t = b->value ? type_of(e->m, b->value) : NULL;
        for (int k = 0; t && k < t->rank; k++) {
            int at = 0;
            while (at < s->n &&
                   (s->dim[at].name != t->dims[k].name || s->dim[at].size != t->dims[k].size))
                at++;
            if (at == s->n && s->n < 64)
                s->dim[s->n++] = t->dims[k];
            if (at < 64)
                s->times[at]++;
        }
    }
    int kept = 0;
    for (int k = 0; k < s->n; k++) {
        bool best = true;
        for (int i = 0; i < s->n; i++)
            if (s->dim[i].name == s->dim[k].name)
                best &= i < k ? s->times[i] < s->times[k] : s->times[i] <= s->times[k];
        if (best)
            usual->dim[kept++] = s->dim[k];
    }
    usual->n = kept;
}

/* Writes dims from `first` on: an index replaces the dims before it. */
static void comment_type(const Emitter *e, const Sizes *s, const Type *t, int first)
{
    fprintf(e->out, "%s[", dtype_name(t->dtype));
    for (int i = first; i < t->rank; i++) {
        fputs(i > first ? ", " : "", e->out);
        emit_comment_text(e->out, str(e, t->dims[i].name), 200);
        if (!is_usual(s, t->dims[i]))
            fprintf(e->out, "=%lld", (long long)t->dims[i].size);
    }
    fputc(']', e->out);
}

static void comment_sizes(const Emitter *e, const Sizes *s)
{
    for (int k = 0; k < s->n; k++) {
        fputs(k ? ", " : " ", e->out);
        emit_comment_text(e->out, str(e, s->dim[k].name), 200);
        fprintf(e->out, " = %lld", (long long)s->dim[k].size);
    }
    fputs(". */\n", e->out);
}

/* Does the macro's index count the outermost dim? */
static int indexed(const Emitter *e, size_t buffer)
{
    const Buffer *b = &e->p->buffers.data[buffer];
    const Type *t = type_of(e->m, b->value);
    return e->step[buffer] && t->rank && type_bytes(t) == e->step[buffer] * t->dims[0].size;
}

void emit_buffers(Emitter *e)
{
    static const char *const prefix[OWN_count] = {"P_", "G_", "S_", "A_", "C_", "W_", "K_", "X_"};
    find_steps(e);
    fputs(
        "/* Places in the arena: P parameters, S optimizer state, G gradients, A activations, "
        "C communication, W workspace, X inputs and results; (i): of layer or microbatch i. Sizes, "
        "where nothing else is said:",
        e->out);
    Sizes sizes = {0};
    collect_sizes(e, &sizes);
    comment_sizes(e, &sizes);
    for (size_t i = 0; i < e->p->buffers.n; i++) {
        const Buffer *b = &e->p->buffers.data[i];
        e->buffer[i] = cname(&e->names, prefix[b->owner], emit_short_name(e, buffer_name(e, i)));
        fprintf(e->out, "#define %s%s (", e->buffer[i], e->step[i] ? "(i)" : "");
        if (b->level)
            fprintf(e->out, "MG_FAR(%d, %lld)", b->level, (long long)b->offset);
        else
            fprintf(e->out, "base + %lld", (long long)b->offset);
        if (e->step[i]) /* layers and microbatches may be ints, and bytes are more than those count
                         */
            fprintf(e->out, " + (int64_t)(i) * %lld", (long long)e->step[i]);
        fputc(')', e->out);
        if (b->value && b->owner != OWN_params && b->owner != OWN_optimizer) {
            fputs(" /* ", e->out);
            comment_type(e, &sizes, type_of(e->m, b->value), indexed(e, i));
            fputs(" */", e->out);
        }
        fputc('\n', e->out);
    }
    fputc('\n', e->out);
}

/* ---- uses ------------------------------------------------------------------------------------ */

void emit_offset(const Emitter *e, size_t buffer)
{
    fprintf(e->out, "%s%s", e->buffer[buffer], e->step[buffer] ? "(0)" : "");
}

/* The loop that a macro's index counts, or -1. */
static int index_loop(const Emitter *e, const Place *at)
{
    for (int l = 0; l < at->nloops; l++)
        if (at->loop[l].stride && at->loop[l].stride == e->step[at->buffer])
            return l;
    return -1;
}

void emit_place(const Emitter *e, const Program *p, const char *const *loop, const Place *at)
{
    FILE *out = e->out;
    const int64_t step = e->step[at->buffer];
    const int l = index_loop(e, at);
    int64_t rest = at->offset, ahead = 0;
    if (step) {
        ahead = rest / step;
        rest -= ahead * step;
    }
    fputs(e->buffer[at->buffer], out);
    if (l >= 0) {
        fprintf(out, "(%s", loop[at->loop[l].loop]);
        if (ahead)
            fprintf(out, " %c %lld", ahead < 0 ? '-' : '+',
                    (long long)(ahead < 0 ? -ahead : ahead));
        fputc(')', out);
    } else if (step) {
        fprintf(out, "(%lld)", (long long)ahead);
    }
    if (rest)
        fprintf(out, " + %lld", (long long)rest);
    for (int i = 0; i < at->nloops; i++)
        if (i != l && at->loop[i].stride)
            fprintf(out, " + (int64_t)%s * %lld", loop[at->loop[i].loop],
                    (long long)at->loop[i].stride);
    emit_slot(e, p, at->buffer);
}
