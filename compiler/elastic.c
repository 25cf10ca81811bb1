/* elastic.c - mgc --elastic: programs of one model for several numbers of ranks, each planned and
 * proved by itself, in one executable. */
#include "compiler/session.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/link/link.h"
#include "plan/place/place.h"

/* The range of --elastic: sizes of an axis, or numbers of ranks. */
typedef struct Range {
    const char *axis;
    bool named; /* of this axis; else of ranks */
    int64_t from, to;
} Range;

/* A size of the axis, and what became of it. */
typedef struct Made {
    int64_t ranks, size;
    const char *why; /* it cannot be; NULL: it is made */
    const char *mesh, *path;
    int64_t bytes;
    double seconds;
} Made;

static Exit usage(Session *s, const char *text, const char *help)
{
    diag_error(s->diag, (Span){0}, 0, "%s", text);
    diag_help(s->diag, "%s", help);
    return EXIT_usage;
}

static bool whole(const char **text, int64_t *n)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    *n = strtoll(*text, &end, 10);
    *text = end;
    return true;
}

/* "2..4", "dp=2..4", "4". */
static Exit read_range(Session *s, Range *r)
{
    const char *text = s->o->elastic, *equals = strchr(text, '='), *at = equals ? equals + 1 : text;
    r->named = equals;
    if (equals)
        r->axis = arena_strndup(s->arena, text, (size_t)(equals - text));
    bool good = (!equals || equals > text) && whole(&at, &r->from);
    r->to = r->from;
    if (good && !strncmp(at, "..", 2)) {
        at += 2;
        good = whole(&at, &r->to);
    }
    if (!good || *at)
        return usage(s, arena_printf(s->arena, "--elastic '%s' is no range of ranks", text),
                     "--elastic 56..64, or of an axis: --elastic dp=7..8");
    if (r->from < 1 || r->to < r->from || r->to - r->from >= VARIANTS_MAX)
        return usage(s,
                     arena_printf(s->arena, "--elastic %s: a range counts up from 1, of at most %d",
                                  text, VARIANTS_MAX),
                     "--elastic 56..64");
    return EXIT_done;
}

static Exit check(Session *s)
{
    const Options *o = s->o;
    const bool json = o->plan && *o->plan;
    const char *other = o->emit            ? "emit"
                        : o->generate      ? "generate"
                        : o->from          ? "from"
                        : o->frontier      ? "frontier"
                        : o->fusion        ? "fusion"
                        : o->schedule      ? "schedule"
                        : o->trace         ? "trace"
                        : o->report        ? "report"
                        : o->memory        ? "memory"
                        : o->print_after.n ? "print-after"
                        : o->proposals     ? "proposals"
                        : json             ? "plan=json"
                                           : NULL;
    if (!other)
        return EXIT_done;
    return usage(
        s, arena_printf(s->arena, "--%s is of one program, and --elastic makes several", other),
        "-D NAME=VALUE sets the size of an axis for one of them");
}

/* The axis that the batch is split on, of the layout as it is. */
static Exit find_axis(Session *s, Range *r, int64_t *others)
{
    Compiled c = {0};
    *others = 1;
    if (r->named)
        return EXIT_done;
    const Exit wrong = compile_front(s, s->o->words.data[0], &c);
    if (wrong)
        return wrong;
    const Module *m = c.module;
    const Axes axes = mesh_batch_axes(m);
    size_t i = 0;
    while (i < m->layout.mesh.n && !(axes >> i & 1))
        i++;
    if (i == m->layout.mesh.n) {
        diag_error(
            s->diag, (Span){0}, 625,
            "--elastic %s: the layout '%s' splits the batch on no axis of more than one rank",
            s->o->elastic, name_str(s->names, m->layout.name));
        diag_help(s->diag, "name the axis: --elastic dp=%lld..%lld", (long long)r->from,
                  (long long)r->to);
        return EXIT_source;
    }
    r->axis = name_str(s->names, m->layout.mesh.data[i].name);
    *others = mesh_ranks(m) / m->layout.mesh.data[i].size;
    return EXIT_done;
}

/* The message of the first error in what was told. */
static const char *first_error(Arena *a, const char *told)
{
    const char *at = strstr(told, "error");
    const char *text = at ? strstr(at, ": ") : NULL;
    if (!text)
        return "it does not compile";
    return arena_strndup(a, text + 2, strcspn(text + 2, "\n"));
}

static const char *mesh_text(Arena *a, const Names *names, const Module *m)
{
    const char *text = "";
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        text = arena_printf(a, "%s%s%s=%lld", text, *text ? ", " : "",
                            name_str(names, m->layout.mesh.data[i].name),
                            (long long)m->layout.mesh.data[i].size);
    return *text ? text : "one rank";
}

