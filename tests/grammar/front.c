/* front.c - mgc-front: the front end alone, for golden tests.
 *
 *   mgc-front ast|fmt|roundtrip|ir F.mg [-D NAME=VALUE] [--layout NAME] [--inline]
 *
 * ast        the syntax tree
 * fmt        the canonical text
 * roundtrip  checks that formatting is idempotent and keeps the tree and every comment
 * ir         the logical program, verified
 * Exit codes as mgc's: 0 done, 1 errors in the source, 2 usage, 70 a broken promise of ours. */
#include "grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

typedef struct Front {
    Arena *arena;
    Names *names;
    Diag *diag;
} Front;

static const char *read_all(Arena *a, const char *path, size_t *size)
{
    FILE *in = fopen(path, "rb");
    if (!in) {
        perror(path);
        exit(2);
    }
    VEC(char) text = {0};
    for (int c; (c = fgetc(in)) != EOF;)
        vec_push(a, &text, (char)c);
    vec_push(a, &text, 0);
    fclose(in);
    *size = text.n - 1;
    return text.data;
}

static Ast *parse_text(Front *f, const char *path, const char *text, size_t size)
{
    Ast *ast = mg_parse(f->arena, f->names, f->diag, diag_add_file(f->diag, path, text, size));
    if (!ast)
        exit(1);
    return ast;
}

static char *formatted(const Ast *ast, size_t *size)
{
    char *text;
    FILE *out = open_memstream(&text, size);
    mg_fmt(ast, out);
    fclose(out);
    return text;
}

static int roundtrip(Front *f, const Ast *ast)
{
    size_t n, m;
    char *once = formatted(ast, &n);
    Ast *again = parse_text(f, "formatted", once, n);
    char *twice = formatted(again, &m);
    bool same_text = n == m && memcmp(once, twice, n) == 0;
    bool same_tree = ast_equal(ast, again);
    bool same_comments = ast->comments.n == again->comments.n;
    for (size_t i = 0; same_comments && i < ast->comments.n; i++)
        same_comments = !strcmp(ast->comments.data[i].text, again->comments.data[i].text);
    printf("text %s, tree %s, comments %s\n", same_text ? "same" : "DIFFERS",
           same_tree ? "same" : "DIFFERS", same_comments ? "same" : "DIFFER");
    free(once);
    free(twice);
    return same_text && same_tree && same_comments ? 0 : 70;
}

static int usage(void)
{
    fputs("usage: mgc-front ast|fmt|roundtrip F.mg\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return usage();
    Front f = {.arena = arena_new()};
    f.names = names_new(f.arena);
    f.diag = diag_new(f.arena, stderr, false);
    size_t size;
    const char *text = read_all(f.arena, argv[2], &size);
    Ast *ast = parse_text(&f, argv[2], text, size);
    int status = 0;
    if (strcmp(argv[1], "ast") == 0)
        ast_dump(ast, stdout);
    else if (strcmp(argv[1], "fmt") == 0)
        mg_fmt(ast, stdout);
    else if (strcmp(argv[1], "roundtrip") == 0)
        status = roundtrip(&f, ast);
    else
        status = usage();
    arena_free(f.arena);
    return status;
}
