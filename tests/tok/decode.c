/* decode.c - ids to text for tests: decode TOKENIZER < LINES. A line is a JSON list of ids; for
 * each a JSON list of the pieces that come out, one for each id and one for the end, is printed. */
#include "text/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void decode_line(TokStream *s, const char *line, size_t size)
{
    json_t *ids = json_loadb(line, size, 0, NULL), *v, *out = json_array();
    size_t i, n;
    json_array_foreach(ids, i, v) {
        const char *piece = tok_stream_put(s, (int32_t)json_integer_value(v), &n);
        json_array_append_new(out, json_stringn(piece, n));
    }
    const char *piece = tok_stream_end(s, &n);
    json_array_append_new(out, json_stringn(piece, n));
    json_dumpf(out, stdout, 0);
    putchar('\n');
    json_decref(out);
    json_decref(ids);
}

int main(int argc, char **argv)
{
    enum { MOST = 64 << 20 };
    char *line = NULL;
    size_t cap = 0;
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    TextError e = {0};
    Arena *a = arena_new();
    if (!f)
        return 2;
    char *file = arena_alloc(a, MOST);
    const size_t size = fread(file, 1, MOST, f);
    fclose(f);
    Tokenizer *t = tok_parse(a, argv[1], file, size, &e);
    const bool good = t && !t->undecoded;
    if (!good)
        puts(t ? t->undecoded : e.text);
    TokStream *s = good ? tok_stream_new(t) : NULL;
    for (ssize_t k; good && (k = getline(&line, &cap, stdin)) > 0;)
        decode_line(s, line, (size_t)k);
    tok_stream_free(s);
    if (t)
        tok_free(t);
    free(line);
    arena_free(a);
    return good ? 0 : 1;
}
