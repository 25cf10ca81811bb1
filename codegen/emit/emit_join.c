/* emit_join.c - the two of a pair of a pipeline's table beside each other, as a function: what
 * stands before the layers of both, as many layers as both have with a layer of each at once, the
 * layers that one has more, and what stands behind.
 *
 * Places and conditions of an action are of the operation `o` that it belongs to: the forward's, or
 * the one behind it. Other streams meet at the end of each iteration, as in all loops. */
#include "codegen/emit/writer.h"

typedef struct JoinWriter {
    Writer *w;
    const char *now; /* the operation that `o` is */
} JoinWriter;

static const char *const op_of[] = {"pair", "pair + 1"};

static void be(JoinWriter *j, int phase, int depth)
{
    if (j->now != op_of[phase])
        fprintf(j->w->e->out, "%*so = %s;\n", depth * 4, "", op_of[phase]);
    j->now = op_of[phase];
}

/* The actions [from, to) of the program, of a phase, with its other loops as they are. */
static void emit_part(JoinWriter *j, int phase, int from, int to, int depth)
{
    Writer *w = j->w;
    be(j, phase, depth);
    for (int i = from; i < to; i++) {
        const Action *a = &w->p->actions.data[i];
        if (a->kind == ACT_loop)
            depth = emit_loop_begin(w, a, depth);
        else if (a->kind == ACT_end)
            depth = emit_loop_end(w, a, depth);
        else
            emit_call(w, a, depth);
        if (a->kind == ACT_loop || a->kind == ACT_end)
            emit_point(w, a, depth);
    }
}

/* The loop's variable, and how many of its iterations the stage of an operation has. */
static void emit_variable(const Writer *w, const Loop *l, const char *i, const char *op)
{
    const Pipeline *layout = &w->e->m->layout.pipeline;
    FILE *out = w->e->out;
    fprintf(out, "    int64_t %s = ", i);
    if (layout->chunks > 1)
        fprintf(out, "(%s)->stage / %d * %lld%s", op, w->p->pipe->ranks,
                (long long)layout->max_layers, l->reverse ? " + " : ";\n");
    else
        fputs(l->reverse ? "" : "0;\n", out);
    if (l->reverse)
        fprintf(out, "stage_layers[(%s)->stage] - 1;\n", op);
}

static void emit_both(JoinWriter *j, Writer *body)
{
    const Program *b = body->p;
    const size_t end = b->actions.n - 1;
    emit_point(body, &b->actions.data[0], 2);
    for (size_t i = 1; i < end; i++) {
        be(j, b->actions.data[i].joined - 1, 2);
        emit_call(body, &b->actions.data[i], 2);
    }
    emit_waits(body, &b->actions.data[end], 2);
}

static const char *step_of(const Loop *l)
{
    return l->reverse ? "--" : "++";
}

/* The layers that are left of a phase. */
static void emit_rest(JoinWriter *j, int phase, const char *left)
{
    const Writer *w = j->w;
    const PipeJoin *join = w->p->pipe->join;
    const Loop *l = &w->p->loops.data[join->loop[phase]];
    const char *i = j->w->loop[join->loop[phase]];
    be(j, phase, 1);
    emit_waits(w, &w->p->actions.data[l->begin], 1);
    fprintf(w->e->out, "    for (int64_t k = %s; k > 0; k--, %s%s) {\n", left, i, step_of(l));
    emit_point(w, &w->p->actions.data[l->begin], 2);
    emit_part(j, phase, l->begin + 1, l->end, 2);
    emit_waits(w, &w->p->actions.data[l->end], 2);
    fputs("    }\n", w->e->out);
    emit_point(w, &w->p->actions.data[l->end], 1);
}

void emit_join(Writer *w)
{
    const Pipe *pipe = w->p->pipe;
    const PipeJoin *join = pipe->join;
    const Loop *of[2] = {&w->p->loops.data[join->loop[0]], &w->p->loops.data[join->loop[1]]};
    const int end[2] = {pipe->begin[1], w->p->loops.data[pipe->loop].end};
    FILE *out = w->e->out;
    const char **loop = NEW_ARRAY(w->e->a, const char *, w->p->loops.n + 1);
    for (size_t l = 0; l < w->p->loops.n; l++)
        loop[l] = w->loop[l];
    loop[join->loop[0]] = "forth";
    loop[join->loop[1]] = "back";
    Writer own = *w, body = *w;
    own.loop = body.loop = loop;
    body.p = join->body;
    body.point = stream_points(join->body, w->e->a);
    body.beside = stream_beside(w->e, join->body);
    for (size_t i = 0; i < join->body->actions.n; i++)
        w->points = body.point[i] > w->points ? body.point[i] : w->points;
    JoinWriter j = {.w = &own, .now = ""};
    fprintf(out,
            "/* A pair: the forward of one microbatch beside the backward of another, layer by "
            "layer. */\n"
            "static void %s_pair(mg_run *r, char *base, const mg_pipe_op *pair)\n{\n"
            "    const mg_pipe_op *o;\n"
            "    const int64_t forths = stage_layers[pair->stage];\n"
            "    const int64_t backs = stage_layers[(pair + 1)->stage];\n"
            "    const int64_t both = forths < backs ? forths : backs;\n",
            w->entry);
    for (int k = 0; k < 2; k++)
        emit_variable(w, of[k], loop[join->loop[k]], op_of[k]);
    for (int k = 0; k < 2; k++) {
        emit_part(&j, k, pipe->begin[k] + 1, of[k]->begin, 1);
        emit_waits(w, &w->p->actions.data[of[k]->begin], 1);
    }
    fprintf(out, "    for (int64_t k = 0; k < both; k++, forth%s, back%s) {\n", step_of(of[0]),
            step_of(of[1]));
    j.now = "";
    emit_both(&j, &body);
    fputs("    }\n    mg_phase(r, pair + 1);\n", out);
    j.now = "";
    emit_rest(&j, 0, "forths - both");
    emit_rest(&j, 1, "backs - both");
    for (int k = 0; k < 2; k++) {
        j.now = "";
        emit_part(&j, k, of[k]->end + 1, end[k], 1);
        if (k == 0)
            emit_waits(w, &w->p->actions.data[pipe->begin[1]], 1);
        else
            emit_waits(w, &w->p->actions.data[end[1]], 1);
    }
    fputs("}\n\n", out);
}

void emit_join_call(const Writer *w, int depth)
{
    fprintf(w->e->out,
            "%*sif (o->with && mg_joins(r)) {\n%*s%s_pair(r, base, o);\n%*so++;\n%*sbreak;\n%*s}\n",
            depth * 4, "", depth * 4 + 4, "", w->entry, depth * 4 + 4, "", depth * 4 + 4, "",
            depth * 4, "");
}
