/* hover.c - what is known of the name under the cursor: its declaration, its types as elaboration
 * has them, and its bytes and times as the plan has them.
 *
 * Facts of the source: "values", a list of [byte, type, path] by the place of a name or operator,
 * and "tensors", [byte, type, text of its external form]; of an earlier text, until there are those
 * of this one (earlier.c). Of the plan: "places", lines of text by byte. */
#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>

typedef struct Says {
    FILE *out;
    int types; /* said so far */
    const char *said[8];
} Says;

/* ---- the text ------------------------------------------------------------------------------ */

/* The comment right above a declaration, without its signs. */
static void comment_above(FILE *out, const Index *x, size_t at)
{
    const char *text = x->ast->text;
    size_t from = at;
    while (from && text[from - 1] != '\n')
        from--;
    size_t first = from;
    while (first) {
        size_t line = first - 1;
        while (line && text[line - 1] != '\n')
            line--;
        if (text[line] != '#')
            break;
        first = line;
    }
    for (size_t i = first; i < from; i++)
        if (!((text[i] == '#' || text[i] == ' ') &&
              (i == first || text[i - 1] == '\n' || (text[i] == ' ' && text[i - 1] == '#'))))
            fputc(text[i], out);
    if (first < from)
        fputc('\n', out);
}

/* The lines of a span, at most so many, as source. */
static void source(FILE *out, const Index *x, Span s, int most)
{
    const char *text = x->ast->text;
    size_t from = s.begin, to = s.end;
    while (from && text[from - 1] != '\n')
        from--;
    while (from < s.begin && (text[from] == ' ' || text[from] == '\t'))
        from++;
    int lines = 0;
    size_t end = from;
    while (end < to && lines < most) {
        lines += text[end] == '\n';
        end++;
    }
    if (lines < most)
        while (text[end] && text[end] != '\n')
            end++;
    fprintf(out, "```mg\n%.*s%s\n```\n", (int)(end - from), text + from,
            end < to && lines >= most ? "..." : "");
}

/* ---- the facts ----------------------------------------------------------------------------- */

static void say_type(Says *t, const char *type, const char *path)
{
    enum { MOST = sizeof t->said / sizeof *t->said };
    for (int i = 0; i < t->types; i++)
        if (!strcmp(t->said[i], type))
            return;
    if (t->types >= MOST)
        return;
    t->said[t->types++] = type;
    fprintf(t->out, "- `%s`%s%s%s\n", type, path && *path ? " in `" : "", path ? path : "",
            path && *path ? "`" : "");
}

static void say_values(Says *t, const Document *d, size_t byte)
{
    const json_t *source = earlier_source(d, &byte), *v;
    size_t i;
    json_array_foreach(json_object_get(source, "values"), i, v)
        if (json_integer_value(json_array_get(v, 0)) == (json_int_t)byte)
            say_type(t, json_string_value(json_array_get(v, 1)),
                     json_string_value(json_array_get(v, 2)));
}

static void say_tensors(Says *t, const Document *d, size_t byte)
{
    const json_t *source = earlier_source(d, &byte), *v;
    size_t i;
    json_array_foreach(json_object_get(source, "tensors"), i, v)
        if (json_integer_value(json_array_get(v, 0)) == (json_int_t)byte) {
            say_type(t, json_string_value(json_array_get(v, 1)), NULL);
            fprintf(t->out, "- %s\n", json_string_value(json_array_get(v, 2)));
        }
}

static void say_plan(Says *t, const Document *d, size_t byte)
{
    char key[32];
    snprintf(key, sizeof key, "%zu", byte);
    const json_t *lines = json_object_get(json_object_get(d->facts.plan, "places"), key), *line;
    size_t i;
    json_array_foreach(lines, i, line)
        fprintf(t->out, "- %s\n", json_string_value(line));
}

static const Node *bare(const Node *n)
{
    while (n && n->kind == N_PAREN)
        n = n->a;
    return n;
}

