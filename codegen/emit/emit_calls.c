/* emit_calls.c - one action as C: the function that does it, its places, what it waits for. */
#include <stdlib.h>

#include "codegen/cuda/cuda.h"
#include "codegen/emit/writer.h"

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
    emit_slot(w->e, w->p, o->at.buffer);
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

/* The pointers of a kernel, operands from `first` on, as many a line as fit. */
static void pointers(const Writer *w, const Action *a, int first, int indent)
{
    enum { WIDTH = 100 };
    FILE *out = w->e->out;
    int column = indent + 10;
    fprintf(out, "\n%*s(void *[]){", indent, "");
    for (int i = first; i < a->noperands; i++) {
        char *text;
        size_t n;
        Writer quiet = *w;
        Emitter e = *w->e;
        quiet.e = &e;
        e.out = open_memstream(&text, &n);
        place(&quiet, &a->operand[i]);
        fclose(e.out);
        if (i > first && column + (int)n + 2 > WIDTH) {
            fprintf(out, ",\n%*s", indent + 10, "");
            column = indent + 10;
        } else if (i > first) {
            fputs(", ", out);
            column += 2;
        }
        fputs(text, out);
        column += (int)n;
        free(text);
    }
    fputs("});\n", out);
}

static void call_kernel(const Writer *w, const Action *a, int depth)
{
    const Kernel *k = &w->e->p->kernels.data[a->kernel];
    FILE *out = w->e->out;
    if (w->e->cuda)
        fprintf(out, "mg_cuda_launch(r, %u, K_%s,", a->id, str(w->e, k->name));
    else
        fprintf(out, "%s(r, %u, %s, %lld, %lld,", action_info[a->kind].function, a->id,
                str(w->e, k->name), (long long)k->units, (long long)k->grain);
    pointers(w, a, 0, depth * 4 + 10);
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

static void call_gemm(const Writer *w, const Action *a, int depth)
{
    FILE *out = w->e->out;
    const int extra = (a->gemm.epilogue & (MG_BIAS | MG_SUM)) != 0;
    const int aux = (a->gemm.epilogue & (MG_AUX | MG_GELU_GRAD)) != 0;
    call_described(w, a, a->epilogue ? "mg_gemm_epilogue" : action_info[a->kind].function);
    places(w, a, 0, 3 + extra);
    fputs(extra ? "" : ", NULL", out);
    places(w, a, 3 + extra, 3 + extra + aux);
    fputs(aux ? "" : ", NULL", out);
    if (!a->epilogue) {
        fputs(");\n", out);
        return;
    }
    fprintf(out, ",\n%*s%s,", depth * 4 + 13, "", str(w->e, w->e->p->kernels.data[a->kernel].name));
    pointers(w, a, a->epilogue, depth * 4 + 13);
}

static void call_library(const Writer *w, const Action *a, int index)
{
    call_with_last(w, a, action_info[a->kind].function, index, a->noperands);
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

int emit_if(const Writer *w, const Action *a, int depth)
{
    const char *condition = emit_condition(w->e, w->p, a);
    if (condition)
        fprintf(w->e->out, "%*sif (%s)\n", depth * 4, "", condition);
    return depth + (condition != NULL);
}

/* Who does not do it waits and records all the same: others may come after what it comes after. */
void emit_call(Writer *w, const Action *a, int depth, bool conditional)
{
    FILE *out = w->e->out;
    const char *function = action_info[a->kind].function;
    quote(w, a, depth);
    emit_waits(w, a, depth);
    fprintf(out, "%*s", (conditional ? emit_if(w, a, depth) : depth) * 4, "");
    switch (a->kind) {
    case ACT_kernel:
        call_kernel(w, a, depth);
        break;
    case ACT_gemm:
        call_gemm(w, a, depth);
        break;
    case ACT_attention:
        if (a->noperands > 5)
            call_with_last(w, a, "mg_attention_part", 5, a->noperands);
        else
            call_library(w, a, -1);
        break;
    case ACT_attention_grad:
        if (a->noperands > 9 && a->operand[9].value) /* no work space: how many keys are seen */
            call_with_last(w, a, "mg_attention_part_grad", 9, 11);
        else
            call_with_last(w, a, function, -1, 10);
        break;
    case ACT_xent:
        call_library(w, a, 1);
        break;
    case ACT_xent_grad:
        call_library(w, a, 1);
        break;
    case ACT_head:
        call_library(w, a, 2);
        break;
    case ACT_head_loss:
        call_head_loss(w, a);
        break;
    case ACT_gather:
        call_library(w, a, 1);
        break;
    case ACT_scatter_add:
        call_library(w, a, 1);
        break;
    case ACT_top:
        call_indices(w, a, false);
        break;
    case ACT_slots:
        call_indices(w, a, true);
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
    case ACT_random:
        call_random(w, a);
        break;
    case ACT_comm:
        call_with_last(w, a, function, -1, 3);
        break;
    case ACT_copy:
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
}
