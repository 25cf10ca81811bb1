/* emit_calls.c - one action as C: the function that does it, its places, and its waits. */
#include "codegen/emit/writer.h"
#include "ir/optimizers.h"

#include <string.h>

static const char *str(const Emitter *e, Name n)
{
    return name_str(e->m->names, n);
}

/* ---- one action ------------------------------------------------------------------------------ */

static void place(const Writer *w, const Operand *o)
{
    emit_place(w->e, w->p, w->loop, &o->at);
}

/* ", place, place, ..." of operands [from, to). */
static void places(const Writer *w, const Action *a, int from, int to)
{
    for (int i = from; i < to; i++) {
        fputs(", ", w->e->out);
        place(w, &a->operand[i]);
    }
}

static void typed_place(const Writer *w, const Action *a, int i, const char *type)
{
    const Place *at = &a->operand[i].at;
    const bool whole = !at->offset && !at->nloops && /* the macro alone, which has brackets */
                       !emit_has_slot(w->e, w->p, at->buffer);
    fprintf(w->e->out, ", (%s *)%s", type, whole ? "" : "(");
    place(w, &a->operand[i]);
    fputs(whole ? "" : ")", w->e->out);
}

/* "adamw", or "adamw and sgd" of several losses. */
static const char *all_rules(const Emitter *e)
{
    const Train *t = &e->m->train;
    const char *all = t->goal[0].optimizer->name;
    for (int k = 1; k < t->goals; k++)
        all = arena_printf(e->a, "%s and %s", all, t->goal[k].optimizer->name);
    return all;
}

/* The optimizer's kernels have one heading for all parameters, before the guard and behind it. */
static bool heading_of_update(Writer *w, const Action *a, int depth)
{
    const Train *t = &w->e->m->train;
    const char *of_every = t->goals == 1 ? "of every parameter" : "of the parameters of each loss";
    if (!w->guarded && strcmp(str(w->e, a->block), "optimizer") != 0)
        return false;
    const char *block = w->guarded ? "update" : "optimizer";
    if (!strcmp(w->block, block))
        return true;
    fprintf(w->e->out, "%s%*s/* ", w->called ? "\n" : "", depth * 4, "");
    if (w->guarded)
        fprintf(w->e->out, "The optimizer: %s %s. */\n", all_rules(w->e), of_every);
    else
        fputs("The norm of the gradients, and the optimizer's numbers. */\n", w->e->out);
    w->block = block;
    w->line = 0;
    return true;
}

/* Writes the source line that an action comes from, as a heading, unless it was the last line
 * quoted. The block is added if it is another one than before. */
static void quote(Writer *w, const Action *a, int depth)
{
    enum { WIDEST = 110 };
    const Emitter *e = w->e;
    int line, column;
    size_t size;
    const char *part = a->backward ? ", backward" : a->again ? ", again" : "";
    if (heading_of_update(w, a, depth) || !a->span.file)
        return;
    const char *block = arena_printf(e->a, "%s%s", emit_short_name(e, str(e, a->path)), part);
    diag_locate(e->m->diag, a->span, &line, &column);
    const bool same_block = !strcmp(block, w->block);
    if (line == w->line && a->span.file == w->line_file && same_block)
        return;
    w->line = line;
    w->line_file = a->span.file;
    w->block = block;
    const char *text = diag_text(e->m->diag, a->span.file, &size);
    size_t at = a->span.begin < size ? a->span.begin : size, end;
    while (at > 0 && text[at - 1] != '\n')
        at--;
    while (at < size && (text[at] == ' ' || text[at] == '\t'))
        at++;
    for (end = at; end < size && text[end] != '\n'; end++)
        ;
    const char *path = diag_path(e->m->diag, a->span.file), *base = strrchr(path, '/');
    const char *head = arena_printf(e->a, "%s:%d", base ? base + 1 : path, line);
    if (!same_block && *block)
        head = arena_printf(e->a, "%s [%s]", head, *block == ',' ? block + 2 : block);
    size_t room = (size_t)(depth * 4) + strlen(head) + 8;
    room = room + 20 < WIDEST ? WIDEST - room : 20;
    const bool cut = end - at > room;
    fprintf(e->out, "%*s/* ", depth * 4, "");
    emit_comment_text(e->out, head, strlen(head));
    fputs("  ", e->out);
    emit_comment_text(e->out, text + at, cut ? room - 3 : end - at);
    fputs(cut ? "... */\n" : " */\n", e->out);
}

