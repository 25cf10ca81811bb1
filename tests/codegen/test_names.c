/* Texts of a source in an emitted program: whatever they are, identifiers are valid and distinct,
 * strings mean what they say, comments end where they should; numbers and lines are short. */
#include "codegen/emit/emit.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const hostile[] = {
    "",      "int",  "a.b",          "a_b",  "a b",          "9",        "\"; system(\"rm\"); //",
    "*/ x",  "/* x", "**//",         "a\\",  "?\?/",         "%s%n",     "\n#include \"x\"",
    "a_b_2", "a-b",  "\x7f\x80\xff", "\t\v", "trailing\\\n", "\303\244", "_Generic",
};
enum { HOSTILE = sizeof hostile / sizeof *hostile };

static void identifiers(void **state)
{
    (void)state;
    Arena *a = arena_new();
    CNames n = cnames_new(a);
    const char *given[3 * HOSTILE + 2];
    char longest[1000];
    int count = 0;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    for (int iteration = 0; iteration < 3; iteration++)
        for (int i = 0; i < HOSTILE; i++)
            given[count++] = cname(&n, "t_", hostile[i]);
    given[count++] = cname(&n, "t_", longest);
    longest[500] = 'y'; /* past where identifiers are cut */
    given[count++] = cname(&n, "t_", longest);
    for (int i = 0; i < count; i++) {
        assert_memory_equal(given[i], "t_", 2);
        assert_true(strlen(given[i]) < 100);
        for (const char *c = given[i]; *c; c++)
            assert_true(*c == '_' || (isalnum((unsigned char)*c) && (unsigned char)*c < 128));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(given[i], given[k]);
    }
    arena_free(a);
}

/* Decodes a literal as a C compiler does; its escapes are octal, \" and \\ only. */
static size_t meaning(const char *literal, char *to)
{
    size_t n = 0;
    assert_int_equal(*literal++, '"');
    while (*literal != '"') {
        assert_true(*literal >= 32 && *literal < 127 && *literal != '?');
        if (*literal != '\\') {
            to[n++] = *literal++;
        } else if (literal[1] == '"' || literal[1] == '\\') {
            to[n++] = literal[1];
            literal += 2;
        } else {
            for (int k = 1; k <= 3; k++)
                assert_true(literal[k] >= '0' && literal[k] <= '7');
            to[n++] =
                (char)((literal[1] - '0') << 6 | (literal[2] - '0') << 3 | (literal[3] - '0'));
            literal += 4;
        }
    }
    assert_int_equal(literal[1], 0);
    return n;
}

static void strings(void **state)
{
    (void)state;
    for (int i = 0; i < HOSTILE; i++) {
        char *text, back[200];
        size_t size;
        FILE *f = open_memstream(&text, &size);
        emit_string(f, hostile[i]);
        fclose(f);
        size_t n = meaning(text, back);
        assert_int_equal(n, strlen(hostile[i]));
        assert_memory_equal(back, hostile[i], n);
        free(text);
    }
}

static void comments(void **state)
{
    (void)state;
    for (int i = 0; i < HOSTILE; i++)
        for (int k = 0; k < HOSTILE; k++) {
            char both[200], *text;
            size_t size;
            int n = snprintf(both, sizeof both, "%s%s", hostile[i], hostile[k]);
            FILE *f = open_memstream(&text, &size);
            emit_comment_text(f, both, (size_t)n);
            fclose(f);
            assert_null(strstr(text, "*/"));
            assert_null(strstr(text, "/*"));
            for (size_t c = 0; c < size; c++)
                assert_true(text[c] >= 32 && text[c] < 127 && text[c] != '\\');
            free(text);
        }
}

static void numbers(void **state)
{
    (void)state;
    Arena *a = arena_new();
    static const struct {
        double x;
        const char *text;
    } known[] = {{0, "0"},     {60, "60"},      {-1, "-1"},           {0.003, "0.003"},
                 {0.1, "0.1"}, {1e-5, "1e-05"}, {1.5e300, "1.5e300"}, {5e-324, "5e-324"}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        assert_string_equal(real_text(a, known[k].x), known[k].text);
    for (int k = 1; k < 1000; k++) {
        double x = 1.0 / k * (k % 7 - 3.0) * (k % 5 ? 1 : 1e20);
        assert_true(strtod(real_text(a, x), NULL) == x);
    }
    arena_free(a);
}

/* Long lines are broken, and mean what they meant: nothing but blanks changes outside of strings,
 * and nothing at all in them. */
static void lines(void **state)
{
    (void)state;
    for (int i = 0; i < HOSTILE; i++) {
        char *line, *text;
        size_t n, size;
        FILE *f = open_memstream(&line, &n);
        fputs("static const char *const t[] = {", f);
        for (int k = 0; k < 12; k++) {
            fputs(k ? ", " : "", f);
            emit_string(f, "some words, with blanks");
            fputs(" ", f);
            emit_string(f, hostile[i]);
        }
        fputs("};", f);
        fclose(f);
        f = open_memstream(&text, &size);
        emit_wrapped(f, line);
        fclose(f);
        const char *from = line;
        int width = 0;
        for (const char *to = text; *to; to++) {
            width = *to == '\n' ? 0 : width + 1;
            assert_in_range(width, 0, EMIT_WIDTH);
            if (*to == '\n') {
                assert_true(*from == ' ' || !*from);
                from += *from == ' ';
                to += strspn(to + 1, " ");
            } else {
                assert_int_equal(*to, *from++);
            }
        }
        assert_int_equal(*from, 0);
        free(line);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(identifiers), cmocka_unit_test(strings),
                                       cmocka_unit_test(comments), cmocka_unit_test(numbers),
                                       cmocka_unit_test(lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
