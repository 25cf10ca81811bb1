/* trial.c - what is told of remedies: those that work. The compiler here finds every '?' of a text
 * to be wrong, goes on for ever at a '&', waits at a '~' for longer
 * than a trial may compute, aborts at a '!', and has an option that allows all. */
#include "base/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct Bench {
    Arena *arena;
    Diag *diag;
    FILE *out;
    char *said;
    size_t size;
    const char *text;
} Bench;

static void compile(void *ctx, Diag *d, const Remedy *edits)
{
    size_t size;
    const Bench *b = ctx;
    uint32_t file = diag_add_file(d, "t", b->text, strlen(b->text));
    const char *text = diag_text(d, file, &size);
    for (int i = 0; i < edits->n; i++)
        if (!edits->edit[i].at.file && !strcmp(edits->edit[i].with, "--all"))
            return;
    for (uint32_t i = 0; i < size; i++) {
        for (volatile bool on = text[i] == '&'; on;)
            continue;
        if (text[i] == '~')
            usleep(4500000);
        if (text[i] == '!')
            abort();
        if (text[i] == '?')
            diag_error(d, (Span){file, i, i + 1}, 101, "wrong");
        if (text[i] == ';')
            diag_stage(d, 1);
    }
}

/* Is the remedy of the error at `at` told? */
static bool told(const char *text, uint32_t at, Remedy r)
{
    Bench b = {.arena = arena_new(), .text = text};
    b.out = open_memstream(&b.said, &b.size);
    b.diag = diag_new(b.arena, b.out, false);
    trial_begin(b.arena, b.diag, compile, &b);
    uint32_t file = diag_add_file(b.diag, "t", text, strlen(text));
    diag_error(b.diag, (Span){file, at, at + 1}, 101, "wrong");
    bool yes = diag_remedy(b.diag, &r, "do so");
    fflush(b.out);
    assert_int_equal(yes, strstr(b.said, "help: do so\n") != NULL);
    assert_int_equal(diag_told(b.diag)->n, yes);
    fclose(b.out);
    free(b.said);
    arena_free(b.arena);
    return yes;
}

static Remedy edit(uint32_t begin, uint32_t end, const char *with)
{
    return (Remedy){1, {{{1, begin, end}, with}}};
}

static void what_works(void **state)
{
    (void)state;
    assert_true(told("a?b", 1, edit(1, 2, "")));
    assert_true(told("a?b", 1, edit(0, 3, "long text")));
    assert_true(told("a?b", 1, (Remedy){1, {{{0}, "--all"}}}));
    assert_true(told("a?b", 1, (Remedy){2, {{{1, 0, 0}, "first "}, {{1, 1, 2}, "."}}}));
    /* Others remain, before and behind what becomes longer. */
    assert_true(told("?a?b?", 2, edit(2, 3, "....")));
    assert_true(told("?a?b?", 2, (Remedy){2, {{{1, 1, 1}, "..."}, {{1, 2, 3}, ""}}}));
}

static void what_does_not(void **state)
{
    (void)state;
    assert_false(told("a?b", 1, edit(0, 1, "c")));      /* it is still there */
    assert_false(told("a?b", 1, edit(0, 0, "......"))); /* and only moved */
    assert_false(told("a?b", 1, edit(1, 2, "?")));      /* the same again */
    assert_false(told("a?b", 1, edit(1, 3, ".?")));     /* another in its stead */
    assert_false(told("a?b", 1, (Remedy){2, {{{1, 0, 0}, "?"}, {{1, 1, 2}, ""}}}));
    assert_false(told("a?b", 1, (Remedy){1, {{{0}, "--none"}}}));
    assert_false(told("a?b", 0, edit(1, 2, ""))); /* of no error that there is */
}

static void what_ends_badly(void **state)
{
    (void)state;
    assert_false(told("a?b", 1, edit(1, 2, "!"))); /* aborts */
    assert_false(told("a?b", 1, edit(1, 2, "&"))); /* has no end */
    /* But what came further than before is free of the error. */
    assert_true(told("a?b", 1, edit(1, 3, ";&")));
    assert_false(told("a?b", 1, edit(1, 3, "?;&")));
}

/* A busy machine changes nothing: the time is that of processors. */
static void what_waits(void **state)
{
    (void)state;
    assert_true(told("a?b", 1, edit(1, 2, "~")));
}

static void nobody_tries(void **state)
{
    (void)state;
    Arena *a = arena_new();
    FILE *out = fopen("/dev/null", "w");
    Diag *d = diag_new(a, out, false);
    diag_error(d, (Span){0}, 101, "wrong");
    assert_false(diag_remedy_option(d, "--all", "do so"));
    fclose(out);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_works),      cmocka_unit_test(what_does_not),
        cmocka_unit_test(what_ends_badly), cmocka_unit_test(what_waits),
        cmocka_unit_test(nobody_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