/* The places by which the value of a declaration is known: its name's, and that of what is assigned
 * there, if its name stands at `byte`; else that of the name. */
static void say_name(Says *t, const Document *d, const Index *x, const Occurrence *o)
{
    enum { MANY = 50 };
    const Decl *decl = &x->decls.data[o->decl];
    const Node *n = decl->node;
    const bool assigns = n && (n->kind == N_ASSIGN || n->kind == N_BIND || n->kind == N_METRIC);
    say_values(t, d, o->at.begin);
    if (decl->kind == DECL_param)
        say_tensors(t, d, decl->at.begin);
    int uses = 0;
    for (size_t i = 0; !t->types && i < x->occurrences.n && uses < MANY; i++)
        if (x->occurrences.data[i].decl == o->decl) {
            say_values(t, d, x->occurrences.data[i].at.begin);
            uses++;
        }
    if (assigns && bare(n->a)) {
        if (!t->types)
            say_values(t, d, bare(n->a)->at.begin);
        say_plan(t, d, bare(n->a)->at.begin);
    }
    say_plan(t, d, decl->at.begin);
}

/* The node of an expression that is known by a place. */
static void say_call(Server *s, Says *t, const Index *x, const Document *d, const Occurrence *o)
{
    const char *name = index_text(x, o->name);
    const Node *n = prelude_find(s, name, false);
    n = n ? n : prelude_find(s, name, true);
    const char *usage = n ? NULL : mg_function_usage(name, x->arena);
    if (n) {
        source(t->out, server_prelude(s), n->span, 12);
        comment_above(t->out, server_prelude(s), n->span.begin);
    } else if (usage) {
        fprintf(t->out, "```mg\n%s\n```\n", usage);
    } else {
        return;
    }
    say_values(t, d, o->at.begin);
    say_plan(t, d, o->at.begin);
}

static void say_declared(Says *t, const Document *d, const Index *x, const Occurrence *o)
{
    enum { LINES = 3 };
    const Decl *decl = &x->decls.data[o->decl];
    const bool whole = decl->kind == DECL_block || decl->kind == DECL_model ||
                       decl->kind == DECL_optimizer || decl->kind == DECL_layout;
    Span at = decl->node ? decl->node->span : decl->at;
    if (whole || (decl->node && decl->node->kind == N_REPEAT))
        at.end = decl->at.end; /* its first line */
    source(t->out, x, at, LINES);
    comment_above(t->out, x, at.begin);
    fprintf(t->out, "%s `%s`\n", decl_kind_name(decl->kind), index_text(x, o->name));
    say_name(t, d, x, o);
    const json_t *block =
        json_object_get(json_object_get(d->facts.plan, "blocks"), index_text(x, o->name));
    if (whole && block)
        fprintf(t->out, "- %s\n", json_string_value(block));
}

json_t *hover(Server *s, Document *d, const json_t *params, Refusal *r)
{
    size_t byte;
    const Index *x = document_index(d);
    if (!position_byte(d, params, &byte, r))
        return NULL;
    const Occurrence *o = x ? index_at(x, byte) : NULL;
    if (!o)
        return json_null();
    if (!d->facts.source && !d->facts.all && !r->now) {
        r->later = true;
        return NULL;
    }
    char *text = NULL;
    size_t size;
    Says t = {.out = open_memstream(&text, &size)};
    if (o->decl < 0)
        say_call(s, &t, x, d, o);
    else
        say_declared(&t, d, x, o);
    if (t.types && earlier_before(d))
        fprintf(t.out, "\n(types before the last change)\n");
    fclose(t.out);
    json_t *value = size ? json_stringn(text, size) : NULL;
    free(text);
    return value ? json_pack("{s:{s:s, s:o}, s:o}", "contents", "kind", "markdown", "value", value,
                             "range", range_json(d, o->at.begin, o->at.end))
                 : json_null();
}
