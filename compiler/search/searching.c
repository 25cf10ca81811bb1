/* searching.c - what a search needs of the driver: models under any layout, signals, messages. */
#include "compiler/search/searching.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/quantity.h"

/* ---- one layout ------------------------------------------------------------------------------ */

static void first_code(void *ctx, const Found *f)
{
    int *code = ctx;
    if (f->code && !*code)
        *code = f->code;
}

/* As the compiler elaborates, of one layout; nothing is made, and nobody is told. */
static Options options_of(const Searching *q)
{
    Options o = *q->s->o;
    o.layout = o.out = o.emit = o.proposals = NULL;
    o.device = q->device;
    if (q->precision)
        o.precision = q->precision;
    if (q->define) {
        o.define = (Words){0};
        for (size_t i = 0; i < q->s->o->define.n; i++)
            vec_push(q->s->arena, &o.define, q->s->o->define.data[i]);
        vec_push(q->s->arena, &o.define, q->define);
    }
    return o;
}

static Module *elaborate(void *ctx, const char *layout, Arena *a, Device *d, int *code)
{
    static const Remedy none = {0};
    const Searching *q = ctx;
    const Options o = options_of(q);
    Session s = {.arena = a,
                 .names = names_new(a),
                 .diag = diag_trial(a, &none, first_code, code),
                 .o = &o,
                 .layout_text = layout,
                 .trial = true};
    Compiled made = {0};
    if (compile_front(&s, q->path, &made) != EXIT_done)
        return NULL;
    *d = made.device;
    return made.module;
}

/* The dim that a pipeline of the model cuts into stages; NULL: none can be. */
static const char *dim_of_stages(const Searching *q)
{
    Arena *a = arena_new();
    Device d;
    int code = 0;
    Point two = {.microbatch = 1, .chunks = 1, .schedule = PIPE_1F1B};
    for (int r = 0; r < ROLE_count; r++)
        two.size[r] = r == ROLE_pp ? 2 : 1;
    const Module *m =
        q->space->layers
            ? elaborate((void *)q, point_text(q->space, &two, "two", NULL, a), a, &d, &code)
            : NULL;
    const Name dim = m && !code ? m->layout.pipeline.dim : 0;
    const char *name = dim ? arena_strdup(q->s->arena, name_str(m->names, dim)) : NULL;
    arena_free(a);
    return name;
}

/* ---- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t under_way; /* a search */

static void on_signal(int number)
{
    (void)number;
    if (under_way)
        search_stop();
}

/* The first Ctrl-C, and the end of the time that is given, end the search; the second Ctrl-C ends
 * mgc. One that comes when the search has ended is the first, too: what was found is told
 * (searching_told). */
static void listen_to_signals(double seconds)
{
    under_way = 1;
    struct sigaction once = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigaction(SIGINT, &once, NULL);
    sigaction(SIGALRM, &once, NULL);
    const long whole = (long)seconds;
    const struct itimerval timer = {
        .it_value = {whole, (long)((seconds - (double)whole) * 1e6) + (whole ? 0 : 1)}};
    if (seconds > 0)
        setitimer(ITIMER_REAL, &timer, NULL);
}

static void stop_the_clock(void)
{
    under_way = 0;
    const struct itimerval off = {0};
    setitimer(ITIMER_REAL, &off, NULL);
}

void searching_told(void)
{
    signal(SIGINT, SIG_DFL);
}

/* ---- progress -------------------------------------------------------------------------------- */

static void progress(const Search *s, double left, bool better)
{
    Arena *a = arena_new();
    const bool terminal = isatty(STDERR_FILENO);
    if (s->best < 0 || (!better && !terminal)) {
        arena_free(a);
        return;
    }
    const Candidate *c = &s->all.data[s->best];
    fprintf(stderr, "%ssearch %lld ranks: %.1f s, %d plans, about %.0f s left: %s a step, %s%s",
            terminal ? "\r\033[K" : "", (long long)s->ranks, s->spent,
            s->plans[TRY_rough] + s->plans[TRY_quick] + s->plans[TRY_whole], left,
            text_seconds(a, c->tried[TRY_whole].seconds), point_label(s->space, &c->point, a),
            terminal && !better ? "" : "\n");
    fflush(stderr);
    arena_free(a);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Reads the file, finds its template and plans the program of one rank. */
Exit searching_begin(Searching *q)
{
    Session *s = q->s;
    q->space = space_new(s->arena, q->ast, q->from);
    if (!q->space) {
        diag_error(s->diag, (Span){0}, 692, "'%s' has no model with inputs", q->path);
        diag_help(s->diag, "the first dim of the first input is that of batches: model m(x[batch, "
                           "seq] : token(vocab)) { ... }");
        return EXIT_source;
    }
    const Node *wrong_line = q->given ? space_fix(q->space, q->ast, q->given) : NULL;
    if (wrong_line) {
        diag_error(s->diag, wrong_line->span, 694,
                   "a layout that is searched gives whole numbers of axes that it may split on");
        diag_help(s->diag, "mesh tp = 8, or microbatch 2; or leave it out, and it is sought");
        return EXIT_source;
    }
    if (s->o->microbatch)
        q->space->microbatch = strtoll(s->o->microbatch, NULL, 10);
    const Options o = options_of(q);
    Session one = *s;
    Point p = {.microbatch = 1, .chunks = 1};
    for (int r = 0; r < ROLE_count; r++)
        p.size[r] = 1;
    one.o = &o;
    one.layout_text = point_text(q->space, &p, "one", NULL, s->arena);
    Exit wrong = compile_front(&one, q->path, &q->one);
    if (wrong)
        return wrong;
    q->one.module->diag = diag_silent(s->diag, s->arena);
    q->space->cut = dim_of_stages(q);
    if (basis_make(&q->basis, q->space, q->one.module, &q->one.device, s->arena))
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 692, "'%s' has no plan of one rank, which a search begins with",
               q->path);
    diag_help(s->diag, "mgc %s --device %s --check says why", q->path, q->device);
    return EXIT_source;
}

