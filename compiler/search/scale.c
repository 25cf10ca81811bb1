/* scale.c - tables of scaling: at each number of ranks the layout is searched anew.
 *
 * Strong scaling keeps the batch, weak scaling lets it grow with the ranks. Twice the ranks stop
 * paying where they make a step less than 1.5 times as fast: tokens then cost a third more hours of
 * GPUs. Why is said by the shares of a step that grew. Energy is that of the cards alone: what
 * watts and idle_watts of the device's description say of the parts of a step. */
#include "compiler/search/scale.h"

#include <math.h>
#include <string.h>

#include "base/quantity.h"

static const double PAYS = 1.5, HOUR = 3600, DAY = 24;

double scale_joules(const Device *d, const Tried *plan, int64_t ranks)
{
    const double waits = fmin(plan->seconds, plan->parts.bubble + plan->parts.waits);
    return (double)ranks * ((plan->seconds - waits) * d->watts + waits * d->idle_watts);
}

static const char *energy(double joules, Arena *a)
{
    const double kwh = joules / 1e3 / HOUR;
    return kwh >= 1e6   ? arena_printf(a, "%.3g GWh", kwh / 1e6)
           : kwh >= 1e3 ? arena_printf(a, "%.3g MWh", kwh / 1e3)
                        : arena_printf(a, "%.3g kWh", kwh);
}

const char *scale_count(Arena *a, double n)
{
    static const char letter[] = {'k', 'M', 'B', 'T'};
    int k = -1;
    for (; n >= 999.5 && k < (int)sizeof letter - 1; k++)
        n /= 1e3;
    return k < 0 ? arena_printf(a, "%.3g", n) : arena_printf(a, "%.3g%c", n, letter[k]);
}

const char *scale_hours(double tokens, double tokens_a_second, int64_t ranks, double joules,
                        Arena *a)
{
    const double hours = tokens / tokens_a_second / HOUR, all = hours * (double)ranks;
    const char *text = hours < 2 * DAY ? arena_printf(a, "%.1f h", hours)
                                       : arena_printf(a, "%.1f days", hours / DAY);
    text = arena_printf(a, all < 10 ? "%s, %.2g GPU hours" : "%s, %.0f GPU hours", text, all);
    return joules > 0 ? arena_printf(a, "%s, %s", text, energy(joules * tokens, a)) : text;
}

/* ---- one size -------------------------------------------------------------------------------- */

static Size size_of(Searching *q, const Search *r)
{
    Arena *a = q->s->arena;
    Size z = {.ranks = r->ranks, .found = r->best >= 0};
    if (!z.found)
        return z;
    const Candidate *best = &r->all.data[r->best];
    z.plan = best->tried[TRY_whole];
    z.tokens = (double)q->basis.tokens / z.plan.seconds;
    z.joules = scale_joules(&q->one.device, &z.plan, r->ranks) / (double)q->basis.tokens;
    z.label = point_label(q->space, &best->point, a);
    z.text = point_text(q->space, &best->point, "found", searching_device(q), a);
    return z;
}

/* The same model with another batch; or the one that there is. */
static Exit with_batch(Searching *q, const Searching *as, int64_t batch)
{
    *q = *as;
    q->define = arena_printf(q->s->arena, "%s=%lld", as->space->batch, (long long)batch);
    return searching_begin(q);
}

/* ---- tables ---------------------------------------------------------------------------------- */

const Size *scale_first(const ScaleTable *t)
{
    for (size_t i = 0; i < t->sizes.n; i++)
        if (t->sizes.data[i].found)
            return &t->sizes.data[i];
    return NULL;
}

double scale_efficiency(const ScaleTable *t, const Size *z)
{
    const Size *first = scale_first(t);
    return z->tokens / (double)z->ranks / (first->tokens / (double)first->ranks);
}

