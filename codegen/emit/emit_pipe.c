/* emit_pipe.c - the tables of a pipeline in the emitted program, and the conditions of its loops on
 * stages. */
#include "codegen/emit/writer.h"

static int stages_of(const Program *p)
{
    return p->pipe->stages;
}

/* ---- conditions ------------------------------------------------------------------------------ */

static const char *condition(Emitter *e, StageSet on, const char *stage, int n)
{
    switch (on) {
    case AT_FIRST:
        return arena_printf(e->a, "%s == 0", stage);
    case AT_LAST:
        return arena_printf(e->a, "%s == %d", stage, n - 1);
    case AT_FIRST | AT_LAST:
        return arena_printf(e->a, "%s == 0 || %s == %d", stage, stage, n - 1);
    case AT_MIDDLE:
        return arena_printf(e->a, "%s > 0 && %s < %d", stage, stage, n - 1);
    case AT_MIDDLE | AT_LAST:
        return arena_printf(e->a, "%s > 0", stage);
    case AT_FIRST | AT_MIDDLE:
        return arena_printf(e->a, "%s < %d", stage, n - 1);
    default:
        return NULL;
    }
}

bool emit_in_pipe(const Program *p, int loop)
{
    for (; p->pipe && loop >= 0; loop = p->loops.data[loop].parent)
        if (loop == p->pipe->loop)
            return true;
    return false;
}

