/* emit_c.c - the emitted program: one C file that calls kernels on places of one arena.
 *
 * Each program (step, eval, sample) is written as a function with the loops of the plan;
 * neighbouring actions that come from one block of the source become a function of their own, named
 * after it. Nothing is decided here: order, places and kernels are the plan's. */
#include "codegen/cuda.h"
#include "codegen/emit.h"

#include <stdlib.h>
#include <string.h>

/* One program being written: its functions are collected first, its body then calls them. */
typedef struct Writer {
    Emitter *e;
    const Program *p;
    const char *entry; /* "step", "eval", "sample" */
    const char **loop; /* per loop: its C variable */
    int line;          /* last source line quoted */
    uint32_t line_file;
    bool guarded;          /* past the guard */
    const char **function; /* per action: the function that starts with it, or NULL */
    size_t *length;        /* how many actions that is */
    int *point;            /* per action: 1 + its point that others wait for, or 0 */
    bool *beside;          /* per action: a collective may run beside it, and has to be seen to */
} Writer;

static const char *str(const Emitter *e, Name n)
{
    return name_str(e->m->names, n);
}

/* ---- one action ------------------------------------------------------------------------------ */

static void place(const Writer *w, const Operand *o)
{
    FILE *out = w->e->out;
    fprintf(out, "a + %s", w->e->buffer[o->at.buffer]);
    if (o->at.offset)
        fprintf(out, " + %lld", (long long)o->at.offset);
    for (int i = 0; i < o->at.nloops; i++)
        if (o->at.loop[i].stride)
            fprintf(out, " + %s * %lld", w->loop[o->at.loop[i].loop],
                    (long long)o->at.loop[i].stride);
}

/* ", place, place, ..." of operands [from, to). cast: their pointer type, or NULL for void. */
static void places(const Writer *w, const Action *a, int from, int to)
{
    for (int i = from; i < to; i++) {
        fputs(", ", w->e->out);
        place(w, &a->operand[i]);
    }
}

static void typed_place(const Writer *w, const Action *a, int i, const char *type)
{
    fprintf(w->e->out, ", (%s *)(", type);
    place(w, &a->operand[i]);
    fputc(')', w->e->out);
}

/* The source line an action comes from, as a comment, unless it is the one quoted last. */
static void quote(Writer *w, const Action *a, int depth)
{
    enum { WIDEST = 90 };
    const Emitter *e = w->e;
    int line, column;
    size_t size;
    if (!a->span.file)
        return;
    diag_locate(e->m->diag, a->span, &line, &column);
    if (line == w->line && a->span.file == w->line_file)
        return;
    w->line = line;
    w->line_file = a->span.file;
    const char *text = diag_text(e->m->diag, a->span.file, &size);
    size_t at = a->span.begin < size ? a->span.begin : size, end;
    while (at > 0 && text[at - 1] != '\n')
        at--;
    while (at < size && (text[at] == ' ' || text[at] == '\t'))
        at++;
    for (end = at; end < size && text[end] != '\n' && end - at < WIDEST; end++)
        ;
    fprintf(e->out, "%*s/* %d: ", depth * 4, "", line);
    emit_comment_text(e->out, text + at, end - at);
    fputs(" */\n", e->out);
}

/* The pointers of a kernel, as many a line as fit. */
static void call_kernel(const Writer *w, const Action *a, int depth)
{
    enum { WIDTH = 100 };
    const Kernel *k = &w->e->p->kernels.data[a->kernel];
    FILE *out = w->e->out;
    int indent = depth * 4 + 10, column = indent + 10;
    if (w->e->cuda)
        fprintf(out, "mg_cuda_launch(r, %u, K_%s,\n%*s(void *[]){", a->id, str(w->e, k->name),
                indent, "");
    else
        fprintf(out, "mg_launch(r, %u, %s, %lld, %lld,\n%*s(void *[]){", a->id, str(w->e, k->name),
                (long long)k->units, (long long)k->grain, indent, "");
    for (int i = 0; i < a->noperands; i++) {
        char *text;
        size_t n;
        Writer quiet = *w;
        Emitter e = *w->e;
        quiet.e = &e;
        e.out = open_memstream(&text, &n);
        place(&quiet, &a->operand[i]);
        fclose(e.out);
        if (i && column + (int)n + 2 > WIDTH) {
            fprintf(out, ",\n%*s", indent + 10, "");
            column = indent + 10;
        } else if (i) {
            fputs(", ", out);
            column += 2;
        }
        fputs(text, out);
        column += (int)n;
        free(text);
    }
    fputs("});\n", out);
}

