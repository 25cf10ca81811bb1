/* fuzz_mg.c - libFuzzer target: any bytes as a .mg file, read, formatted and elaborated.
 *
 * A text that parses must format to one that parses to the same tree; one that elaborates must
 * verify. */
#include "grammar/grammar.h"

#include <stdlib.h>

static void check_format(Arena *arena, Names *names, Diag *diag, const Ast *ast)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    mg_fmt(ast, out);
    fclose(out);
    Ast *again = mg_parse(arena, names, diag, diag_add_file(diag, "formatted.mg", text, size));
    if (!again || !ast_equal(ast, again) || ast->comments.n != again->comments.n)
        abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *out = fopen("/dev/null", "w");
    if (!out)
        return 0;
    Arena *arena = arena_new();
    Names *names = names_new(arena);
    Diag *diag = diag_new(arena, out, false);
    const char *text = arena_strndup(arena, (const char *)data, size);
    Ast *ast = mg_parse(arena, names, diag, diag_add_file(diag, "fuzz.mg", text, size));
    if (ast) {
        check_format(arena, names, diag, ast);
        for (int inlined = 0; inlined < 2 && !diag_errors(diag); inlined++) {
            ElaborateOptions o = {.inline_composites = inlined};
            Module *m = mg_elaborate(arena, names, diag, ast, &o);
            if (m && ir_verify(m, stderr))
                abort();
        }
    }
    arena_free(arena);
    fclose(out);
    return 0;
}
