/* scale.c - tables of scaling: at each number of ranks the layout is searched anew.
 *
 * Strong scaling keeps the batch, weak scaling lets it grow with the ranks. Twice the ranks stop
 * paying where they make a step less than 1.5 times as fast: tokens then cost a third more hours of
 * GPUs. Why is said by the shares of a step that grew. */
#include "compiler/search/scale.h"

#include <math.h>
#include <string.h>

#include "base/quantity.h"

static const double PAYS = 1.5, HOUR = 3600, DAY = 24;

typedef struct Size {
    int64_t ranks;
    bool found;
    Tried plan;
    double tokens; /* a second, of all ranks */
    const char *label, *text;
    bool stopped;
} Size;

typedef VEC(Size) Sizes;

const char *scale_hours(double tokens, double tokens_a_second, int64_t ranks, Arena *a)
{
    const double hours = tokens / tokens_a_second / HOUR;
    return hours < 2 * DAY
               ? arena_printf(a, "%.1f h, %.0f GPU hours", hours, hours * (double)ranks)
               : arena_printf(a, "%.1f days, %.0f GPU hours", hours / DAY, hours * (double)ranks);
}

/* ---- one size -------------------------------------------------------------------------------- */

static Size size_of(Searching *q, const Search *r)
{
    Arena *a = q->s->arena;
    Size z = {.ranks = r->ranks, .found = r->best >= 0, .stopped = r->stopped};
    if (!z.found)
        return z;
    const Candidate *best = &r->all.data[r->best];
    z.plan = best->tried[TRY_whole];
    z.tokens = (double)q->basis.tokens / z.plan.seconds;
    z.label = point_label(q->space, &best->point, a);
    z.text = point_text(q->space, &best->point, "found", searching_device(q), a);
    return z;
}

/* The same model with another batch; or the one that there is. */
static Exit with_batch(Searching *q, const Searching *as, int64_t batch)
{
    *q = *as;
    q->define = arena_printf(q->s->arena, "%s=%lld", as->space->batch, (long long)batch);
    return searching_begin(q, NULL);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static double efficiency(const Size *first, const Size *z)
{
    return z->tokens / (double)z->ranks / (first->tokens / (double)first->ranks);
}

static const Size *first_found(const Sizes *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->data[i].found)
            return &all->data[i];
    return NULL;
}

static void print_row(const Scale *scale, const Size *first, const Size *z, Arena *a)
{
    if (!z->found) {
        printf("  %7lld  no layout fits\n", (long long)z->ranks);
        return;
    }
    printf("  %7lld %9s %11s %9s %5.0f%% %6.0f%%", (long long)z->ranks,
           text_seconds(a, z->plan.seconds), text_rate(a, z->tokens),
           text_rate(a, z->tokens / (double)z->ranks), 100 * z->plan.mfu,
           100 * efficiency(first, z));
    if (scale->tokens)
        printf("  %-29s", scale_hours(scale->tokens, z->tokens, z->ranks, a));
    printf("  %s\n", z->label);
}

/* Shares of a step that grew from one size to the next, the largest first. */
static const char *grown(const Size *was, const Size *z, Arena *a)
{
    const Parts *p = &was->plan.parts, *q = &z->plan.parts;
    const struct {
        const char *text;
        double before, now;
    } share[] = {
        {"stages waiting for each other", p->bubble / was->plan.seconds,
         q->bubble / z->plan.seconds},
        {"waiting for collectives", p->waits / was->plan.seconds, q->waits / z->plan.seconds},
        {"what is computed again", p->again / was->plan.seconds, q->again / z->plan.seconds}};
    int most = -1;
    for (int i = 0; i < 3; i++)
        if (share[i].now > share[i].before + 0.01 &&
            (most < 0 || share[i].now - share[i].before > share[most].now - share[most].before))
            most = i;
    return most < 0 ? "each rank has so little to compute that its kernels are slower"
                    : arena_printf(a, "%s grows from %.0f%% to %.0f%% of a step", share[most].text,
                                   100 * share[most].before, 100 * share[most].now);
}

static void print_paying(const Sizes *all, Arena *a)
{
    const Size *was = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const Size *z = &all->data[i];
        if (!z->found)
            continue;
        if (was && z->tokens < PAYS * was->tokens * (double)z->ranks / (2 * (double)was->ranks)) {
            printf(
                "from %lld to %lld ranks tokens come %.2f times as fast: that stops paying; %s\n",
                (long long)was->ranks, (long long)z->ranks, z->tokens / was->tokens,
                grown(was, z, a));
            return;
        }
        was = z;
    }
    if (was)
        printf("up to %lld ranks it pays: each doubling is at least %.1f times as fast\n",
               (long long)was->ranks, PAYS);
}

static void print_budget(const Scale *scale, const Sizes *all, Arena *a)
{
    const Size *best = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < all->n; i++) {
        const Size *z = &all->data[i];
        const double hours =
            z->found ? scale->tokens / z->tokens / HOUR * (double)z->ranks : INFINITY;
        least = fmin(least, hours);
        if (z->found && hours <= scale->budget && (!best || z->tokens > best->tokens))
            best = z;
    }
    if (!best)
        printf("none takes %.0f GPU hours or less: the least is %.0f\n", scale->budget, least);
    else
        printf("the fastest of at most %.0f GPU hours: %lld ranks, %s\n\n%s", scale->budget,
               (long long)best->ranks, scale_hours(scale->tokens, best->tokens, best->ranks, a),
               best->text);
}

/* One table. weak: batches are as many times the first as ranks are. */
static Exit table(Searching *q, const Scale *scale, bool weak, int64_t from, int64_t to)
{
    Session *s = q->s;
    Sizes all = {0};
    bool stopped = false;
    printf("%s scaling: %s, batch %lld%s, %s\n", weak ? "weak" : "strong", q->path,
           (long long)q->basis.batch, weak ? " and more" : "", q->device);
    printf("  %7s %9s %11s %9s %6s %7s%s  layout\n", "ranks", "step", "tokens/s", "of a rank",
           "MFU", "effic.", scale->tokens ? "  time, GPU hours              " : "");
    for (int64_t n = from; n <= to && !stopped; n *= 2) {
        Searching other;
        Searching *of = q;
        if (weak && n > from) {
            const Exit wrong = with_batch(&other, q, q->basis.batch * (n / from));
            if (wrong)
                return wrong;
            of = &other;
        }
        const Search r = searching_run(of, n);
        vec_push(s->arena, &all, size_of(of, &r));
        const Size *first = first_found(&all);
        print_row(scale, first, &all.data[all.n - 1], s->arena);
        fflush(stdout);
        stopped = r.stopped;
    }
    if (!first_found(&all)) {
        diag_error(s->diag, (Span){0}, 691, "no layout of %lld to %lld ranks of '%s' fits",
                   (long long)from, (long long)to, q->device);
        diag_help(s->diag, "mgc search of one of these says more");
        return stopped ? EXIT_stopped : EXIT_infeasible;
    }
    print_paying(&all, s->arena);
    if (scale->budget && !weak)
        print_budget(scale, &all, s->arena);
    return stopped ? EXIT_stopped : EXIT_done;
}

Exit scale_run(Searching *q, const Scale *scale, int64_t from, int64_t to)
{
    Exit wrong = table(q, scale, false, from, to);
    if (!wrong && scale->weak) {
        putchar('\n');
        wrong = table(q, scale, true, from, to);
    }
    return wrong;
}
