/* front.c - mgc-front: the front end alone, for golden tests.
 *
 *   mgc-front ast|fmt|roundtrip|check|ir F.mg [-D NAME=VALUE] [--layout NAME] [--layouts FILE]
 *             [--device NAME] [--inline]
 *
 * ast        the syntax tree
 * fmt        the canonical text
 * roundtrip  checks that formatting is idempotent and keeps the tree and every comment
 * check      whether it elaborates to a program that the verifier accepts and that survives its
 * text ir         the logical program Exit codes as mgc's: 0 done, 1 errors in the source, 2 usage,
 * 70 a broken promise of ours. */
#include "base/trial.h"
#include "grammar/grammar.h"
#include "ir/optimizers.h"

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
    fputs("usage: mgc-front ast|fmt|roundtrip|check|ir F.mg [-D NAME=VALUE] [--layout NAME]\n"
          "                 [--layouts FILE] [--device NAME] [--inline]\n",
          stderr);
    return 2;
}

/* Settings that the printed program does not show. */
static void print_settings(const Module *m)
{
    const Train *t = &m->train;
    const Layout *l = &m->layout;
    printf("# model %s: batch %lld, seq %lld, vocab %lld\n", name_str(m->names, m->name),
           (long long)m->batch.size, (long long)m->seq.size, (long long)m->vocab);
    for (const Goal *g = t->goal; g < t->goal + t->goals; g++) {
        printf("# optimizer %s betas %g %g eps %g momentum %g clip %g\n", g->optimizer->name,
               g->beta1, g->beta2, g->eps, g->momentum, g->clip);
        printf("# lr %d peak %g floor %g warmup %lld steps %lld, %s\n", (int)g->schedule, g->peak,
               g->floor, (long long)g->warmup, (long long)g->steps, dtype_name(t->compute));
    }
    printf("# layout %s device %s microbatch %lld recompute %d peak %g\n",
           name_str(m->names, l->name), name_str(m->names, l->device), (long long)l->microbatch,
           (int)l->recompute, l->assert_peak);
}

static char *printed_ir(const Module *m, size_t *size)
{
    char *text;
    FILE *out = open_memstream(&text, size);
    ir_print(m, out);
    fclose(out);
    return text;
}

/* The program survives its text: names and paths from the source have a form there. */
static bool survives_text(Front *f, const Module *m)
{
    size_t n, k;
    char *once = printed_ir(m, &n), *twice = NULL;
    Module *again = ir_parse(f->arena, f->names, f->diag, diag_add_file(f->diag, "ir", once, n));
    bool same = again && (twice = printed_ir(again, &k)) && n == k && memcmp(once, twice, n) == 0;
    if (!same)
        fputs("the program changes when it is printed and read\n", stderr);
    free(twice);
    if (same) /* else a message may still point into it */
        free(once);
    return same;
}

static int elaborate(Front *f, const Ast *ast, const ElaborateOptions *o, bool print)
{
    Module *m = mg_elaborate(f->arena, f->names, f->diag, ast, o);
    if (!m)
        return 1;
    if (ir_verify(m, stderr) || !survives_text(f, m))
        return 70;
    if (print) {
        print_settings(m);
        ir_print(m, stdout);
    }
    return 0;
}

static const char *after(int argc, char **argv, int *i)
{
    if (*i + 1 == argc)
        exit(usage());
    return argv[++*i];
}

static ElaborateOptions read_options(Front *f, int argc, char **argv)
{
    ElaborateOptions o = {0};
    const char **define = NEW_ARRAY(f->arena, const char *, argc + REMEDY_EDITS);
    for (int i = 3; i < argc; i++) {
        size_t size;
        if (strcmp(argv[i], "-D") == 0) {
            define[o.ndefine++] = after(argc, argv, &i);
        } else if (strcmp(argv[i], "--layout") == 0) {
            o.layout = after(argc, argv, &i);
        } else if (strcmp(argv[i], "--layouts") == 0) {
            const char *path = after(argc, argv, &i), *text = read_all(f->arena, path, &size);
            o.layouts = parse_text(f, path, text, size);
        } else if (strcmp(argv[i], "--device") == 0) {
            o.device = after(argc, argv, &i);
        } else if (strcmp(argv[i], "--inline") == 0) {
            o.inline_composites = true;
        } else {
            exit(usage());
        }
    }
    o.define = define;
    return o;
}

typedef struct Line {
    int argc;
    char **argv;
} Line;

/* A remedy is tried as the driver does, as far as the front end goes. */
static void try(void *ctx, Diag *d, const Remedy *edits)
{
    Line *l = ctx;
    size_t size;
    Front f = {.arena = arena_new(), .diag = d};
    f.names = names_new(f.arena);
    const char *text = read_all(f.arena, l->argv[2], &size);
    Ast *ast = mg_parse(f.arena, f.names, d, diag_add_file(d, l->argv[2], text, size));
    if (!ast)
        return;
    ElaborateOptions o = read_options(&f, l->argc, l->argv);
    for (int i = 0; i < edits->n; i++) {
        const char *with = edits->edit[i].with;
        if (edits->edit[i].at.file)
            continue;
        if (!strncmp(with, "--microbatch ", 13))
            o.microbatch = atoll(with + 13);
        else if (!strncmp(with, "--layout ", 9))
            o.layout = with + 9;
        else if (!strncmp(with, "--precision ", 12))
            o.precision = with + 12;
        else if (!strncmp(with, "-D ", 3))
            ((const char **)o.define)[o.ndefine++] = with + 3;
        else
            exit(2);
    }
    mg_elaborate(f.arena, f.names, d, ast, &o);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return usage();
    Front f = {.arena = arena_new()};
    f.names = names_new(f.arena);
    f.diag = diag_new(f.arena, stderr, false);
    trial_begin(f.arena, f.diag, try, &(Line){argc, argv});
    size_t size;
    const char *text = read_all(f.arena, argv[2], &size);
    Ast *ast = parse_text(&f, argv[2], text, size);
    ElaborateOptions options = read_options(&f, argc, argv);
    int status = 0;
    if (strcmp(argv[1], "ast") == 0)
        ast_dump(ast, stdout);
    else if (strcmp(argv[1], "fmt") == 0)
        mg_fmt(ast, stdout);
    else if (strcmp(argv[1], "roundtrip") == 0)
        status = roundtrip(&f, ast);
    else if (strcmp(argv[1], "ir") == 0 || strcmp(argv[1], "check") == 0)
        status = elaborate(&f, ast, &options, argv[1][0] == 'i');
    else
        status = usage();
    arena_free(f.arena);
    return status;
}
