/* emit_c.c - the emitted program: one C file that calls kernels on places of one arena.
 *
 * Each program (step, eval, sample) is written as a function with the loops of the plan;
 * neighbouring actions that come from one block of the source become a function of their own, named
 * after it. Nothing is decided here: order, places and kernels are the plan's. */
#include "codegen/cuda/cuda.h"
#include "codegen/emit/writer.h"
#include "codegen/emit/emit_c.h"

#include <stdlib.h>
#include <string.h>

static const char *str(const Emitter *e, Name n)
{
    return name_str(e->m->names, n);
}

/* ---- functions for blocks -------------------------------------------------------------------- */

static bool starts_group(const Action *a)
{
    return !action_is_mark(a) && a->kind != ACT_guard;
}

/* What follows the guard is the update, one function whatever parameter it is for. */
static bool same_group(const Writer *w, const Action *a, const Action *b)
{
    return starts_group(b) && a->around == b->around && a->on == b->on &&
           (a->on == AT_ALL || !w->streams) &&
           (w->guarded || (a->path == b->path && a->backward == b->backward));
}

static const char *group_name(Writer *w, const Action *a)
{
    const char *path = w->guarded ? "" : str(w->e, a->path);
    const bool updates = w->guarded || !strcmp(str(w->e, a->block), "optimizer");
    const char *what = updates          ? "update"
                       : *path          ? (a->backward ? "backward" : "forward")
                       : a->around >= 0 ? str(w->e, w->p->loops.data[a->around].dim.name)
                       : a->backward    ? "gradients"
                                        : "main";
    return cname(&w->e->names, "",
                 arena_printf(w->e->a, "%s_%s%s%s", w->entry, path, *path ? "_" : "", what));
}

/* Do places of these actions depend on which stage or microbatch it is? */
static bool uses_operation(const Writer *w, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++) {
        const Action *a = &w->p->actions.data[i];
        for (int k = 0; k < a->noperands; k++) {
            const Place *at = &a->operand[k].at;
            if (emit_has_slot(w->e, w->p, at->buffer))
                return true;
            for (int j = 0; j < at->nloops; j++)
                if (w->p->pipe && (int)at->loop[j].loop == w->p->pipe->loop && at->loop[j].stride)
                    return true;
        }
    }
    return false;
}

static bool uses_loop(const Writer *w, size_t from, size_t n, uint32_t loop)
{
    for (size_t i = from; i < from + n; i++) {
        const Action *a = &w->p->actions.data[i];
        for (int k = 0; k < a->noperands; k++)
            for (int j = 0; j < a->operand[k].at.nloops; j++)
                if (a->operand[k].at.loop[j].loop == loop && a->operand[k].at.loop[j].stride)
                    return true;
    }
    return false;
}

/* Calls fn for each loop around an action that its group's places depend on, outermost first. */
static void group_loops(const Writer *w, size_t at, const char *before, const char *type)
{
    int chain[MAX_NEST + 1], n = 0;
    for (int l = w->p->actions.data[at].around; l >= 0 && n <= MAX_NEST;
         l = w->p->loops.data[l].parent)
        chain[n++] = l;
    if (w->p->pipe && uses_operation(w, at, w->length[at]))
        fprintf(w->e->out, "%s%so", before, *type ? "const mg_pipe_op *" : "");
    while (n-- > 0)
        if ((!w->p->pipe || chain[n] != w->p->pipe->loop) &&
            uses_loop(w, at, w->length[at], (uint32_t)chain[n]))
            fprintf(w->e->out, "%s%s%s", before, type, w->loop[chain[n]]);
}

static void emit_group(Writer *w, size_t at)
{
    FILE *out = w->e->out;
    w->line = 0;
    fprintf(out, "static void %s(mg_run *r, char *a", w->function[at]);
    group_loops(w, at, ", ", "int64_t ");
    fputs(")\n{\n", out);
    for (size_t i = at; i < at + w->length[at]; i++)
        emit_call(w, &w->p->actions.data[i], 1, false);
    fputs("}\n\n", out);
}

static void find_groups(Writer *w)
{
    size_t n = w->p->actions.n;
    const Action *act = w->p->actions.data;
    w->function = NEW_ARRAY(w->e->a, const char *, n + 1);
    w->length = NEW_ARRAY(w->e->a, size_t, n + 1);
    for (size_t i = 0; i < n;) {
        if (act[i].kind == ACT_guard)
            w->guarded = act[i].noperands > 1; /* behind one of the loss there is more */
        if (!starts_group(&act[i])) {
            i++;
            continue;
        }
        size_t end = i + 1;
        while (end < n && same_group(w, &act[i], &act[end]))
            end++;
        if (end - i > 1) {
            w->function[i] = group_name(w, &act[i]);
            w->length[i] = end - i;
            emit_group(w, i);
        }
        i = end;
    }
}