/* The pointers of a kernel, operands from `first` on. */
static void pointers(const Writer *w, const Action *a, int first)
{
    for (int i = first; i < a->noperands; i++) {
        fputs(i > first ? ", " : "", w->e->out);
        place(w, &a->operand[i]);
    }
}

static void call_kernel(const Writer *w, const Action *a)
{
    const Kernel *k = &w->e->p->kernels.data[a->kernel];
    FILE *out = w->e->out;
    fprintf(out, "%s(%u, %s, ", k->level ? "HOST" : "LAUNCH", a->id, str(w->e, k->name));
    if (kernel_on_processor(w->e->p, k))
        fprintf(out, "%lld, %lld, ", (long long)k->units, (long long)k->grain);
    if (k->level)
        fprintf(out, "%d, ", a->noperands);
    pointers(w, a, 0);
    fputs(");\n", out);
}

/* Is it an iteration in which an action adds, and not the one in which it writes? As C. */
static const char *adds(const Writer *w, const Action *a)
{
    const char *text = "";
    for (int n = 0; n < a->nbegins; n++) {
        const char *or = n ? " || " : "", *i = w->loop[a->begins[n]];
        const long long first = (long long)loop_first(&w->p->loops.data[a->begins[n]]);
        text = first ? arena_printf(w->e->a, "%s%s%s < %lld", text, or, i, first)
                     : arena_printf(w->e->a, "%s%s%s > 0", text, or, i);
    }
    return text;
}

/* The descriptor of an action. */
static const char *descriptor(const Writer *w, const Action *a)
{
    const Emitter *e = w->e;
    if (!a->nbegins)
        return e->desc[a->id];
    return arena_printf(e->a, "*(%s ? &%s : &%s)", adds(w, a), e->desc[a->id], e->begins[a->id]);
}

static void call_described(const Writer *w, const Action *a, const char *function)
{
    fprintf(w->e->out, "%s(r, %u, &%s", function, a->id, descriptor(w, a));
}

/* index: the operand that is an int32_t pointer, or -1. `limit`: the number of operands; the last
 * may be missing. */
static void call_with_last(const Writer *w, const Action *a, const char *function, int index,
                           int limit)
{
    call_described(w, a, function);
    for (int i = 0; i < a->noperands; i++) {
        if (i == index)
            typed_place(w, a, i, "const int32_t");
        else
            places(w, a, i, i + 1);
    }
    fputs(a->noperands < limit ? ", NULL);\n" : ");\n", w->e->out);
}

/* Attention with a bias or of some of the keys: behind the n tensors are the bias, how many keys
 * each query sees and the first of them, NULL what there is not. A gradient has work space in the
 * end, or NULL. */
static void call_attention_part(const Writer *w, const Action *a, const char *function, int n)
{
    int values = n;
    while (values < a->noperands && a->operand[values].value)
        values++;
    const int mask = n + a->attention.biased;
    const bool seen = values - a->within > mask;
    call_described(w, a, function);
    places(w, a, 0, mask);
    if (!a->attention.biased)
        fputs(", NULL", w->e->out);
    if (seen)
        typed_place(w, a, mask, "const int32_t");
    else
        fputs(", NULL", w->e->out);
    if (a->within)
        typed_place(w, a, values - 1, "const int32_t");
    else
        fputs(", NULL", w->e->out);
    places(w, a, values, a->noperands);
    fputs(a->kind != ACT_attention && values == a->noperands ? ", NULL);\n" : ");\n", w->e->out);
}

