/* vjp_text.c - the pointwise rules of ops.def: writes the instructions of those of their lines that
 * a wanted gradient leads to. */
#include "ir/vjp_rules.h"

#include <string.h>

const char *vjp_read(Op op, const char *text, VjpText *out, Arena *a)
{
    *out = (VjpText){.gradient = {-1, -1, -1}};
    const char *wrong = op_read_derivative(op, text, &out->text, a);
    for (int i = 0; i < out->text.lines; i++) {
        const char *name = out->text.line[i].name;
        if (name[0] == 'g' && name[1] >= 'a' && name[1] < 'a' + op_info[op].min && !name[2])
            out->gradient[name[1] - 'a'] = i;
    }
    return wrong;
}

/* ---- writing ------------------------------------------------------------------------------ */

typedef struct Writer {
    Vjp *v;
    const OpText *text;
    Value done[OP_LINES];
} Writer;

static Value write_line(Writer *w, int n);

static Value write_term(Writer *w, const OpTerm *t)
{
    const Vjp *v = w->v;
    switch (t->kind) {
    case TERM_operand:
        return v->need(v->ctx, v->ins->in[t->index]);
    case TERM_result:
        return v->need(v->ctx, v->ins->out[0]);
    case TERM_cotangent:
        return v->ct[0];
    case TERM_line:
        return write_line(w, t->index);
    case TERM_number: /* the operands of a pointwise op are of one dtype */
        return build_const(v->b, type_of(v->b->m, v->ct[0])->dtype, t->number);
    }
    return 0;
}

static Value write_line(Writer *w, int n)
{
    if (w->done[n])
        return w->done[n];
    Op op = w->text->line[n].op;
    Value in[3] = {0};
    for (int i = 0; i < w->text->line[n].nin; i++)
        in[i] = write_term(w, &w->text->line[n].in[i]);
    const Type *like = type_of(w->v->b->m, w->v->ins->out[0]);
    w->done[n] = op == OP_copy ? in[0] : build_like(w->v->b, op, w->text->line[n].nin, in, like);
    return w->done[n];
}

/* The cotangent of an operand of type t: g (over the result's dims) summed over the dims that t
 * lacks. Along dims that g lacks as well, every element counts the same. */
static Value reduce_to(Builder *b, Value g, const Type *result, const Type *t)
{
    DimList over = {0};
    double times = 1;
    for (int i = 0; i < result->rank; i++) {
        Dim d = result->dims[i];
        if (type_find(t, d.name) >= 0)
            continue;
        if (type_find(type_of(b->m, g), d.name) >= 0)
            over.dim[over.n++] = d;
        else
            times *= (double)d.size;
    }
    g = build_sum(b, g, &over);
    if (times == 1)
        return g;
    return build2(b, OP_mul, g, build_const(b, type_of(b->m, g)->dtype, times));
}

void vjp_pointwise(Vjp *v)
{
    VjpText text;
    Module *m = v->b->m;
    v->error = vjp_read(v->ins->op, op_info[v->ins->op].vjp, &text, m->arena);
    if (v->error)
        return;
    Writer w = {.v = v, .text = &text.text};
    Type result = *type_of(m, v->ins->out[0]);
    for (uint32_t i = 0; i < v->ins->nin; i++) {
        if (!v->want[i])
            continue;
        if (text.gradient[i] < 0) {
            v->error = "it has no derivative in this operand";
            return;
        }
        Value g = write_line(&w, text.gradient[i]);
        Type operand = *type_of(m, v->ins->in[i]);
        v->grad[i] = reduce_to(v->b, g, &result, &operand);
    }
}
