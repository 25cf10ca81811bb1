/* export.c - the config block: what the checkpoints' config.json says, for those who read them.
 *
 * The block is JSON in the language's own words: numbers are expressions over dims and constants,
 * so that an override changes them too; strings, true, false, null, [lists] and {objects}. */
#include "grammar/elab.h"

#include <stdlib.h>
#include <string.h>

typedef struct Writer {
    Elab *e;
    FILE *out;
} Writer;

static void write_value(Writer *w, const Node *n, int depth);

static void write_number(Writer *w, const Node *n)
{
    Number x;
    if (!global_number(w->e, n, &x))
        return;
    if (x.exact) {
        fprintf(w->out, "%lld", (long long)x.i);
        return;
    }
    char text[40];                                 /* numbers of the language are finite */
    for (int digits = 1; digits <= 17; digits++) { /* the shortest that reads back the same */
        snprintf(text, sizeof text, "%.*g", digits, x.d);
        if (strtod(text, NULL) == x.d)
            break;
    }
    fputs(text, w->out);
    if (!strpbrk(text, ".e")) /* for readers who know floats from integers */
        fputs(".0", w->out);
}

static void write_members(Writer *w, const NodeList *members, int depth)
{
    Elab *e = w->e;
    fputs("{", w->out);
    for (size_t i = 0; i < members->n; i++) {
        const Node *n = members->data[i];
        for (size_t k = 0; k < i; k++)
            if (members->data[k]->name == n->name) {
                fail(e, n->at, 314, "'%s' is set twice", text(e, n->name));
                note(e, members->data[k]->at, "here first");
            }
        fprintf(w->out, "%s\n%*s\"%s\": ", i ? "," : "", 2 * depth, "", text(e, n->name));
        write_value(w, n->a, depth);
    }
    fprintf(w->out, "\n%*s}", 2 * (depth - 1), "");
}

static void write_value(Writer *w, const Node *n, int depth)
{
    enum { DEEPEST = 16 };
    const char *word = n->kind == N_NAME ? text(w->e, n->name) : "";
    if (depth > DEEPEST) {
        fail(w->e, n->span, 314, "values nest more than %d deep", DEEPEST);
    } else if (n->kind == N_STRING) {
        fprintf(w->out, "\"%s\"", n->text); /* printable, without " and \ */
    } else if (n->kind == N_OBJECT) {
        write_members(w, &n->list, depth + 1);
    } else if (n->kind == N_LIST) {
        for (size_t i = 0; i < n->list.n; i++) {
            fputs(i ? ", " : "[", w->out);
            write_value(w, n->list.data[i], depth + 1);
        }
        fputs("]", w->out);
    } else if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0 ||
               strcmp(word, "null") == 0) {
        fputs(word, w->out);
    } else {
        write_number(w, n);
    }
}

void read_config(Elab *e)
{
    const Node *config = NULL;
    for (size_t i = 0; i < e->ast->items.n; i++) {
        const Node *n = e->ast->items.data[i];
        if (n->kind != N_CONFIG)
            continue;
        if (config) {
            fail(e, n->at, 314, "a second config block");
            note(e, config->at, "the first one");
            return;
        }
        config = n;
    }
    if (!config)
        return;
    char *json;
    size_t size;
    Writer w = {e, open_memstream(&json, &size)};
    write_members(&w, &config->more, 1);
    fputs("\n", w.out);
    fclose(w.out);
    e->module->config = arena_strdup(e->arena, json);
    free(json);
}
