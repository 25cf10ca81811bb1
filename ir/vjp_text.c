/* vjp_text.c - the pointwise rules of ops.def: reads the text, writes the instructions of those of
 * its lines that a wanted gradient leads to. */
#include "ir/vjp_rules.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    const char *at;
    Op op;
    VjpText *out;
    char name[VJP_LINES][8]; /* of each line */
    Arena *arena;
} Reader;

/* The next word up to a blank, '=' or ';'; an empty one at the end. */
static void word(Reader *r, char to[32])
{
    size_t n = 0;
    while (*r->at == ' ')
        r->at++;
    while (*r->at && !strchr(" =;", *r->at) && n < 31)
        to[n++] = *r->at++;
    to[n] = 0;
    while (*r->at == ' ')
        r->at++;
}

static bool read_term(const Reader *r, const char *w, VjpTerm *t)
{
    *t = (VjpTerm){VJP_operand, w[0] - 'a', 0};
    if (!w[1] && w[0] >= 'a' && w[0] < 'a' + op_info[r->op].least)
        return true;
    t->kind = w[0] == 'r' ? VJP_result : VJP_cotangent;
    if (!strcmp(w, "r") || !strcmp(w, "g"))
        return true;
    for (int i = 0; i < r->out->lines; i++)
        if (!strcmp(r->name[i], w)) {
            *t = (VjpTerm){VJP_line, i, 0};
            return true;
        }
    char *end;
    *t = (VjpTerm){VJP_number, 0, strtod(w, &end)};
    return *w && !*end && (isdigit((unsigned char)*w) || *w == '-');
}

/* name = op term... */
static const char *read_line(Reader *r)
{
    char name[32], w[32];
    VjpText *t = r->out;
    int n = t->lines;
    word(r, name);
    if (!*name || strlen(name) > 7 || *r->at++ != '=')
        return arena_printf(r->arena, "expected 'name =' at '%s'", r->at);
    if (n == VJP_LINES)
        return arena_printf(r->arena, "more than %d lines", VJP_LINES);
    word(r, w);
    Op op = t->line[n].op = op_find(w);
    if (op == OP_none || !op_is(op, POINTWISE))
        return arena_printf(r->arena, "'%s' is no pointwise op", w);
    for (int i = 0; i < op_info[op].least; i++) {
        word(r, w);
        if (!read_term(r, w, &t->line[n].in[i]))
            return arena_printf(r->arena, "'%s' is nothing that line '%s' can use", w, name);
    }
    t->line[n].nin = op_info[op].least;
    if (*r->at && *r->at++ != ';')
        return arena_printf(r->arena, "too much in line '%s'", name);
    strcpy(r->name[n], name);
    if (name[0] == 'g' && name[1] >= 'a' && name[1] < 'a' + op_info[r->op].least && !name[2])
        t->gradient[name[1] - 'a'] = n;
    t->lines++;
    return NULL;
}

const char *vjp_read(Op op, const char *text, VjpText *out, Arena *a)
{
    *out = (VjpText){.gradient = {-1, -1, -1}};
    Reader r = {.at = text, .op = op, .out = out, .arena = a};
    while (*r.at) {
        const char *error = read_line(&r);
        if (error)
            return error;
    }
    return NULL;
}

/* ---- writing ------------------------------------------------------------------------------ */

typedef struct Writer {
    Vjp *v;
    const VjpText *text;
    Value done[VJP_LINES];
} Writer;

static Value write_line(Writer *w, int n);

static Value write_term(Writer *w, const VjpTerm *t)
{
    const Vjp *v = w->v;
    switch (t->kind) {
    case VJP_operand:
        return v->need(v->ctx, v->ins->in[t->index]);
    case VJP_result:
        return v->need(v->ctx, v->ins->out[0]);
    case VJP_cotangent:
        return v->ct[0];
    case VJP_line:
        return write_line(w, t->index);
    case VJP_number: /* the operands of a pointwise op are of one dtype */
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
    Writer w = {.v = v, .text = &text};
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