/* Compiles the program of one size, into `folder` if there is one. */
static Exit make(Session *s, const Range *r, const char *folder, Made *made)
{
    char *told = NULL;
    size_t length;
    Options o = *s->o;
    Arena *a = arena_new();
    FILE *memory = open_memstream(&told, &length);
    Session one = {.arena = a,
                   .names = names_new(a),
                   .diag = diag_new(a, memory, false),
                   .o = &o,
                   .trial = true};
    Compiled c = {0};
    o.define = (Words){0};
    for (size_t i = 0; i < s->o->define.n; i++)
        vec_push(a, &o.define, s->o->define.data[i]);
    vec_push(a, &o.define, arena_printf(a, "%s=%lld", r->axis, (long long)made->size));
    Exit wrong = compile_front(&one, o.words.data[0], &c);
    if (!wrong)
        wrong = compile_middle(&one, &c, NULL, NULL);
    if (!wrong) {
        made->ranks = mesh_ranks(c.module);
        made->mesh = mesh_text(s->arena, one.names, c.module);
        made->bytes = plan_bytes(c.plan);
        made->seconds = c.plan->train->seconds;
        made->path =
            folder ? arena_printf(s->arena, "%s/%lld", folder, (long long)made->ranks) : NULL;
        if (folder && !codegen_build(c.plan, llvm_kernels, home_dir(a), made->path))
            wrong = EXIT_tool;
    }
    fclose(memory);
    if (wrong == EXIT_tool || wrong == EXIT_internal)
        fputs(told, stderr);
    made->why = wrong ? first_error(s->arena, told) : NULL;
    free(told);
    arena_free(a);
    return wrong;
}

static void show(const Session *s, const Made *m)
{
    Arena *a = s->arena;
    if (m->why)
        printf("  %5s  %-20s  %s\n", "not", m->mesh, m->why);
    else
        printf("  %5lld  %-20s  %10s  %s\n", (long long)m->ranks, m->mesh,
               text_bytes(a, (double)m->bytes), text_seconds(a, m->seconds));
}

static Exit join(Session *s, const Made *made, int n)
{
    Variant of[VARIANTS_MAX];
    int k = 0;
    for (int i = n - 1; i >= 0; i--)
        if (!made[i].why)
            of[k++] = (Variant){made[i].ranks, made[i].path};
    return codegen_join(s->diag, s->arena, of, k, s->o->out) ? EXIT_done : EXIT_tool;
}

/* All sizes of the range; *n: how many there are. */
static Exit make_all(Session *s, const Range *r, int64_t others, const char *folder, Made *made,
                     int *n)
{
    int good = 0;
    printf("  ranks  %-20s  %10s  %s\n", "mesh", "memory", "step, predicted");
    for (int64_t k = r->from; k <= r->to; k++) {
        Made *m = &made[(*n)++];
        *m = (Made){.size = k / others};
        m->mesh = others > 1 && !r->named
                      ? arena_printf(s->arena, "%lld ranks", (long long)k)
                      : arena_printf(s->arena, "%s=%lld", r->axis, (long long)k);
        if (k % others)
            m->why = arena_printf(s->arena, "no multiple of %lld, the ranks along the other axes",
                                  (long long)others);
        const Exit wrong = m->why ? EXIT_source : make(s, r, folder, m);
        if (wrong == EXIT_tool || wrong == EXIT_internal)
            return wrong;
        show(s, m);
        fflush(stdout);
        good += !m->why;
    }
    if (good)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 626, "--elastic %s: none of these sizes can be compiled: %s",
               s->o->elastic, made[0].why);
    diag_help(s->diag, "-D %s=N compiles one of them, with all of its messages", r->axis);
    return EXIT_source;
}

Exit compile_elastic(Session *s)
{
    Range r = {0};
    Made *made = arena_alloc(s->arena, VARIANTS_MAX * sizeof *made);
    int64_t others;
    int n = 0;
    const char *folder = NULL;
    Exit wrong = check(s);
    if (!wrong)
        wrong = read_range(s, &r);
    if (!wrong)
        wrong = find_axis(s, &r, &others);
    if (!wrong && s->o->out && !(folder = temp_dir(s->arena, NULL))) {
        diag_error(s->diag, (Span){0}, 543, "cannot make a temporary directory");
        wrong = EXIT_tool;
    }
    if (!wrong)
        wrong = make_all(s, &r, others, folder, made, &n);
    if (!wrong && s->o->out)
        wrong = join(s, made, n);
    if (folder)
        remove_dir(folder);
    return wrong;
}
