/* fuzz_pipeline.c - libFuzzer target: any bytes as a pipeline's table. What is read prints to a
 * text that reads back and prints the same; what is complete is lowered, and with its sends and
 * receives in it it is proved, or refused, again. */
#include "pipeline/pipeline.h"

#include <stdlib.h>
#include <string.h>

typedef struct Text {
    char *text;
    size_t size;
} Text;

static Text printed(const PipeTable *t)
{
    Text x;
    FILE *out = open_memstream(&x.text, &x.size);
    pipe_print(t, out);
    fclose(out);
    return x;
}

/* Two texts of one table, the second read from the first. */
static void same(Arena *a, Diag *d, const PipeTable *t)
{
    Text once = printed(t);
    const PipeTable *again = pipe_read(a, d, diag_add_file(d, "again.csv", once.text, once.size));
    if (!again)
        abort();
    Text twice = printed(again);
    if (once.size != twice.size || memcmp(once.text, twice.text, once.size))
        abort();
    free(once.text);
    free(twice.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *out = fopen("/dev/null", "w");
    if (!out)
        return 0;
    Arena *a = arena_new();
    Diag *d = diag_new(a, out, false);
    const char *text = arena_strndup(a, (const char *)data, size);
    PipeTable *t = pipe_read(a, d, diag_add_file(d, "fuzz.csv", text, size));
    if (t && diag_errors(d))
        abort();
    if (t)
        same(a, d, t);
    if (t && pipe_complete(t, d)) {
        PipeProof proof;
        const PipeProgram *p = pipe_lower(a, t);
        bool good = pipe_prove(a, p, d, &proof);
        const PipeTable *c = pipe_with_comms(a, p);
        if (!p->stuck && (!pipe_complete(c, diag_silent(d, a)) ||
                          pipe_prove(a, pipe_lower(a, c), d, &proof) != good))
            abort();
    }
    arena_free(a);
    fclose(out);
    return 0;
}