static void call_gemm(const Writer *w, const Action *a)
{
    FILE *out = w->e->out;
    const int extra = (a->gemm.epilogue & (MG_BIAS | MG_SUM | MG_SCALES)) != 0;
    const int aux = (a->gemm.epilogue & (MG_AUX | MG_GELU_GRAD | MG_SCALES)) != 0;
    if (!extra && !aux && !a->epilogue) {
        fprintf(out, "PRODUCT(%u, %s", a->id, descriptor(w, a));
        places(w, a, 0, 3);
        fputs(");\n", out);
        return;
    }
    call_described(w, a, a->epilogue ? "mg_gemm_epilogue" : action_info[a->kind].function);
    places(w, a, 0, 3 + extra);
    fputs(extra ? "" : ", NULL", out);
    places(w, a, 3 + extra, 3 + extra + aux);
    fputs(aux ? "" : ", NULL", out);
    if (!a->epilogue) {
        fputs(");\n", out);
        return;
    }
    fprintf(out, ", %s, (void *[]){", str(w->e, w->e->p->kernels.data[a->kernel].name));
    pointers(w, a, a->epilogue);
    fputs("});\n", out);
}

static void call_library(const Writer *w, const Action *a, int index)
{
    call_with_last(w, a, action_info[a->kind].function, index, a->noperands);
}

static void call_head(const Writer *w, const Action *a)
{
    if (!a->head.frozen) {
        call_library(w, a, 2);
        return;
    }
    call_described(w, a, action_info[a->kind].function);
    places(w, a, 0, 2);
    typed_place(w, a, 2, "const int32_t");
    places(w, a, 3, 6);
    fputs(", NULL", w->e->out);
    places(w, a, 6, 7);
    fputs(");\n", w->e->out);
}

static void call_head_loss(const Writer *w, const Action *a)
{
    call_described(w, a, action_info[a->kind].function);
    places(w, a, 0, 2);
    typed_place(w, a, 2, "const int32_t");
    fputs(", NULL", w->e->out);
    places(w, a, 3, 4);
    fputs(", NULL, NULL", w->e->out);
    places(w, a, 4, 5);
    fputs(");\n", w->e->out);
}

/* The operands from `choice` on are choices and slots, then, unless it is missing, a weight. */
static void call_experts(const Writer *w, const Action *a, int choice)
{
    int last = a->noperands - 1, next = choice + 2;
    call_described(w, a, action_info[a->kind].function);
    places(w, a, 0, choice);
    typed_place(w, a, choice, "const int32_t");
    typed_place(w, a, choice + 1, "const int32_t");
    if (a->kind != ACT_combine_weight && next == last)
        fputs(", NULL", w->e->out);
    places(w, a, next, last + 1);
    fputs(");\n", w->e->out);
}

static void call_indices(const Writer *w, const Action *a, bool of_indices)
{
    call_described(w, a, action_info[a->kind].function);
    if (of_indices)
        typed_place(w, a, 0, "const int32_t");
    else
        places(w, a, 0, 1);
    typed_place(w, a, 1, "int32_t");
    fputs(");\n", w->e->out);
}

static void call_random(const Writer *w, const Action *a)
{
    call_described(w, a, action_info[a->kind].function);
    typed_place(w, a, 0, "const int64_t");
    typed_place(w, a, 1, "const int64_t");
    typed_place(w, a, 2, "const int32_t");
    places(w, a, 3, 4);
    fputs(");\n", w->e->out);
}

static void call_memory(const Writer *w, const Action *a)
{
    bool written_first = a->kind == ACT_receive; /* copy, send: from, to */
    fprintf(w->e->out, "%s(r, %u", action_info[a->kind].function, a->id);
    if (a->kind == ACT_zero || written_first)
        places(w, a, 0, 1);
    if (a->kind != ACT_zero)
        places(w, a, 1, 2);
    if (a->kind != ACT_zero && !written_first)
        places(w, a, 0, 1);
    fprintf(w->e->out, ", %lld);\n", (long long)a->bytes);
}

/* ---- streams: nothing of it where all is in one ------------------------------------------------
 */

void emit_waits(const Writer *w, const Action *a, int depth)
{
    if (a->stream)
        fprintf(w->e->out, "%*smg_stream(r, %d);\n", depth * 4, "", a->stream);
    for (int s = 0; s < MAX_STREAMS; s++)
        if (a->wait[s])
            fprintf(w->e->out, "%*smg_wait(r, %d);\n", depth * 4, "", w->point[a->wait[s] - 1] - 1);
}

