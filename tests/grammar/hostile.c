/* hostile.c - programs that nobody means well with: each is answered, with errors or without,
 * within seconds, and what is printed stays short. */
#include "grammar/grammar.h"
#include "tests/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { SECONDS = SANITIZED ? 60 : 5, PRINTED_MAX = 64 << 10 };
enum { PARTS = SANITIZED ? 6 : 2 }; /* of what takes long */

typedef struct Text {
    char *data;
    size_t n, cap;
} Text;

static void add(Text *t, const char *s, size_t n)
{
    if (t->n + n + 1 > t->cap) {
        t->cap = (t->n + n + 1) * 2;
        t->data = realloc(t->data, t->cap);
        assert_non_null(t->data);
    }
    memcpy(t->data + t->n, s, n);
    t->n += n;
    t->data[t->n] = 0;
}

static void put(Text *t, const char *s)
{
    add(t, s, strlen(s));
}

__attribute__((format(printf, 2, 3))) static void putf(Text *t, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    put(t, line);
}

static void repeated(Text *t, const char *s, int times)
{
    for (int i = 0; i < times; i++)
        put(t, s);
}

/* Reads the text and frees it; true if it made a program. `code`, if any, must be printed. */
static bool answer_with(const char *name, Text *t, const char *code)
{
    Arena *arena = arena_new();
    char *printed;
    size_t size;
    FILE *out = open_memstream(&printed, &size);
    Names *names = names_new(arena);
    Diag *diag = diag_new(arena, out, false);
    struct timespec from, to;
    put(t, ""); /* an empty text is a text */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    Ast *ast = mg_parse(arena, names, diag, diag_add_file(diag, "hostile.mg", t->data, t->n));
    ElaborateOptions o = {0};
    Module *m = ast ? mg_elaborate(arena, names, diag, ast, &o) : NULL;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    fclose(out);
    double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    if (seconds > SECONDS || size > PRINTED_MAX || (!m && !diag_errors(diag)) ||
        (m && diag_errors(diag)))
        fail_msg("%s: %.1f s, %zu bytes printed, %d errors, %s", name, seconds, size,
                 diag_errors(diag), m ? "accepted" : "refused");
    if (getenv("MGC_SHOW"))
        printf("%-24s %.2f s %d errors\n%.400s\n", name, seconds, diag_errors(diag), printed);
    if (code && !strstr(printed, code))
        fail_msg("%s: no %s in:\n%.1000s", name, code, printed);
    free(printed);
    free(t->data);
    *t = (Text){0};
    arena_free(arena);
    return m;
}

static bool answer(const char *name, Text *t)
{
    return answer_with(name, t, NULL);
}

static void refused_with(const char *name, Text *t, const char *code)
{
    if (answer_with(name, t, code))
        fail_msg("%s: accepted", name);
}

static void refused(const char *name, Text *t)
{
    if (answer(name, t))
        fail_msg("%s: accepted", name);
}

static const char dims[] = "dim batch = 2, seq = 4, vocab = 8, hidden = 2, deep = 2\n";
static const char head[] = "model m(tokens[batch, seq] : token(vocab)) {\n"
                           "table : param[vocab, hidden] = 0\nx = table[tokens]\n";
static const char tail[] = "\nloss = cross_entropy(x @ table over hidden, next(tokens))\n}\n"
                           "train { optimizer sgd() lr 0.1 }\n";

/* ---- depth -------------------------------------------------------------------------------- */

static void deep_parentheses(void **state)
{
    (void)state;
    Text t = {0};
    put(&t, "const a = ");
    repeated(&t, "(", 100000);
    put(&t, "1");
    repeated(&t, ")", 100000);
    refused_with("parentheses", &t, "MG0107");
}

static void deep(void **state)
{
    (void)state;
    static const char *const open[] = {
        "(",  "-", "f(", "x[", "{", "repeat deep { ", "[", "1 + ", "x @ ", "block f(x) { ",
        "\"", "@", "->"};
    Text t = {0};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        if (!sampled(i, PARTS))
            continue;
        put(&t, "const a = ");
        repeated(&t, open[i], 100000);
        refused(open[i], &t);
        put(&t, dims);
        put(&t, head);
        put(&t, "y = ");
        repeated(&t, open[i], 100000);
        put(&t, tail);
        refused(open[i], &t);
        put(&t, dims);
        put(&t, head);
        repeated(&t, open[i], 100000);
        refused(open[i], &t);
    }
}

