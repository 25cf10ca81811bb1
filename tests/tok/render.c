/* render.c - renders templates for tests: render TEMPLATE < LINES. A line is a JSON object of
 * variables; for each a JSON object is printed: {"text": ..., "generation": [[begin, end], ...]} or
 * {"error": ..., "line": ..., "column": ...}. */
#include "text/jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t cap = 0;
    *n = 0;
    if (!f)
        return NULL;
    do {
        cap = cap ? 2 * cap : 65536;
        text = realloc(text, cap);
        if (!text)
            abort();
        *n += fread(text + *n, 1, cap - *n, f);
    } while (*n == cap);
    fclose(f);
    return text;
}

static void print_error(const char *source, const JinError *e)
{
    int line = 1, column = 1;
    for (uint32_t i = 0; i < e->at && source[i]; i++) {
        column = source[i] == '\n' ? 1 : column + 1;
        line += source[i] == '\n';
    }
    json_t *v = json_pack("{s:s, s:i, s:i, s:b}", "error", e->text, "line", line, "column", column,
                          "raised", e->raised);
    json_dumpf(v, stdout, 0);
    putchar('\n');
    json_decref(v);
}

static void render_line(const JinTemplate *t, const char *source, const char *line, size_t n)
{
    json_error_t je;
    json_t *v = json_loadb(line, n, JSON_ALLOW_NUL, &je), *value;
    JinVariable variable[64];
    JinText out;
    JinError e;
    const char *key;
    size_t k = 0;
    Arena *a = arena_new();
    json_object_foreach(v, key, value)
        if (k < 64)
            variable[k++] = (JinVariable){key, jin_from_json(a, value)};
    if (jin_render(t, a, variable, k, 1700000000, &out, &e)) {
        json_t *parts = json_array();
        for (size_t i = 0; i < out.generations; i++)
            json_array_append_new(parts, json_pack("[I, I]", (json_int_t)out.generation[i].begin,
                                                   (json_int_t)out.generation[i].end));
        json_t *o = json_object();
        json_object_set_new(o, "text", json_stringn(out.text ? out.text : "", out.n));
        json_object_set_new(o, "generation", parts);
        json_dumpf(o, stdout, 0);
        putchar('\n');
        json_decref(o);
        free(out.text);
    } else {
        print_error(source, &e);
    }
    arena_free(a);
    json_decref(v);
}

int main(int argc, char **argv)
{
    size_t n, size, cap = 0;
    char *text = argc == 2 ? read_all(argv[1], &n) : NULL, *line = NULL;
    if (!text)
        return 2;
    Arena *a = arena_new();
    JinError e;
    char *source = jin_source(a, text, n, &size);
    JinTemplate *t = jin_parse(a, source, size, &e);
    if (!t)
        print_error(source, &e);
    for (ssize_t k; t && (k = getline(&line, &cap, stdin)) > 0;)
        render_line(t, source, line, (size_t)k);
    free(line);
    free(text);
    arena_free(a);
    return t ? 0 : 1;
}