void emit_point(const Writer *w, const Action *a, int depth)
{
    int point = w->point[a - w->p->actions.data];
    if (point)
        fprintf(w->e->out, "%*smg_record(r, %d);\n", depth * 4, "", point - 1);
}

static void emit_record(const Writer *w, const Action *a, int depth)
{
    emit_point(w, a, depth);
    if (a->stream)
        fprintf(w->e->out, "%*smg_stream(r, 0);\n", depth * 4, "");
    if (w->beside[a - w->p->actions.data])
        fprintf(w->e->out, "%*smg_progress(r);\n", depth * 4, "");
}

/* ---- one action --------------------------------------------------------------------------------
 */

/* Writes "if (...)" if not all ranks run the action. Returns the depth of the text after it. */
static int emit_if(const Writer *w, const Action *a, int depth)
{
    const char *condition = emit_condition(w->e, w->p, a);
    if (condition)
        fprintf(w->e->out, "%*sif (%s)\n", depth * 4, "", condition);
    return depth + (condition != NULL);
}

/* A rank that skips the action still waits and records: later actions depend on the event. */
void emit_call(Writer *w, const Action *a, int depth)
{
    FILE *out = w->e->out;
    const char *function = action_info[a->kind].function;
    quote(w, a, depth);
    emit_waits(w, a, depth);
    fprintf(out, "%*s", emit_if(w, a, depth) * 4, "");
    switch (a->kind) {
    case ACT_kernel:
        call_kernel(w, a);
        break;
    case ACT_gemm:
        call_gemm(w, a);
        break;
    case ACT_conv:
        call_with_last(w, a, function, -1, 4);
        break;
    case ACT_attention:
        if (a->noperands > 5)
            call_attention_part(w, a, "mg_attention_part", 5);
        else
            call_library(w, a, -1);
        break;
    case ACT_attention_grad:
        if (a->noperands > 9 && a->operand[9].value) /* no work space: which keys are seen */
            call_attention_part(w, a, "mg_attention_part_grad", 9);
        else
            call_with_last(w, a, function, -1, 10);
        break;
    case ACT_attention_bias_grad:
        call_attention_part(w, a, function, 7);
        break;
    case ACT_xent:
        call_library(w, a, 1);
        break;
    case ACT_xent_grad:
        call_library(w, a, 1);
        break;
    case ACT_head:
        call_head(w, a);
        break;
    case ACT_head_loss:
        call_head_loss(w, a);
        break;
    case ACT_gather:
    case ACT_put:
        call_library(w, a, 1);
        break;
    case ACT_scatter_add:
        call_with_last(w, a, function, 1, 4);
        break;
    case ACT_top:
        call_indices(w, a, false);
        break;
    case ACT_slots:
    case ACT_ends:
        call_indices(w, a, true);
        break;
    case ACT_grouped:
    case ACT_grouped_weight:
        call_library(w, a, 2);
        break;
    case ACT_dispatch:
        call_experts(w, a, 1);
        break;
    case ACT_combine:
        call_experts(w, a, 1);
        break;
    case ACT_combine_weight:
        call_experts(w, a, 2);
        break;
    case ACT_tile_scale:
    case ACT_round_tiles:
        call_library(w, a, -1);
        break;
    case ACT_random:
        call_random(w, a);
        break;
    case ACT_comm:
        call_with_last(w, a, function, -1, 3);
        break;
    case ACT_copy:
    case ACT_fetch:
    case ACT_offload:
    case ACT_zero:
    case ACT_receive:
    case ACT_send:
        call_memory(w, a);
        break;
    case ACT_guard:
        fprintf(out, "if (!%s(r, %u", function, a->id);
        typed_place(w, a, 0, "const double");
        if (a->noperands > 1)
            typed_place(w, a, 1, "const double");
        else
            fputs(", NULL", out);
        fputs("))\n", out);
        fprintf(out, "%*sreturn;\n", depth * 4 + 4, "");
        break;
    case ACT_loop:
    case ACT_end:
    case ACT_phase:
    case ACT_count:
        break; /* emit_body writes the loops */
    }
    emit_record(w, a, depth);
    w->called = true;
}