static Search search_of(Searching *q, int64_t ranks, bool offload)
{
    Search r = {.arena = q->s->arena,
                .space = q->space,
                .basis = &q->basis,
                .elaborate = elaborate,
                .ctx = q,
                .ranks = ranks,
                .exhaustive = q->s->o->exhaustive,
                .thorough = q->s->o->thorough,
                .offload = offload,
                .progress = progress};
    return r;
}

/* Without anything on other levels of memory at first, unless an option says so. */
Search searching_run(Searching *q, int64_t ranks)
{
    const char *said = q->s->o->offload;
    const Device *d = &q->one.device;
    const bool levels = d->level[LEVEL_host].memory || d->level[LEVEL_disk].memory;
    Search r = search_of(q, ranks, said && !strcmp(said, "auto"));
    r.levels = levels && !said && !q->space->offload && !r.exhaustive;
    listen_to_signals(q->seconds);
    search_run(&r);
    stop_the_clock();
    if (r.best >= 0 || r.stopped || said || q->space->offload || !levels || !r.all.n)
        return r;
    fprintf(stderr, "search %lld ranks: none fits without `offload auto`, which is tried now\n",
            (long long)ranks);
    Search more = search_of(q, ranks, true);
    listen_to_signals(q->seconds);
    search_run(&more);
    stop_the_clock();
    return more;
}

/* ---- no answer ------------------------------------------------------------------------------- */

/* The nearest number of ranks below and above that has layouts; 0: none. */
static int64_t nearest(const Searching *q, int64_t ranks, int step)
{
    enum { FAR = 512 };
    for (int64_t n = ranks + step, tries = 0; n > 0 && tries < FAR; n += step, tries++) {
        Arena *a = arena_new();
        Points points = {0};
        space_points(q->space, n, false, a, &points);
        arena_free(a);
        if (points.n)
            return n;
    }
    return 0;
}

Exit searching_none(Searching *q, const Search *r)
{
    Session *s = q->s;
    int64_t least = 0;
    int code = 0;
    for (size_t i = 0; i < r->all.n; i++) {
        const Candidate *c = &r->all.data[i];
        const int64_t bytes =
            c->tried[TRY_whole].bytes ? c->tried[TRY_whole].bytes : c->tried[TRY_quick].bytes;
        least = bytes && (!least || bytes < least) ? bytes : least;
        code = c->state == CANDIDATE_refused ? c->code : code;
    }
    search_failed(r, stderr);
    if (r->stopped) {
        diag_error(s->diag, (Span){0}, 693, "the search was stopped before its first plan");
        diag_help(s->diag, "give it more time: a plan takes about a second");
        return EXIT_stopped;
    }
    if (!r->all.n) {
        const int64_t below = nearest(q, r->ranks, -1), above = nearest(q, r->ranks, 1);
        diag_error(s->diag, (Span){0}, 691,
                   "%lld ranks: no sizes of axes divide '%s', which is %lld", (long long)r->ranks,
                   q->space->batch, (long long)q->space->nbatch);
        if (below)
            diag_help(s->diag, "--ranks %lld", (long long)below);
        if (above)
            diag_help(s->diag, "--ranks %lld", (long long)above);
        return EXIT_infeasible;
    }
    diag_error(s->diag, (Span){0}, 691, "no layout of %lld ranks of '%s' will do: %s",
               (long long)r->ranks, q->device, search_counts(r, s->arena));
    if (least)
        diag_help(s->diag,
                  "the smallest plan needs %lld bytes (%s) and a rank has %lld (%s): more "
                  "ranks, or a smaller batch of a rank",
                  (long long)least, text_bytes(s->arena, (double)least), (long long)q->basis.budget,
                  text_bytes(s->arena, q->basis.budget));
    else if (code)
        diag_help(s->diag, "mgc explain MG%04d says why the last of those refused was", code);
    else
        diag_help(s->diag,
                  "what lasts from step to step is too large for %lld ranks with %s each: more "
                  "ranks%s",
                  (long long)r->ranks, text_bytes(s->arena, q->basis.budget),
                  r->offload ? "" : ", or --offload auto");
    return EXIT_infeasible;
}

const char *searching_device(const Searching *q)
{
    return strchr(q->device, '.') || strchr(q->device, '/') ? NULL : q->device;
}