/* ---- programs -------------------------------------------------------------------------------- */

static void emit_loop(const Writer *w, uint32_t index, int depth)
{
    const Loop *l = &w->p->loops.data[index];
    const char *i = w->loop[index];
    long long n = (long long)l->dim.size;
    fprintf(w->e->out, "%*sfor (int64_t %s = ", depth * 4, "", i);
    if (l->reverse)
        fprintf(w->e->out, "%lld; %s >= 0; %s--) {\n", n - 1, i, i);
    else
        fprintf(w->e->out, "0; %s < %lld; %s++) {\n", i, n, i);
}

/* The loop over a pipeline's microbatches is a walk through its table. */
static int emit_loop_begin(const Writer *w, const Action *a, int depth)
{
    const Loop *l = &w->p->loops.data[a->loop];
    const Name layers = w->e->m->layout.pipeline.dim;
    emit_waits(w, a, depth);
    if (w->p->pipe && (int)a->loop == w->p->pipe->loop) {
        emit_pipe_begin(w->e, w->entry, depth);
        return depth + 2;
    }
    if (emit_in_pipe(w->p, l->parent) && l->dim.name == layers)
        emit_stage_loop(w->e, w->p, l, w->loop[a->loop], depth);
    else
        emit_loop(w, a->loop, depth);
    return depth + 1;
}

static int emit_loop_end(const Writer *w, const Action *a, int depth)
{
    emit_waits(w, a, depth);
    if (w->p->pipe && (int)a->loop == w->p->pipe->loop) {
        emit_pipe_end(w->e, w->entry, depth - 2);
        return depth - 2;
    }
    fprintf(w->e->out, "%*s}\n", (depth - 1) * 4, "");
    return depth - 1;
}

static void emit_body(Writer *w)
{
    FILE *out = w->e->out;
    int depth = 1;
    w->line = 0;
    for (size_t i = 0; i < w->p->actions.n;) {
        const Action *a = &w->p->actions.data[i];
        if (a->kind == ACT_loop) {
            depth = emit_loop_begin(w, a, depth);
            i++;
        } else if (a->kind == ACT_phase) {
            emit_pipe_phase(w->e, w->p, a, depth);
            i++;
        } else if (a->kind == ACT_end) {
            depth = emit_loop_end(w, a, depth);
            if (death_at(w->e->p, w->p, i))
                fprintf(out, "%*smg_ended(r, %u);\n", depth * 4, "", death_event(w->e->p, w->p, i));
            i++;
        } else if (w->function[i]) {
            fprintf(out, "%*s%s(r, a", emit_if(w, a, depth) * 4, "", w->function[i]);
            group_loops(w, i, ", ", "");
            fputs(");\n", out);
            i += w->length[i];
        } else {
            emit_call(w, a, depth, true);
            i++;
        }
    }
}