static void deep_calls(void **state)
{
    (void)state;
    Text t = {0};
    if (sampled(0, PARTS)) {
        put(&t, dims);
        put(&t, "block f0(x) {\nreturn x\n}\n");
        for (int i = 1; i < 2000; i++)
            putf(&t, "block f%d(x) {\nreturn f%d(x)\n}\n", i, i - 1);
        put(&t, head);
        put(&t, "x = f1999(x)\n");
        put(&t, tail);
        refused_with("a chain of calls", &t, "MG0256");
    }
    if (sampled(1, PARTS)) {
        put(&t, dims);
        put(&t, "block f0(x) {\nreturn x\n}\n");
        for (int i = 1; i < 20; i++) {
            putf(&t, "block f%d(x) {\nreturn ", i);
            repeated(&t, "(", 100);
            putf(&t, "f%d(x)", i - 1);
            repeated(&t, ")", 100);
            put(&t, "\n}\n");
        }
        put(&t, head);
        put(&t, "x = f19(x)\n");
        put(&t, tail);
        refused_with("deep expressions in calls", &t, "MG0231");
    }
    if (sampled(2, PARTS)) {
        put(&t, dims);
        put(&t, "block f0(x) {\nreturn x\n}\n");
        for (int i = 1; i < 100; i++)
            putf(&t, "block f%d(x) {\nreturn f%d(f%d(x))\n}\n", i, i - 1, i - 1);
        put(&t, head);
        put(&t, "x = f99(x)\n");
        put(&t, tail);
        refused_with("a tree of calls", &t, "MG0230");
    }
    if (sampled(3, PARTS)) {
        put(&t, dims);
        put(&t, "block f0(x) {\nreturn exp(x) + sin(x)\n}\n");
        for (int i = 1; i < 100; i++)
            putf(&t, "block f%d(x) {\nreturn f%d(f%d(x))\n}\n", i, i - 1, i - 1);
        put(&t, head);
        put(&t, "x = f99(x)\n");
        put(&t, tail);
        refused_with("a tree of operations", &t, "MG0230");
    }
    if (sampled(4, PARTS)) {
        put(&t, dims);
        put(&t, "block f(x) {\nreturn g(x)\n}\nblock g(x) {\nreturn f(x)\n}\n");
        put(&t, head);
        put(&t, "x = f(x)\n");
        put(&t, tail);
        refused_with("recursion", &t, "MG0232");
    }
}

static void deep_definitions(void **state)
{
    (void)state;
    Text t = {0};
    for (int i = 0; i < 100000; i++)
        putf(&t, "dim a%d = a%d\n", i, i + 1);
    put(&t, "dim a100000 = 1\n");
    refused("dims of dims", &t);
    for (int i = 0; i < 10000; i++)
        putf(&t, "layout l%d : l%d { device cpu }\n", i, i + 1);
    refused_with("layouts of layouts", &t, "MG0320");
}

/* ---- size --------------------------------------------------------------------------------- */

static void many(void **state)
{
    (void)state;
    Text t = {0};
    if (sampled(0, PARTS)) {
        put(&t, dims);
        put(&t, head);
        for (int i = 0; i < 400000; i++)
            putf(&t, "p%d : param[hidden] = 0\n", i);
        put(&t, tail);
        refused_with("400000 parameters", &t, "MG0265");
    }
    if (sampled(1, PARTS)) {
        put(&t, dims);
        put(&t, head);
        for (int i = 0; i < 20000; i++)
            putf(&t, "p%d : param[hidden] = 0\nx = x + p%d\n", i, i);
        put(&t, tail);
        assert_true(answer("20000 parameters", &t));
    }
    if (sampled(2, PARTS)) {
        put(&t, dims);
        for (int i = 0; i < 400000; i++)
            putf(&t, "dim d%d = %d\n", i, i + 1);
        put(&t, head);
        put(&t, tail);
        answer("400000 dims", &t);
    }
    if (sampled(3, PARTS)) {
        put(&t, dims);
        put(&t, head);
        for (int i = 0; i < 300000; i++)
            put(&t, "x = dropout(x, p = 0.5)\n");
        put(&t, tail);
        refused("much dropout", &t);
    }
    if (sampled(4, PARTS)) {
        put(&t, "train {\n");
        for (int i = 0; i < 300000; i++)
            putf(&t, "s%d 1\n", i);
        put(&t, "}\n");
        refused("many settings", &t);
    }
    if (sampled(5, PARTS)) {
        put(&t, dims);
        put(&t, head);
        put(&t, tail);
        put(&t, "layout {\nmesh a0 = 1");
        for (int i = 1; i < 100000; i++)
            putf(&t, ", a%d = 1", i);
        for (int i = 1; i < 100000; i++)
            putf(&t, "\nhidden -> a%d", i);
        put(&t, "\n}\n");
        refused_with("many axes", &t, "MG0302");
    }
}