static void call_described(const Writer *w, const Action *a, const char *function)
{
    fprintf(w->e->out, "%s(r, %u, &%s", function, a->id, w->e->desc[a->id]);
}

/* index: which operand is an int32_t pointer, or -1. Of `most` operands the last may be missing. */
static void call_with_last(const Writer *w, const Action *a, const char *function, int index,
                           int most)
{
    call_described(w, a, function);
    for (int i = 0; i < a->noperands; i++) {
        if (i == index)
            typed_place(w, a, i, "const int32_t");
        else
            places(w, a, i, i + 1);
    }
    fputs(a->noperands < most ? ", NULL);\n" : ");\n", w->e->out);
}

static void call_library(const Writer *w, const Action *a, const char *function, int index)
{
    call_with_last(w, a, function, index, a->noperands);
}

static void call_head_loss(const Writer *w, const Action *a)
{
    call_described(w, a, "mg_head");
    places(w, a, 0, 2);
    typed_place(w, a, 2, "const int32_t");
    fputs(", NULL", w->e->out);
    places(w, a, 3, 4);
    fputs(", NULL, NULL", w->e->out);
    places(w, a, 4, 5);
    fputs(");\n", w->e->out);
}

/* The operands from `choice` on are choices and slots, then, unless it is missing, a weight. */
static void call_experts(const Writer *w, const Action *a, const char *function, int choice)
{
    int last = a->noperands - 1, next = choice + 2;
    call_described(w, a, function);
    places(w, a, 0, choice);
    typed_place(w, a, choice, "const int32_t");
    typed_place(w, a, choice + 1, "const int32_t");
    if (a->kind != ACT_combine_weight && next == last)
        fputs(", NULL", w->e->out);
    places(w, a, next, last + 1);
    fputs(");\n", w->e->out);
}

static void call_indices(const Writer *w, const Action *a, const char *function, bool of_indices)
{
    call_described(w, a, function);
    if (of_indices)
        typed_place(w, a, 0, "const int32_t");
    else
        places(w, a, 0, 1);
    typed_place(w, a, 1, "int32_t");
    fputs(");\n", w->e->out);
}

static void call_random(const Writer *w, const Action *a)
{
    call_described(w, a, "mg_random");
    typed_place(w, a, 0, "const int64_t");
    typed_place(w, a, 1, "const int64_t");
    typed_place(w, a, 2, "const int32_t");
    places(w, a, 3, 4);
    fputs(");\n", w->e->out);
}

static void call_memory(const Writer *w, const Action *a)
{
    fprintf(w->e->out, "%s(r, %u", a->kind == ACT_copy ? "mg_copy" : "mg_zero", a->id);
    if (a->kind == ACT_copy) { /* operands: from, to */
        places(w, a, 1, 2);
        places(w, a, 0, 1);
    } else {
        places(w, a, 0, 1);
    }
    fprintf(w->e->out, ", %lld);\n", (long long)a->bytes);
}

/* ---- streams: nothing of it where all is in one ------------------------------------------------
 */

static void emit_waits(const Writer *w, const Action *a, int depth)
{
    if (a->stream)
        fprintf(w->e->out, "%*smg_stream(r, %d);\n", depth * 4, "", a->stream);
    for (int s = 0; s < MAX_STREAMS; s++)
        if (a->wait[s])
            fprintf(w->e->out, "%*smg_wait(r, %d);\n", depth * 4, "", w->point[a->wait[s] - 1] - 1);
}

static void emit_record(const Writer *w, const Action *a, int depth)
{
    int point = w->point[a - w->p->actions.data];
    if (point)
        fprintf(w->e->out, "%*smg_record(r, %d);\n", depth * 4, "", point - 1);
    if (a->stream)
        fprintf(w->e->out, "%*smg_stream(r, 0);\n", depth * 4, "");
    if (w->beside[a - w->p->actions.data])
        fprintf(w->e->out, "%*smg_progress(r);\n", depth * 4, "");
}

/* ---- one action --------------------------------------------------------------------------------
 */