const char *emit_condition(Emitter *e, const Program *p, const Action *a)
{
    const Pipeline *l = &e->m->layout.pipeline;
    if (!l->axis || a->on == AT_ALL)
        return NULL;
    if (emit_in_pipe(p, a->around))
        return condition(e, a->on, "o->stage", stages_of(p));
    return condition(e, a->on, arena_printf(e->a, "mg_place(r, %u)", l->axis),
                     (int)mesh_size(e->m, l->axis));
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The offset in bytes of a place in a buffer, for the stage and microbatch of an operation. */
void emit_slot(const Emitter *e, const Program *p, uint32_t buffer)
{
    const Buffer *b = &e->p->buffers.data[buffer];
    const Pipe *pipe = p->pipe;
    if (b->slot && b->by_layer)
        fprintf(e->out, " + (int64_t)(o->slot - o->stage / %d) * %lld", pipe->ranks,
                (long long)b->slot);
    else if (b->slot)
        fprintf(e->out, " + (int64_t)o->slot * %lld", (long long)b->slot);
    for (int way = 0; pipe && way < 2 && pipe->message[way]; way++) {
        if (buffer == pipe->sent[way])
            fprintf(e->out, " + (int64_t)o->out * %lld", (long long)pipe->stride[way]);
        if (buffer == pipe->received[way])
            fprintf(e->out, " + (int64_t)o->in * %lld", (long long)pipe->stride[way]);
    }
}

bool emit_has_slot(const Emitter *e, const Program *p, uint32_t buffer)
{
    const Pipe *pipe = p->pipe;
    bool message = false;
    for (int way = 0; pipe && way < 2 && pipe->message[way]; way++)
        message |= buffer == pipe->sent[way] || buffer == pipe->received[way];
    return message || e->p->buffers.data[buffer].slot;
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* The iterations of a loop over layers that belong to the stage of the operation. */
void emit_stage_loop(const Emitter *e, const Program *p, const Loop *l, const char *i, int depth)
{
    const Pipeline *layout = &e->m->layout.pipeline;
    const char *first = "0", *plus = "";
    if (layout->chunks > 1) {
        first = arena_printf(e->a, "o->stage / %d * %lld", p->pipe->ranks,
                             (long long)layout->max_layers);
        plus = arena_printf(e->a, "%s + ", first);
    }
    fprintf(e->out, "%*sfor (int64_t %s = ", depth * 4, "", i);
    if (l->reverse)
        fprintf(e->out, "%sstage_layers[o->stage] - 1; %s >= %s; %s--) {\n", plus, i, first, i);
    else
        fprintf(e->out, "%s; %s < %sstage_layers[o->stage]; %s++) {\n", first, i, plus, i);
}

void emit_pipe_begin(const Emitter *e, const char *entry, int depth)
{
    fprintf(e->out,
            "%*sfor (const mg_pipe_op *o = mg_pipe_ops(r, &%s_pipe); mg_phase(r, o); o++) {\n"
            "%*sswitch (o->step) {\n",
            depth * 4, "", entry, depth * 4 + 4, "");
}

void emit_pipe_phase(const Emitter *e, const Program *p, const Action *a, int depth)
{
    const bool splits = p->pipe->phases == 3;
    int k = 0, out = depth * 4 - 4;
    while (&p->actions.data[p->pipe->begin[k]] != a)
        k++;
    if (k == 2)
        fprintf(e->out, "%*sif (o->step == MG_PIPE_I) /* B is both */\n    ", depth * 4, "");
    if (k)
        fprintf(e->out, "%*sbreak;\n", depth * 4, "");
    if (k == 0)
        fprintf(e->out, "%*scase MG_PIPE_F:\n", out, "");
    else if (k == 2)
        fprintf(e->out, "%*s/* fall through */\n%*scase MG_PIPE_W:\n", depth * 4, "", out, "");
    else
        fprintf(e->out, "%*scase MG_PIPE_B:\n", out, "");
    if (k == 1 && splits)
        fprintf(e->out, "%*scase MG_PIPE_I:\n", out, "");
}

void emit_pipe_end(Writer *w, int depth)
{
    FILE *out = w->e->out;
    fprintf(out, "%*sbreak;\n", depth * 4 + 8, "");
    emit_beside(w, depth + 2);
    fprintf(out, "%*sdefault:\n%*smg_pass(r, &%s_pipe, o);\n%*s}\n%*s}\n", depth * 4 + 4, "",
            depth * 4 + 8, "", w->entry, depth * 4 + 4, "", depth * 4, "");
    emit_beside_ends(w, depth);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void emit_op(const Emitter *e, const mg_pipe_op *o)
{
    static const char *const steps[] = {"END",    "F",      "B",         "I",
                                        "W",      "SEND_F", "RECV_F",    "SEND_B",
                                        "RECV_B", "WAIT",   "UNSHARDED", "REDUCE"};
    fprintf(e->out, "    {.step = MG_PIPE_%s", steps[o->step]);
    if (o->of)
        fprintf(e->out, ", .of = MG_PIPE_%s", steps[o->of]);
    emit_num(e, "in", o->in);
    emit_num(e, "out", o->out);
    emit_num(e, "stage", o->stage);
    emit_num(e, "with", o->with);
    emit_num(e, "slot", o->slot);
    emit_num(e, "microbatch", o->microbatch);
    if (o->at != 0)
        fprintf(e->out, ", .at = %.9g", (double)o->at);
    if (o->lasts != 0)
        fprintf(e->out, ", .lasts = %.9g", (double)o->lasts);
    fputs("},\n", e->out);
}

static void emit_places(const Emitter *e, const char *name, const uint32_t *buffer,
                        const int64_t *has)
{
    fprintf(e->out, "    .%s = {", name);
    for (int way = 0; way < 2; way++) {
        fputs(way ? ", " : "", e->out);
        if (has[way])
            emit_offset(e, buffer[way]);
        else
            fputc('0', e->out);
    }
    fputs("},\n", e->out);
}

void emit_pipe(const Emitter *e, const Program *p, const char *entry)
{
    const Pipe *x = p ? p->pipe : NULL;
    if (!x)
        return;
    const int ranks = x->ranks;
    fprintf(e->out,
            "/* The operations of each rank in the pipeline: mg_pipe_op in abi.h says what each "
            "field is. */\n");
    for (int rank = 0; rank < ranks; rank++) {
        fprintf(e->out, "static const mg_pipe_op %s_ops_%d[] = {\n", entry, rank);
        const mg_pipe_op *o = x->ops[rank];
        for (; o->step; o++)
            emit_op(e, o);
        fprintf(e->out, "    {.step = MG_PIPE_END, .at = %.9g},\n};\n", (double)o->at);
    }
    fprintf(e->out, "static const mg_pipe_op *const %s_ops[] = {", entry);
    for (int rank = 0; rank < ranks; rank++)
        fprintf(e->out, "%s%s_ops_%d", rank ? ", " : "", entry, rank);
    fprintf(e->out, "};\nstatic const mg_pipe %s_pipe = {\n    .axis = %u,\n", entry,
            e->m->layout.pipeline.axis);
    fprintf(e->out, "    .bytes = {%lld, %lld},\n    .stride = {%lld, %lld},\n",
            (long long)x->message[0], (long long)x->message[1], (long long)x->stride[0],
            (long long)x->stride[1]);
    emit_places(e, "send", x->sent, x->message);
    emit_places(e, "receive", x->received, x->message);
    fputs("    .action = {", e->out);
    for (int k = 0; k < 4; k++) {
        uint32_t id = (k % 2 ? x->receive_id : x->send_id)[k / 2];
        fprintf(e->out, "%s%d", k ? ", " : "", id == UINT32_MAX ? -1 : (int)id);
    }
    fprintf(e->out, "},\n    .ops = %s_ops,\n};\n\n", entry);
}

void emit_pipe_names(const Emitter *e)
{
    Program *const *const programs = e->p->programs;
    static const char *const entries[PLAN_PROGRAMS] = {"step",    "eval",   "sample", "round",
                                                       "prefill", "decode", "spread"};
    if (e->m->layout.pipeline.axis)
        fprintf(e->out, "static const int32_t stage_layers[%zu];\n",
                e->m->layout.pipeline.layers.n);
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        if (programs[k] && programs[k]->pipe)
            fprintf(e->out, "static const mg_pipe %s_pipe;\n", entries[k]);
    fputs(e->m->layout.pipeline.axis ? "\n" : "", e->out);
}

void emit_stages(const Emitter *e)
{
    const Pipeline *l = &e->m->layout.pipeline;
    if (!l->axis)
        return;
    fputs("/* Layers of each stage. */\nstatic const int32_t stage_layers[] = {", e->out);
    for (size_t s = 0; s < l->layers.n; s++)
        fprintf(e->out, "%s%lld", s ? ", " : "", (long long)l->layers.data[s]);
    fputs("};\n\n", e->out);
}