static void long_lines(void **state)
{
    (void)state;
    enum { TEN_MB = 10 << 20 };
    static const struct {
        const char *before, *unit;
    } cases[] = {{"dim ", "a"},
                 {"const a = ", "1"},
                 {"# ", "c"},
                 {"\"", "s"},
                 {"const a = 1", " + 1"},
                 {"dim a = 1", ", b = 2"},
                 {"block f(a", ", a"},
                 {"const a = f(1", ", 1"},
                 {"", " "},
                 {"", "\t"},
                 {"", "$"},
                 {"", "\x01"},
                 {"", "\xff"},
                 {"layout { a", ", a"},
                 {"layout { ", "a -> b "},
                 {"train { ", "a 1 "},
                 {"", "}"},
                 {"", "a "}};
    Text t = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!sampled(i, PARTS))
            continue;
        put(&t, cases[i].before);
        repeated(&t, cases[i].unit, TEN_MB / (int)strlen(cases[i].unit));
        refused(cases[i].unit, &t);
    }
    add(&t, "", 1);
    for (int i = 0; i < 400000; i++)
        add(&t, "dim\0a", 5);
    refused("zero bytes", &t);
    refused("nothing", &t);
    for (int i = 0; i < 7; i++)
        repeated(&t, "# 0123456789abcdef0123456789abcd\n", TEN_MB / 32);
    refused_with("seventy megabytes", &t, "MG0108");
}

/* ---- noise -------------------------------------------------------------------------------- */

static uint64_t random64(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void random_bytes(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    Text t = {0};
    for (int i = 0; i < 300; i++) {
        size_t n = random64(&seed) % 3000;
        for (size_t k = 0; k < n; k++) {
            char c = (char)random64(&seed);
            add(&t, &c, 1);
        }
        put(&t, "$");
        refused("random bytes", &t);
    }
    for (size_t k = 0; k < 1 << 20; k++) {
        uint64_t word = random64(&seed);
        add(&t, (const char *)&word, 8);
    }
    refused("eight random megabytes", &t);
}

static void random_tokens(void **state)
{
    (void)state;
    static const char *const words[] = {
        "dim", "const", "block", "model",  "train",   "layout", "param", "repeat", "return",
        "as",  "over",  "along", "where",  "to",      "x 3",    "->",    "<=",     "==",
        "(",   ")",     "[",     "]",      "{",       "}",      ",",     ":",      "=",
        "+",   "-",     "*",     "/",      "@",       "~",      "<",     ">",      "\n",
        "x",   "y",     "f",     "hidden", "seq",     "tokens", "batch", "vocab",  "loss",
        "1",   "2.5",   "1f1b",  "3 GB",   "\"s{}\"", "normal", "exp",   "next",   "cross_entropy",
        "\n",  "\n",    "table", "deep",   "1e3",     "rope",   "sum",   "select", "# c\n"};
    uint64_t seed = 1234567;
    Text t = {0};
    for (int i = 0; i < 3000; i++) {
        put(&t, dims);
        put(&t, head);
        size_t n = random64(&seed) % 40;
        for (size_t k = 0; k < n; k++)
            putf(&t, "%s ", words[random64(&seed) % (sizeof words / sizeof *words)]);
        put(&t, tail);
        answer("random tokens", &t);
    }
}

/* One byte of a real model changed, dropped or doubled. */
static void mutated_models(void **state)
{
    (void)state;
    static const char *const models[] = {"llama_mini.mg", "gpt2_124m.mg", "mlp.mg", "llama7b.mg"};
    static const char bytes[] = "()[]{}=:,+-*/@~<>\"#a1 \n";
    uint64_t seed = 424242;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char path[512], text[1 << 14];
        snprintf(path, sizeof path, "%s/models/%s", MGC_SOURCE, models[m]);
        FILE *in = fopen(path, "rb");
        assert_non_null(in);
        size_t n = fread(text, 1, sizeof text, in);
        fclose(in);
        for (int i = 0; i < 1000; i++) {
            size_t at = random64(&seed) % n;
            Text t = {0};
            add(&t, text, at);
            char c = bytes[random64(&seed) % (sizeof bytes - 1)];
            if (i % 3 != 1)
                add(&t, &c, 1);
            add(&t, text + at + (i % 3 != 2), n - at - (i % 3 != 2));
            answer(models[m], &t);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_parentheses),
        cmocka_unit_test(deep),
        cmocka_unit_test(deep_calls),
        cmocka_unit_test(deep_definitions),
        cmocka_unit_test(many),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(random_tokens),
        cmocka_unit_test(mutated_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