static void emit_call(Writer *w, const Action *a, int depth)
{
    FILE *out = w->e->out;
    quote(w, a, depth);
    emit_waits(w, a, depth);
    fprintf(out, "%*s", depth * 4, "");
    switch (a->kind) {
    case ACT_kernel:
        call_kernel(w, a, depth);
        break;
    case ACT_gemm:
        call_with_last(w, a, "mg_gemm", -1, 4);
        break;
    case ACT_attention:
        call_library(w, a, a->noperands > 5 ? "mg_attention_part" : "mg_attention", 5);
        break;
    case ACT_attention_grad:
        a->noperands > 9 && a->operand[9].value /* no work space: how many keys are seen */
            ? call_with_last(w, a, "mg_attention_part_grad", 9, 11)
            : call_with_last(w, a, "mg_attention_grad", -1, 10);
        break;
    case ACT_xent:
        call_library(w, a, "mg_xent", 1);
        break;
    case ACT_xent_grad:
        call_library(w, a, "mg_xent_grad", 1);
        break;
    case ACT_head:
        call_library(w, a, "mg_head", 2);
        break;
    case ACT_head_loss:
        call_head_loss(w, a);
        break;
    case ACT_gather:
        call_library(w, a, "mg_gather", 1);
        break;
    case ACT_scatter_add:
        call_library(w, a, "mg_scatter_add", 1);
        break;
    case ACT_top:
        call_indices(w, a, "mg_top", false);
        break;
    case ACT_slots:
        call_indices(w, a, "mg_slots", true);
        break;
    case ACT_dispatch:
        call_experts(w, a, "mg_dispatch", 1);
        break;
    case ACT_combine:
        call_experts(w, a, "mg_combine", 1);
        break;
    case ACT_combine_weight:
        call_experts(w, a, "mg_combine_weight", 2);
        break;
    case ACT_random:
        call_random(w, a);
        break;
    case ACT_comm:
        call_with_last(w, a, "mg_comm", -1, 3);
        break;
    case ACT_copy:
    case ACT_zero:
        call_memory(w, a);
        break;
    case ACT_guard:
        fprintf(out, "if (!mg_guard(r, %u", a->id);
        typed_place(w, a, 0, "const double");
        typed_place(w, a, 1, "const double");
        fputs("))\n", out);
        fprintf(out, "%*sreturn;\n", depth * 4 + 4, "");
        break;
    case ACT_loop:
    case ACT_end:
    case ACT_count:
        break; /* emit_body writes the loops */
    }
    emit_record(w, a, depth);
}

/* ---- functions for blocks -------------------------------------------------------------------- */

static bool starts_group(const Action *a)
{
    return a->kind != ACT_loop && a->kind != ACT_end && a->kind != ACT_guard;
}

/* What follows the guard is the update, one function whatever parameter it is for. */
static bool same_group(const Writer *w, const Action *a, const Action *b)
{
    return starts_group(b) && a->around == b->around &&
           (w->guarded || (a->path == b->path && a->backward == b->backward));
}

static const char *group_name(Writer *w, const Action *a)
{
    const char *path = w->guarded ? "" : str(w->e, a->path);
    const char *what = w->guarded       ? "update"
                       : *path          ? (a->backward ? "backward" : "forward")
                       : a->around >= 0 ? str(w->e, w->p->loops.data[a->around].dim.name)
                       : a->backward    ? "gradients"
                                        : "main";
    return cname(&w->e->names, "",
                 arena_printf(w->e->a, "%s_%s%s%s", w->entry, path, *path ? "_" : "", what));
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
    while (n-- > 0)
        if (uses_loop(w, at, w->length[at], (uint32_t)chain[n]))
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
        emit_call(w, &w->p->actions.data[i], 1);
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
            w->guarded = true;
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

static void emit_body(Writer *w)
{
    FILE *out = w->e->out;
    int depth = 1;
    w->line = 0;
    for (size_t i = 0; i < w->p->actions.n;) {
        const Action *a = &w->p->actions.data[i];
        if (a->kind == ACT_loop) {
            emit_waits(w, a, depth);
            emit_loop(w, a->loop, depth++);
            i++;
        } else if (a->kind == ACT_end) {
            emit_waits(w, a, depth);
            fprintf(out, "%*s}\n", --depth * 4, "");
            if (death_at(w->e->p, w->p, i))
                fprintf(out, "%*smg_ended(r, %u);\n", depth * 4, "", death_event(w->e->p, w->p, i));
            i++;
        } else if (w->function[i]) {
            fprintf(out, "%*s%s(r, a", depth * 4, "", w->function[i]);
            group_loops(w, i, ", ", "");
            fputs(");\n", out);
            i += w->length[i];
        } else {
            emit_call(w, a, depth);
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
    w.point = stream_points(p, e->a);
    w.beside = stream_beside(e, p);
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
                                        "tensors", "actions", "main"};
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
    emit_actions(&e);
    emit_deaths(&e);
    emit_entry_function(&e, p->train, "step", "A training step");
    emit_entry_function(&e, p->eval, "eval", "The loss of held-out sequences");
    emit_entry_function(&e, p->sample, "sample", "The next token");
    emit_program(&e);
    arena_free(a);
}