static void emit_entry_function(Emitter *e, const Program *p, const char *entry, const char *what)
{
    if (!p) {
        fprintf(e->out,
                "/* This model has no %s. */\nvoid mg_%s(mg_run *r)\n{\n    (void)r;\n}\n\n", what,
                entry);
        return;
    }
    Writer w = {.e = e, .p = p, .entry = entry};
    w.loop = NEW_ARRAY(e->a, const char *, p->loops.n + 1);
    for (size_t i = 0; i < p->actions.n; i++) {
        const Action *a = &p->actions.data[i];
        if (a->kind == ACT_loop)
            w.loop[a->loop] = cname(&e->names, "i_", str(e, p->loops.data[a->loop].dim.name));
    }
    if (p->pipe)
        w.loop[p->pipe->loop] = "o->microbatch";
    emit_pipe(e, p, entry);
    w.point = stream_points(p, e->a);
    w.beside = stream_beside(e, p);
    for (size_t i = 0; i < p->actions.n; i++)
        w.streams |= w.point[i] != 0;
    find_groups(&w);
    fprintf(e->out,
            "/* %s: predicted %.3g ms, %.4g GFLOP. */\nvoid mg_%s(mg_run *r)\n{\n"
            "    char *a = mg_arena(r);\n\n",
            what, p->seconds * 1e3, p->flops * 1e-9, entry);
    emit_body(&w);
    if (!p->actions.n)
        fputs("    (void)a;\n", e->out);
    fputs("}\n\n", e->out);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void emit_heading(const Emitter *e)
{
    static const char *const owners[OWN_count] = {"parameters",        "gradients",     "optimizer",
                                                  "activations",       "communication", "workspace",
                                                  "inputs and results"};
    FILE *out = e->out;
    fputs("/* ", out);
    emit_comment_text(out, str(e, e->m->name), 200);
    fputs(": compiled by mgc " MGC_VERSION " from ", out);
    emit_comment_text(out, e->m->source, 400);
    fputs(", layout ", out);
    emit_comment_text(out, str(e, e->m->layout.name), 200);
    fprintf(out, ".\n *\n * Everything lives in one arena of %lld bytes; at the peak:\n",
            (long long)e->p->arena_bytes);
    for (int i = 0; i < OWN_count; i++)
        if (e->p->memory[i])
            fprintf(out, " *   %-20s %15lld\n", owners[i], (long long)e->p->memory[i]);
    fputs(" */\n#include \"abi.h\"\n\n", out);
}

/* How each is launched, and its number. */
static void emit_cuda_kernels(const Emitter *e)
{
    const Plan *p = e->p;
    fputs("/* Generated kernels, in kernels.cu: grid, threads of a block, pointers it takes. */\n"
          "static const mg_cuda_kernel cuda_kernels[] = {\n",
          e->out);
    for (size_t i = 0; i < p->kernels.n; i++) {
        const Kernel *k = &p->kernels.data[i];
        CudaLaunch l = cuda_launch(p, k);
        int operand[MAX_OPERANDS], n = cuda_pointers(k, operand);
        fprintf(e->out, "    {\"%s\", %lld, %lld, %d, %d, (const uint8_t[]){", str(e, k->name),
                (long long)l.grid_x, (long long)l.grid_y, l.block, n);
        for (int j = 0; j < n; j++)
            fprintf(e->out, "%s%d", j ? ", " : "", operand[j]);
        fputs("}},\n", e->out);
    }
    fputs("};\nenum {\n", e->out);
    for (size_t i = 0; i < p->kernels.n; i++)
        fprintf(e->out, "    K_%s,\n", str(e, p->kernels.data[i].name));
    fputs("};\nextern const unsigned char mg_cuda_image[];\n\n", e->out);
}

/* Only what is called: a kernel two plans share is declared once. */
static void emit_kernels(const Emitter *e)
{
    const Plan *p = e->p;
    if (e->cuda) {
        emit_cuda_kernels(e);
        return;
    }
    fputs("/* Generated kernels. */\n", e->out);
    for (size_t i = 0; i < p->kernels.n; i++)
        fprintf(e->out, "extern mg_kernel %s;\n", str(e, p->kernels.data[i].name));
    fputs("\n", e->out);
}

static void comment_type(const Emitter *e, const Type *t)
{
    fprintf(e->out, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) {
        fputs(i ? ", " : "", e->out);
        emit_comment_text(e->out, str(e, t->dims[i].name), 200);
        fprintf(e->out, "=%lld", (long long)t->dims[i].size);
    }
    fputc(']', e->out);
}

static void emit_buffers(Emitter *e)
{
    static const char *const prefix[OWN_count] = {"P_", "G_", "S_", "A_", "C_", "W_", "X_"};
    fputs("/* Places in the arena, in bytes. P: parameters, S: optimizer state, G: gradients,\n"
          " * A: activations, W: workspace, X: inputs and results. */\n",
          e->out);
    for (size_t i = 0; i < e->p->buffers.n; i++) {
        const Buffer *b = &e->p->buffers.data[i];
        e->buffer[i] = cname(&e->names, prefix[b->owner], str(e, b->name));
        fprintf(e->out, "#define %s %lld", e->buffer[i], (long long)b->offset);
        if (b->value) {
            fputs(" /* ", e->out);
            comment_type(e, type_of(e->m, b->value));
            fputs(" */", e->out);
        }
        fputc('\n', e->out);
    }
    fputc('\n', e->out);
}

void codegen_emit_c(const Plan *p, const char *features, FILE *out)
{
    Arena *a = arena_new();
    Emitter e = {.p = p, .m = p->module, .a = a, .out = out, .features = features};
    e.cuda = p->device->target == TARGET_cuda;
    static const char *const taken[] = {"mg_main", "mg_step", "mg_eval", "mg_sample",
                                        "tensors", "actions", "main",    "stage_layers"};
    e.names = cnames_new(a);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        cname(&e.names, "", taken[i]);
    for (size_t i = 0; i < p->kernels.n; i++)
        name_intern(e.names.used, str(&e, p->kernels.data[i].name));
    e.buffer = NEW_ARRAY(a, const char *, p->buffers.n + 1);
    e.desc = NEW_ARRAY(a, const char *, p->nactions + 1);
    emit_heading(&e);
    emit_kernels(&e);
    emit_buffers(&e);
    emit_descriptors(&e);
    emit_tensors(&e);
    emit_stages(&e);
    emit_actions(&e);
    emit_deaths(&e);
    emit_entry_function(&e, p->train, "step", "A training step");
    emit_entry_function(&e, p->eval, "eval", "The loss of held-out sequences");
    emit_entry_function(&e, p->sample, "sample", "The next token");
    emit_program(&e);
    arena_free(a);
}
