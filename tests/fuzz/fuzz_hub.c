/* fuzz_hub.c - libFuzzer target: files of Hugging Face's hub. Any bytes as a tokenizer.json and a
 * text for it, or as a config.json and the header of model.safetensors. Ids are below the
 * tokenizer's size, and any have a text; a model that is written is one that mgc reads. */
#include <stdlib.h>
#include <string.h>

#include "compiler/import/import.h"
#include "compiler/tok/tok.h"
#include "tests/fuzz/caught.h"

static void tokenize(Session *s, FuzzPart rest)
{
    FuzzPart json = fuzz_part(&rest);
    fuzz_file("tokenizer.json", json.data, json.size);
    Tokenizer *t = tok_read(s, arena_printf(s->arena, "%s/tokenizer.json", fuzz_folder()));
    if (!t)
        return;
    TokWorker *w = tok_worker_new(t);
    tok_encode(w, (const char *)rest.data, rest.size < 512 ? rest.size : 512);
    for (size_t i = 0; i < w->n; i++)
        if (w->id[i] < 0 || w->id[i] >= t->size)
            abort();
    size_t n;
    TokStream *text = t->undecoded ? NULL : tok_stream_new(t);
    for (size_t i = 0; text && i < rest.size && i < 512; i++)
        tok_stream_put(text, rest.data[i], &n);
    if (text)
        tok_stream_end(text, &n);
    tok_stream_free(text);
    tok_worker_free(w);
    tok_free(t);
}

static void import(Session *s, FuzzPart rest)
{
    FuzzPart config = fuzz_part(&rest);
    fuzz_file("config.json", config.data, config.size);
    if (rest.size > 8)
        fuzz_file("model.safetensors", rest.data, rest.size);
    else
        fuzz_no_file("model.safetensors");
    command_import_hf(s, fuzz_folder());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *out;
    if (!out) {
        out = fopen("/dev/null", "w");
        setenv("MGC_HOME", FAMILIES, 0); /* templates of families, as they are in the source */
    }
    if (size < 1 || !out)
        return 0;
    Arena *a = arena_new();
    Options o = {.out = "/dev/null"};
    Session s = {.arena = a, .names = names_new(a), .diag = diag_new(a, out, false), .o = &o};
    FuzzPart rest = {data + 1, size - 1};
    if (data[0] & 1)
        tokenize(&s, rest);
    else
        import(&s, rest);
    arena_free(a);
    return 0;
}
