/* fuzz_ir.c - libFuzzer target: any bytes as an IR text. What is read and verifies must print to a
 * text that reads back and prints the same. */
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

static char *printed(const Module *m, size_t *size)
{
    char *text;
    FILE *out = open_memstream(&text, size);
    ir_print(m, out);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *out = fopen("/dev/null", "w");
    if (!out)
        return 0;
    Arena *a = arena_new();
    Names *names = names_new(a);
    Diag *diag = diag_new(a, out, false);
    const char *text = arena_strndup(a, (const char *)data, size);
    Module *m = ir_parse(a, names, diag, diag_add_file(diag, "fuzz.mgir", text, size));
    if (m && !diag_errors(diag) && !ir_verify(m, out)) {
        size_t n, k;
        char *once = printed(m, &n);
        Module *again = ir_parse(a, names, diag, diag_add_file(diag, "again.mgir", once, n));
        if (!again || ir_verify(again, out))
            abort();
        char *twice = printed(again, &k);
        if (n != k || memcmp(once, twice, n))
            abort();
        free(once);
        free(twice);
    }
    arena_free(a);
    fclose(out);
    return 0;
}
