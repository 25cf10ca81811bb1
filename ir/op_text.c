/* op_text.c - reads the text of rows of ops.def. */
#include "ir/op_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    const char *at;
    Op op;
    bool derivative;
    OpText *out;
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

static bool read_term(const Reader *r, const char *w, OpTerm *t)
{
    *t = (OpTerm){TERM_operand, w[0] - 'a', 0};
    if (!w[1] && w[0] >= 'a' && w[0] < 'a' + op_info[r->op].min)
        return true;
    t->kind = w[0] == 'r' ? TERM_result : TERM_cotangent;
    if (r->derivative && (!strcmp(w, "r") || !strcmp(w, "g")))
        return true;
    for (int i = 0; i < r->out->lines; i++)
        if (!strcmp(r->out->line[i].name, w)) {
            *t = (OpTerm){TERM_line, i, 0};
            r->out->line[i].uses++;
            return true;
        }
    char *end;
    *t = (OpTerm){TERM_number, 0, strtod(w, &end)};
    return *w && !*end && (isdigit((unsigned char)*w) || *w == '-');
}

/* name = op term... */
static const char *read_line(Reader *r)
{
    char name[32], w[32];
    OpText *t = r->out;
    word(r, name);
    if (!*name || strlen(name) > 7 || *r->at++ != '=')
        return arena_printf(r->arena, "expected 'name =' at '%s'", r->at);
    if (t->lines == OP_LINES)
        return arena_printf(r->arena, "more than %d lines", OP_LINES);
    OpLine *line = &t->line[t->lines];
    word(r, w);
    line->op = op_find(w);
    if (line->op == OP_none || !op_is(line->op, POINTWISE))
        return arena_printf(r->arena, "'%s' is no pointwise op", w);
    line->nin = op_info[line->op].min;
    for (int i = 0; i < line->nin; i++) {
        word(r, w);
        if (!read_term(r, w, &line->in[i]))
            return arena_printf(r->arena, "'%s' is nothing that line '%s' can use", w, name);
    }
    if (*r->at && *r->at++ != ';')
        return arena_printf(r->arena, "too much in line '%s'", name);
    strcpy(line->name, name);
    t->lines++;
    return NULL;
}

static const char *read_text(Op op, const char *text, bool derivative, OpText *out, Arena *a)
{
    *out = (OpText){0};
    Reader r = {text, op, derivative, out, a};
    const char *wrong = NULL;
    while (*r.at && !wrong)
        wrong = read_line(&r);
    return wrong;
}

const char *op_read_derivative(Op op, const char *text, OpText *out, Arena *a)
{
    return read_text(op, text, true, out, a);
}

const char *op_read_value(Op op, const char *text, OpText *out, Arena *a)
{
    const char *wrong = read_text(op, text, false, out, a);
    if (wrong)
        return wrong;
    if (!out->lines || strcmp(out->line[out->lines - 1].name, "r") != 0)
        return "the last line is not 'r = ...'";
    for (int i = 0; i < out->lines; i++) {
        if (i < out->lines - 1 && !out->line[i].uses)
            return arena_printf(a, "nothing uses line '%s'", out->line[i].name);
        if (op_info[out->line[i].op].value && out->line[i].op >= op)
            return arena_printf(a, "'%s' has no earlier row", op_info[out->line[i].op].name);
    }
    return NULL;
}
