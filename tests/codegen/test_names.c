/* Texts of a source in an emitted program: whatever they are, identifiers are valid and distinct,
 * strings mean what they say, and comments end where they should. */
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
    for (int round = 0; round < 3; round++)
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

/* What a C compiler makes of a literal that has octal escapes and no others but \" and \\. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(identifiers), cmocka_unit_test(strings),
                                       cmocka_unit_test(comments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
