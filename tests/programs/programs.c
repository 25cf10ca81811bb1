/* programs.c - exit 70 is never a user's: random programs of the whole language through the
 * compiler and the reference interpreter.
 *
 *   programs [--seed N] [--count M] [--stats] [--show CODE] [--print] [--whole]
 *   programs F.mg...
 *
 * Program i of a run is that of seed N + i: --seed N --count 1 repeats one. Every fourth has one
 * small thing changed that may make it no program. Each is accepted, and then computes what it
 * says, or is refused with an error that has a code; anything else is printed, made small, and ends
 * the run with
 * 1. --stats says what the programs are made of and how they end; --show prints those refused with
 * a code; --print all of them. Without --count it is a sample, with MGC_FULL 20,000. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/gen.h"
#include "tests/programs/stats.h"
#include "tests/programs/try.h"
#include "tests/sample.h"

enum { SAMPLE = SANITIZED ? 100 : 600, FULL = 20000, FAILURES_MAX = 10 };

typedef struct Run {
    uint64_t seed;
    int count, show;
    bool stats, print, whole;
    char **files;
} Run;

static bool number_after(const char *name, char **argv, int i, uint64_t *to)
{
    if (strcmp(argv[i], name) != 0 || !argv[i + 1])
        return false;
    *to = strtoull(argv[i + 1], NULL, 10);
    return true;
}

static bool read_options(Run *r, int argc, char **argv)
{
    uint64_t n;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--stats"))
            r->stats = true;
        else if (!strcmp(argv[i], "--print"))
            r->print = true;
        else if (!strcmp(argv[i], "--whole"))
            r->whole = true;
        else if (number_after("--seed", argv, i, &n))
            r->seed = n, i++;
        else if (number_after("--count", argv, i, &n))
            r->count = (int)n, i++;
        else if (number_after("--show", argv, i, &n))
            r->show = (int)n, i++;
        else if (argv[i][0] != '-' && i == 1)
            return (r->files = argv + 1) != NULL;
        else
            return false;
    }
    return true;
}

static void report(Arena *a, const Run *r, uint64_t seed, const char *text, const Tried *t)
{
    printf("---- seed %llu: %s\n%s\n%s", (unsigned long long)seed, outcome_names[t->outcome], text,
           t->said);
    fflush(stdout);
    if (r->whole)
        return;
    const char *less = shrink(a, text, seed, !r->files, t);
    Tried again = try_program(a, less, seed, !r->files);
    printf("---- seed %llu, made small: %s\n%s\n%s", (unsigned long long)seed,
           outcome_names[again.outcome], less, again.said);
    fflush(stdout);
}

static char *read_file(Arena *a, const char *path)
{
    enum { LIMIT = 1 << 16 };
    char *text = arena_alloc(a, LIMIT);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, LIMIT - 1, f) : 0;
    text[n] = 0;
    if (!n)
        fprintf(stderr, "programs: %s cannot be read\n", path);
    if (f)
        fclose(f);
    return text;
}

/* Whether a file ends as it says, whatever is asked beside: some of what may be, which turns. */
static bool file_holds(const Run *r, const char *path)
{
    enum { SEEDS = 30 };
    bool good = true;
    for (uint64_t seed = 1; seed <= SEEDS && good; seed++) {
        if (!sampled(seed - 1, SANITIZED ? 15 : 3))
            continue;
        Arena *a = arena_new();
        const char *text = read_file(a, path), *code = strstr(text, "(MG");
        int wanted = code && code < strchr(text, '\n') ? atoi(code + 3) : 0;
        Tried t = try_program(a, text, seed, false);
        bool as_said = wanted ? t.code == wanted : t.outcome == TRY_accepted;
        good = *text && !is_failure(t.outcome) && as_said;
        if (is_failure(t.outcome))
            report(a, r, seed, text, &t);
        else if (!good)
            printf("%s, seed %llu: %s\n%s", path, (unsigned long long)seed,
                   outcome_names[t.outcome], t.said);
        arena_free(a);
    }
    printf("%-60s %s\n", path, good ? "holds" : "FAILS");
    return good;
}

static int all_files(const Run *r)
{
    bool good = true;
    for (char **f = r->files; *f; f++)
        good &= file_holds(r, *f);
    return !good;
}

int main(int argc, char **argv)
{
    Run r = {.seed = 1 + sample_turn() * SAMPLE, .count = sample_full() ? FULL : SAMPLE};
    if (!read_options(&r, argc, argv)) {
        fprintf(
            stderr,
            "usage: programs [--seed N] [--count M] [--stats] [--show CODE] [--print] [--whole]\n"
            "       programs F.mg...\n");
        return 64;
    }
    if (r.files)
        return all_files(&r);
    int failures = 0;
    static Stats stats;
    for (int i = 0; i < r.count && failures < FAILURES_MAX; i++) {
        Arena *a = arena_new();
        uint64_t seed = r.seed + (uint64_t)i, rng = seed;
        const char *text = gen_program(a, seed);
        bool changed = seed % 4 == 0;
        if (changed)
            text = gen_mutate(a, text, &rng);
        if (r.print)
            printf("%s", text);
        Tried t = try_program(a, text, seed, true);
        stats_add(&stats, text, changed, &t);
        if (r.show && t.code == r.show)
            printf("---- seed %llu%s\n%s\n%s", (unsigned long long)seed, changed ? ", changed" : "",
                   text, t.said);
        if (is_failure(t.outcome)) {
            failures++;
            report(a, &r, seed, text, &t);
        }
        arena_free(a);
    }
    if (r.stats)
        stats_table(&stats);
    stats_summary(&stats);
    return failures != 0 || !stats_show_something(&stats, r.count);
}
