/* prelude.c - the part of the language that is written in it, for definitions and hovers: its file
 * where it is installed, with its comments, or else the text that is built in. */
#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>

static bool read_file(const char *path, Text *t)
{
    enum { LONGEST = 1 << 20 };
    FILE *in = path ? fopen(path, "re") : NULL;
    char *text = in ? malloc(LONGEST) : NULL;
    const size_t n = text ? fread(text, 1, LONGEST, in) : 0;
    const bool good = n && n < LONGEST && text_set(t, text, n);
    if (in)
        fclose(in);
    free(text);
    return good;
}

const Index *server_prelude(Server *s)
{
    if (s->prelude_index)
        return s->prelude_index;
    if (!read_file(s->host->prelude, &s->prelude))
        text_set(&s->prelude, prelude_text, strlen(prelude_text));
    s->arena = arena_new();
    s->prelude_index = index_new(s->arena, "prelude.mg", s->prelude.data, s->prelude.size);
    return s->prelude_index;
}

void prelude_free(Server *s)
{
    if (s->arena)
        arena_free(s->arena);
    text_free(&s->prelude);
}

const Node *prelude_find(Server *s, const char *name, bool optimizer)
{
    const Index *x = server_prelude(s);
    for (size_t i = 0; x && i < x->ast->items.n; i++) {
        const Node *n = x->ast->items.data[i];
        if (n->kind == (optimizer ? N_OPTIMIZER : N_BLOCK) && !strcmp(index_text(x, n->name), name))
            return n;
    }
    return NULL;
}
