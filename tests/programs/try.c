/* try.c - see try.h. */
#include "tests/programs/try.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/session.h"
#include "tests/programs/gen.h"
#include "tests/sample.h"

enum { SECONDS = SANITIZED ? 120 : 20, SAID_MAX = 1 << 16 };

const char *const outcome_names[TRY_count] = {
    "accepted", "refused",         "infeasible",     "INTERNAL ERROR", "CRASH",
    "HANG",     "NO REASON GIVEN", "FORMAT DIFFERS", "NUMBERS DIFFER"};

/* ---- in the child ---------------------------------------------------------------------------- */

static _Noreturn void leave(int status)
{
    fflush(stderr);
    _exit(status);
}

/* The canonical text says the same, and is its own canonical text. */
static void check_format(const char *text)
{
    Arena *a = arena_new();
    Names *names = names_new(a);
    Diag *d = diag_new(a, stderr, false);
    Ast *ast = mg_parse(a, names, d, diag_add_file(d, "program.mg", text, strlen(text)));
    char *once, *twice;
    size_t n;
    if (!ast)
        leave(EXIT_FORMAT);
    FILE *out = open_memstream(&once, &n);
    mg_fmt(ast, out);
    fclose(out);
    Ast *again = mg_parse(a, names, d, diag_add_file(d, "formatted.mg", once, n));
    if (!again || !ast_equal(ast, again))
        leave(EXIT_FORMAT);
    out = open_memstream(&twice, &n);
    mg_fmt(again, out);
    fclose(out);
    if (strcmp(once, twice) != 0)
        leave(EXIT_FORMAT);
    free(once);
    free(twice);
    arena_free(a);
}

/* Draws the options that mgc is given. */
static void draw_options(Options *o, const char *text, bool change, uint64_t *rng)
{
    static const char *const precisions[] = {"f32", "bf16", "f16", "tf32", "f64", "fp8"};
    static const char *const defines[] = {"layers=2", "batch=4",  "tp=1",
                                          "dp=2",     "hidden=8", "c1=2"};
    static const char *const keeps[] = {"auto", "none", "all"};
    const char *device = strstr(text, "    device ");
    bool gpu = device && device[11] != 'c';
    o->check = true;
    switch (gen_random(rng) % 10) {
    case 0:
        o->check = false;
        o->emit = gpu ? "cuda" : "c";
        break;
    case 1:
        o->plan = gen_random(rng) % 2 ? "" : "json";
        break;
    case 2:
        o->frontier = true;
        break;
    case 3:
        o->schedule = o->fusion = true;
        break;
    case 4:
        o->report = "/dev/null";
        break;
    case 5:
        o->trace = o->memory = "/dev/null";
        break;
    case 6:
        vec_push(arena_new(), &o->print_after, "all");
        break;
    default:
        break;
    }
    if (gen_random(rng) % 6 == 0)
        o->precision = precisions[gen_random(rng) % 6];
    if (gen_random(rng) % 12 == 0)
        o->recompute = keeps[gen_random(rng) % 3];
    if (change && gen_random(rng) % 20 == 0)
        o->microbatch = gen_random(rng) % 2 ? "1" : "2";
    if (gen_random(rng) % 20 == 0)
        o->overlap = gen_random(rng) % 2 ? "none" : "auto";
    if (strstr(text, "\nlayout more") && gen_random(rng) % 2)
        o->layout = "more";
    if (change && gen_random(rng) % 20 == 0)
        vec_push(arena_new(), &o->define, defines[gen_random(rng) % 6]);
}

/* A value's life, by some name of the text: whatever there is to say of it. */
static void explain(Arena *a, const Options *o, const char *path, const char *text)
{
    static const char *const stems[] = {"    w", "    v", "    x", "    head"};
    Options same = {.define = o->define, .layout = o->layout, .precision = o->precision};
    for (int i = 0; i < 4; i++) {
        const char *at = strstr(text, stems[i]);
        if (!at)
            continue;
        at += strspn(at, " ");
        Session s = {
            .arena = a, .names = names_new(a), .diag = diag_new(a, stdout, false), .o = &same};
        if (explain_name(&s, path, arena_strndup(a, at, strcspn(at, " =:("))) == EXIT_internal)
            leave(EXIT_internal);
    }
}

static _Noreturn void child(const char *path, const char *text, uint64_t seed, bool change,
                            Shared *shared)
{
    uint64_t rng = seed;
    Options o = {0};
    Arena *a = arena_new();
    vec_push(a, &o.words, path);
    draw_options(&o, text, change, &rng);
    Session s = {.arena = a, .names = names_new(a), .diag = diag_new(a, stderr, false), .o = &o};
    Exit status = compile(&s);
    if (status == EXIT_done && gen_random(&rng) % 8 == 0)
        explain(a, &o, path, text);
    fflush(stdout);
    if (status == EXIT_usage && o.emit) /* the device is that of another layout */
        status = EXIT_done;
    if (status == EXIT_done) {
        check_format(text);
        compare_numbers(path, text, seed, shared);
    }
    leave(status);
}

/* ---- in the parent --------------------------------------------------------------------------- */

/* One folder for all programs of a run. */
static const char *folder(void)
{
    static char path[] = "/tmp/mgc-programs-XXXXXX";
    static bool made;
    if (!made && !mkdtemp(path))
        abort();
    made = true;
    return path;
}

static char *in_folder(Arena *a, const char *name)
{
    return arena_printf(a, "%s/%s", folder(), name);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        abort();
}

static const char *read_said(Arena *a, const char *path)
{
    char *said = arena_alloc(a, SAID_MAX);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(said, 1, SAID_MAX - 1, f) : 0;
    said[n] = 0;
    if (f)
        fclose(f);
    return said;
}

static int first_code(const char *said)
{
    const char *at = strstr(said, "error[MG");
    return at ? atoi(at + 8) : 0;
}

static Outcome outcome_of(int status, const char *said)
{
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL ? TRY_hang : TRY_crash;
    switch (WEXITSTATUS(status)) {
    case EXIT_done:
        return TRY_accepted;
    case EXIT_source:
        return first_code(said) ? TRY_refused : TRY_silent;
    case EXIT_infeasible:
        return first_code(said) ? TRY_infeasible : TRY_silent;
    case EXIT_internal:
        return TRY_internal;
    case EXIT_FORMAT:
        return TRY_format;
    case EXIT_NUMBERS:
    case 255: /* of cmocka, where an assertion of the library of tests fails */
        return TRY_numbers;
    default:
        return strstr(said, "Sanitizer") || strstr(said, "runtime error") ? TRY_crash : TRY_silent;
    }
}

static void begin(const char *said)
{
    struct rlimit seconds = {SECONDS, SECONDS + 1}, core = {0, 0};
    int null = open("/dev/null", O_WRONLY), out = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(null, 1);
    dup2(out, 2);
    setrlimit(RLIMIT_CPU, &seconds);
    setrlimit(RLIMIT_CORE, &core);
    setenv("TMPDIR", folder(), 1); /* what an internal error leaves */
}

Tried try_program(Arena *a, const char *text, uint64_t seed, bool change)
{
    const char *path = in_folder(a, "program.mg"), *said = in_folder(a, "said");
    Shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    write_file(path, text);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        begin(said);
        child(path, text, seed, change, shared);
    }
    waitpid(pid, &status, 0);
    Tried t = {.said = read_said(a, said), .compared = shared->compared, .ranks = shared->ranks};
    t.outcome = outcome_of(status, t.said);
    t.code = first_code(t.said);
    munmap(shared, sizeof *shared);
    return t;
}