static void print_row(const Scale *scale, const ScaleTable *t, const Size *z, Arena *a)
{
    if (!z->found) {
        printf("  %7lld  no layout fits\n", (long long)z->ranks);
        return;
    }
    printf("  %7lld %9s %11s %9s %5.0f%% %6.0f%%", (long long)z->ranks,
           text_seconds(a, z->plan.seconds), text_rate(a, z->tokens),
           text_rate(a, z->tokens / (double)z->ranks), 100 * z->plan.mfu,
           100 * scale_efficiency(t, z));
    if (scale->tokens)
        printf("  %-39s", scale_hours(scale->tokens, z->tokens, z->ranks, z->joules, a));
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

static void find_paying(ScaleTable *t, Arena *a)
{
    const Size *was = NULL;
    for (size_t i = 0; i < t->sizes.n; i++) {
        const Size *z = &t->sizes.data[i];
        if (!z->found)
            continue;
        if (was && z->tokens < PAYS * was->tokens * (double)z->ranks / (2 * (double)was->ranks)) {
            t->stops = (int)i;
            t->why = arena_printf(a,
                                  "from %lld to %lld ranks tokens come %.2f times as fast: that "
                                  "stops paying; %s",
                                  (long long)was->ranks, (long long)z->ranks,
                                  z->tokens / was->tokens, grown(was, z, a));
            return;
        }
        was = z;
    }
    if (was)
        t->why = arena_printf(a,
                              "up to %lld ranks it pays: each doubling is at least %.1f times "
                              "as fast",
                              (long long)was->ranks, PAYS);
}

static void print_budget(const Scale *scale, const ScaleTable *t, Arena *a)
{
    const Size *best = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < t->sizes.n; i++) {
        const Size *z = &t->sizes.data[i];
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
               (long long)best->ranks,
               scale_hours(scale->tokens, best->tokens, best->ranks, best->joules, a), best->text);
}

/* One table. weak: batches are as many times the first as ranks are. */
static Exit make_table(Searching *q, const Scale *scale, ScaleTable *t, int64_t from, int64_t to)
{
    Session *s = q->s;
    bool stopped = false;
    t->batch = q->basis.batch;
    t->stops = -1;
    printf("%s scaling: %s, batch %lld%s, %s\n", t->weak ? "weak" : "strong", q->path,
           (long long)t->batch, t->weak ? " and more" : "", q->device);
    printf("  %7s %9s %11s %9s %6s %7s%s  layout\n", "ranks", "step", "tokens/s", "of a rank",
           "MFU", "effic.", scale->tokens ? "  time, GPU hours, energy                " : "");
    for (int64_t n = from; n <= to && !stopped; n *= 2) {
        Searching other;
        Searching *of = q;
        if (t->weak && n > from) {
            const Exit wrong = with_batch(&other, q, q->basis.batch * (n / from));
            if (wrong)
                return wrong;
            of = &other;
        }
        const Search r = searching_run(of, n);
        vec_push(s->arena, &t->sizes, size_of(of, &r));
        print_row(scale, t, &t->sizes.data[t->sizes.n - 1], s->arena);
        fflush(stdout);
        stopped = r.stopped;
    }
    if (!scale_first(t)) {
        diag_error(s->diag, (Span){0}, 691, "no layout of %lld to %lld ranks of '%s' fits",
                   (long long)from, (long long)to, q->device);
        diag_help(s->diag, "mgc search of one of these says more");
        return stopped ? EXIT_stopped : EXIT_infeasible;
    }
    find_paying(t, s->arena);
    puts(t->why);
    if (scale->budget && !t->weak)
        print_budget(scale, t, s->arena);
    return stopped ? EXIT_stopped : EXIT_done;
}

static Exit write_page(const Searching *q, const Scale *scale, const ScaleTable *tables, int n)
{
    Output out;
    const Exit wrong = output_open(q->s, &out, scale->page);
    if (wrong)
        return wrong;
    scale_page(q, scale, tables, n, out.file);
    return output_close(q->s, &out, true);
}

Exit scale_run(Searching *q, const Scale *scale, int64_t from, int64_t to)
{
    ScaleTable tables[2] = {{.weak = false}, {.weak = true}};
    const int n = scale->weak ? 2 : 1;
    Exit wrong = EXIT_done;
    int made = 0;
    for (; made < n && !wrong; made++) {
        if (made)
            putchar('\n');
        wrong = make_table(q, scale, &tables[made], from, to);
    }
    if (scale->page && (!wrong || wrong == EXIT_stopped) && scale_first(&tables[0])) {
        const Exit written = write_page(q, scale, tables, made);
        wrong = written ? written : wrong;
    }
    return wrong;
}
