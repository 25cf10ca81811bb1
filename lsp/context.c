/* context.c - see context.h. */
#include "lsp/context.h"

#include <string.h>

const MgToken *context_token(const Context *c, size_t i)
{
    return i < c->n ? &c->x->tokens.data[i] : NULL;
}

static const char *start_of(const Context *c, const MgToken *t)
{
    return c->x->ast->text + t->at.begin;
}

bool context_is(const Context *c, size_t i, const char *text)
{
    const MgToken *t = context_token(c, i);
    const size_t n = strlen(text);
    return t && t->at.end - t->at.begin == n && !memcmp(start_of(c, t), text, n);
}

static bool is_any(const Context *c, size_t i, const char *const *words)
{
    for (; *words; words++)
        if (context_is(c, i, *words))
            return true;
    return false;
}

static bool new_line_between(const Context *c, size_t from, size_t to)
{
    return memchr(c->x->ast->text + from, '\n', to - from) != NULL;
}

static bool begins_item(const Context *c, size_t i)
{
    static const char *const words[] = {"dim",    "const",  "block",     "model",   "train",
                                        "layout", "config", "optimizer", "setting", NULL};
    const MgToken *t = context_token(c, i);
    return c->nopen == 0 && is_any(c, i, words) &&
           (i == 0 || new_line_between(c, context_token(c, i - 1)->at.end, t->at.begin));
}

bool context_read(Context *c, const Index *x, size_t byte)
{
    *c = (Context){.x = x};
    const MgTokens *all = &c->x->tokens;
    size_t begin = byte;
    while (c->n < all->n && all->data[c->n].at.end < byte)
        c->n++;
    const MgToken *next = c->n < all->n ? &all->data[c->n] : NULL;
    if (next && next->at.begin < byte) {
        if (next->kind == TOKEN_string && byte < next->at.end)
            return false;
        const bool written =
            next->kind == TOKEN_name || next->kind == TOKEN_keyword || next->kind == TOKEN_word;
        begin = written ? next->at.begin : byte;
        c->n += !written;
    }
    c->item = c->line = all->n;
    size_t line = all->n;
    for (size_t i = 0; i < c->n; i++) {
        const MgToken *t = &all->data[i];
        if (begins_item(c, i))
            c->item = i;
        if (i == 0 || new_line_between(c, all->data[i - 1].at.end, t->at.begin))
            line = i;
        if (context_is(c, i, "(") || context_is(c, i, "[") || context_is(c, i, "{")) {
            if (c->nopen < OPEN_MAX)
                c->open[c->nopen++] = i;
        } else if ((context_is(c, i, ")") || context_is(c, i, "]") || context_is(c, i, "}")) &&
                   c->nopen) {
            c->nopen--;
        }
    }
    const size_t end = c->n ? all->data[c->n - 1].at.end : 0;
    c->first = c->n == 0 || new_line_between(c, end, begin);
    c->line = c->first ? all->n : line;
    for (size_t i = end; i < begin; i++)
        if (c->x->ast->text[i] == '#' && !memchr(c->x->ast->text + i, '\n', begin - i))
            return false;
    return true;
}

const Node *context_owner(const Context *c, size_t byte)
{
    const Node *owner = index_owner(c->x, byte);
    const MgToken *item = context_token(c, c->item);
    for (size_t i = 0; !owner && item && i < c->x->ast->items.n;
         i++) { /* of one that is not closed */
        const Node *n = c->x->ast->items.data[i];
        if (n->span.begin == item->at.begin)
            owner = n;
    }
    return owner;
}
