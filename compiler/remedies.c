/* remedies.c - what would make a model fit that does not. Each change is planned before it is
 * offered, so that what is said of it is what it does. */
#include "compiler/narrow.h"
#include "compiler/session.h"

#include <stdlib.h>
#include <string.h>

#include "decide/make.h"
#include "plan/levels.h"
#include "plan/place/place.h"

/* Options of the command line; NULL: as it is. */
typedef struct Change {
    const char *microbatch, *recompute, *offload, *precision, *define, *device, *adapter;
    Narrow narrow; /* edits of the source */
    bool roomy;    /* the device has room for all: for comparison */
} Change;

typedef struct Planned {
    const char *what;
    Change change;
    bool fits;
    int64_t bytes;
    double seconds, tokens; /* of a step, or of a token of each text */
    double without;         /* seconds, were nothing offloaded; 0: nothing is, or unknown */
} Planned;

typedef struct Search {
    Session *s;
    FILE *nowhere;
    const Plan *plan; /* the one that does not fit */
    Planned found[16];
    int n;
    Planned least; /* in bytes, of those that do not do */
} Search;

/* As the compiler itself plans, but for the proof: that is for what is made. */
static void plan_module(Module *m, const Device *d, Arena *a, FILE *log, Planned *r)
{
    PlanJob job = {.m = m, .d = d, .a = a, .upto = "asserts", .log = log};
    r->fits = plan_make(&job) == PASS_ok;
    if (!job.plan)
        return;
    r->bytes = plan_bytes(job.plan);
    r->seconds = plan_judged(job.plan)->seconds;
    r->tokens = (double)job.m->batch.size * (job.plan->train ? (double)job.m->seq.size : 1);
}

static void nobody(void *ctx, const Found *f)
{
    (void)ctx;
    (void)f;
}

/* Plans the input anew with the change; what goes wrong is told to nobody. */
static Planned plan_with(const Search *q, const Change *c)
{
    Arena *a = arena_new();
    Options o = *q->s->o;
    Remedy narrow = {0};
    if (c->narrow)
        narrow_edits(q->plan->module, c->narrow, &narrow);
    Session s = {
        .arena = a, .names = names_new(a), .diag = diag_trial(a, &narrow, nobody, NULL), .o = &o};
    Compiled made = {0};
    Planned r = {0};
    if (c->microbatch)
        o.microbatch = c->microbatch;
    if (c->recompute)
        o.recompute = c->recompute;
    if (c->offload)
        o.offload = c->offload;
    if (c->precision)
        o.precision = c->precision;
    if (c->device)
        o.device = c->device;
    if (c->adapter)
        o.adapter = c->adapter;
    if (c->define) {
        o.define = (Words){0};
        for (size_t i = 0; i < q->s->o->define.n; i++)
            vec_push(a, &o.define, q->s->o->define.data[i]);
        vec_push(a, &o.define, c->define);
    }
    if (compile_front(&s, o.words.data[0], &made) == EXIT_done) {
        if (c->roomy) {
            made.device.memory = INT64_MAX / 4;
            made.module->layout.assert_peak = 0;
        }
        plan_module(made.module, &made.device, a, q->nowhere, &r);
    }
    arena_free(a);
    return r;
}

/* The options of a change as they are written on a command line. */
static const char *options_of(Arena *a, const Change *c)
{
    const char *const option[] = {"--microbatch ", c->microbatch, "--recompute ", c->recompute,
                                  "--offload ",    c->offload,    "--precision ", c->precision,
                                  "-D ",           c->define,     "--device ",    c->device};
    const char *all = "";
    for (size_t i = 0; i < sizeof option / sizeof *option; i += 2)
        if (option[i + 1])
            all = arena_printf(a, "%s%s%s%s", all, *all ? " " : "", option[i], option[i + 1]);
    return all;
}

/* "--microbatch 1 and state = bf16" */
static const char *written(const Search *q, const Change *c)
{
    Arena *a = q->s->arena;
    const char *options = options_of(a, c);
    if (!c->narrow)
        return options;
    return arena_printf(a, "%s%s%s", options, *options ? " and " : "",
                        narrow_text(q->plan->module, c->narrow));
}

/* Seconds of a step on a device that has room for all. */
static double without_offload(const Search *q, const Change *c)
{
    Change all = *c;
    all.offload = "none";
    all.roomy = true;
    const Planned r = plan_with(q, &all);
    return r.fits ? r.seconds : 0;
}

static void found(Search *q, const Change *c, Planned r)
{
    r.change = *c;
    r.what = written(q, c);
    if (r.fits && c->offload && strcmp(c->offload, "none"))
        r.without = without_offload(q, c);
    if (r.fits)
        q->found[q->n++] = r;
    else if (r.bytes && (!q->least.bytes || r.bytes < q->least.bytes))
        q->least = r;
}

static bool try(Search *q, const Change *c)
{
    const Planned r = plan_with(q, c);
    found(q, c, r);
    return r.fits;
}

/* ---- what can be changed ------------------------------------------------------------------- */

/* The largest that fits of those that divide the one there is; after some, that of one. */
static void smaller_microbatch(Search *q)
{
    enum { PARTS = 4096, TRIES = 16 };
    int64_t now = q->plan->module->layout.microbatch;
    const Change one = {.microbatch = "1"};
    if (now == 1 || !plan_with(q, &one).fits)
        return;
    for (int64_t parts = 2, tries = 0; parts < now && parts <= PARTS && tries < TRIES; parts++) {
        if (now % parts)
            continue;
        const char *n = arena_printf(q->s->arena, "%lld", (long long)(now / parts));
        if (try(q, &(Change){.microbatch = n}))
            return;
        tries++;
    }
    try(q, &one);
}

static void shorter_sequences(Search *q)
{
    enum { HALVINGS = 5 };
    Session *s = q->s;
    const Module *m = q->plan->module;
    int64_t seq = m->seq.size;
    for (int i = 0; i < HALVINGS && seq % 2 == 0; i++) {
        seq /= 2;
        const char *define =
            arena_printf(s->arena, "%s=%lld", name_str(s->names, m->seq.name), (long long)seq);
        if (try(q, &(Change){.define = define}))
            return;
    }
}

typedef struct Larger {
    const char *name;
    int64_t memory;
} Larger;

static int smaller_first(const void *x, const void *y)
{
    const Larger *a = x, *b = y;
    return a->memory != b->memory ? (a->memory < b->memory ? -1 : 1) : strcmp(a->name, b->name);
}

/* The smallest GPU that has room; of a host's memory mgc knows no other. */
static void larger_device(Search *q)
{
    Arena *a = q->s->arena;
    size_t n, larger = 0;
    const char **name = device_names(a, &n);
    Larger *all = NEW_ARRAY(a, Larger, n + 1);
    for (size_t i = 0; i < n; i++) {
        Device d;
        Session quiet = *q->s;
        quiet.diag = diag_new(a, q->nowhere, false);
        if (device_load(&quiet, name[i], &d) == EXIT_done && d.target == TARGET_cuda &&
            d.memory > q->plan->device->memory && (!q->plan->module->train.fp8 || d.flops_fp8 > 0))
            all[larger++] = (Larger){name[i], d.memory};
    }
    qsort(all, larger, sizeof *all, smaller_first);
    for (size_t i = 0; i < larger; i++) {
        const Change c = {.device = all[i].name};
        const Planned r = plan_with(q, &c);
        if (!r.fits)
            continue;
        found(q, &c, r);
        return;
    }
}

/* Halves for products, where there are none. */
static const char *halves(const Plan *p)
{
    const Train *t = &p->module->train;
    return !t->half && t->compute == DT_f32 ? "bf16" : NULL;
}

/* Has the machine another level of memory than the device's? */
static bool has_levels(const Plan *p)
{
    return p->device->level[LEVEL_host].memory || p->device->level[LEVEL_disk].memory;
}

/* Can `--offload auto` help? A layout that says nothing of offload was planned with it. */
static bool can_offload(const Search *q)
{
    const char *asked = q->s->o->offload;
    return has_levels(q->plan) && q->plan->module->layout.offloads == OFFLOADS_as_given &&
           !(asked && !strcmp(asked, "auto"));
}

/* As little in bf16 as makes it fit, beside other changes. */
static bool narrower(Search *q, Change c)
{
    Remedy r;
    for (int n = NARROW_state; n < NARROW_count; n++) {
        c.narrow = (Narrow)n;
        if (narrow_edits(q->plan->module, c.narrow, &r) && try(q, &c))
            return true;
    }
    return false;
}

/* Than the device has; else it is another level that is too small. */
static bool needs_more(const Plan *p)
{
    return plan_bytes(p) > plan_budget(p->module, p->device);
}

static void each_alone(Search *q)
{
    const bool trains = q->plan->train != NULL;
    if (trains)
        smaller_microbatch(q);
    if (trains && q->plan->module->layout.recompute != RECOMPUTE_auto)
        try(q, &(Change){.recompute = "auto"});
    if (can_offload(q))
        try(q, &(Change){.offload = "auto"});
    if (levels_used(q->plan->module))
        try(q, &(Change){.offload = "none"});
    if (has_levels(q->plan) || !trains)
        narrower(q, (Change){0});
    if (halves(q->plan))
        try(q, &(Change){.precision = halves(q->plan)});
    shorter_sequences(q);
    if (q->plan->device->target == TARGET_cuda && needs_more(q->plan))
        larger_device(q);
}

/* Changes that alter results by rounding alone, together, if none suffices by itself. */
static void all_together(Search *q)
{
    const Layout *l = &q->plan->module->layout;
    const bool trains = q->plan->train != NULL;
    Change c = {0};
    if (trains)
        c = (Change){.microbatch = "1", .recompute = "auto"};
    if (trains && (l->microbatch > 1 || l->recompute != RECOMPUTE_auto) && try(q, &c))
        return;
    c.precision = halves(q->plan);
    if (c.precision && try(q, &c))
        return;
    c.offload = can_offload(q) ? "auto" : NULL;
    if (c.offload && try(q, &c))
        return;
    if (has_levels(q->plan) || !trains)
        narrower(q, c);
}

/* ---- what is said -------------------------------------------------------------------------- */

static int faster(const void *x, const void *y)
{
    const Planned *a = x, *b = y;
    double p = a->seconds / a->tokens, q = b->seconds / b->tokens;
    return p != q ? (p < q ? -1 : 1) : (a->what > b->what) - (a->what < b->what);
}

/* The change as edits: each option is one. */
static Remedy edits(const Search *q, const Change *c)
{
    Arena *a = q->s->arena;
    const Change alone[] = {{.microbatch = c->microbatch}, {.recompute = c->recompute},
                            {.offload = c->offload},       {.precision = c->precision},
                            {.define = c->define},         {.device = c->device}};
    Remedy r = {0};
    if (c->narrow)
        narrow_edits(q->plan->module, c->narrow, &r);
    for (size_t i = 0; i < sizeof alone / sizeof *alone && r.n < REMEDY_EDITS; i++) {
        const char *option = options_of(a, &alone[i]);
        if (*option)
            r.edit[r.n++].with = option;
    }
    return r;
}

/* The price of offloading: the same step on a device that needs none of it. */
static const char *price(const Search *q, const Planned *r)
{
    Arena *a = q->s->arena;
    return r->without > 0 && r->without < r->seconds
               ? arena_printf(a, "; with room for all on the device %s a step",
                              text_seconds(a, r->without))
               : "";
}

static void tell(Search *q)
{
    Session *s = q->s;
    const Plan *p = q->plan;
    qsort(q->found, (size_t)q->n, sizeof *q->found, faster);
    for (int i = 0; i < q->n; i++) {
        const Planned *r = &q->found[i];
        const Remedy options = edits(q, &r->change);
        diag_remedy_tried(
            s->diag, &options,
            arena_printf(s->arena, "%s: %lld bytes (%s), %s a %s, %s tokens/s%s", r->what,
                         (long long)r->bytes, text_bytes(s->arena, (double)r->bytes),
                         text_seconds(s->arena, r->seconds), p->train ? "step" : "token",
                         text_rate(s->arena, r->tokens / r->seconds), price(q, r)));
    }
    if (q->n || !needs_more(p))
        return;
    if (q->least.bytes)
        diag_help(s->diag, "even %s: %lld bytes (%s)", q->least.what, (long long)q->least.bytes,
                  text_bytes(s->arena, (double)q->least.bytes));
    diag_help(s->diag,
              "parameters, optimizer state and inputs alone take %lld bytes (%s): make the model "
              "smaller, or "
              "name a device with more memory",
              (long long)p->persistent_bytes, text_bytes(s->arena, (double)p->persistent_bytes));
}

int64_t unfrozen_bytes(Session *s, const Plan *p)
{
    const Search q = {.s = s, .plan = p, .nowhere = fopen("/dev/null", "w")};
    const Change all = {.adapter = "none", .offload = "none", .roomy = true};
    if (!q.nowhere)
        return 0;
    const Planned r = s->o->from ? (Planned){0} : plan_with(&q, &all);
    fclose(q.nowhere);
    return r.fits ? r.bytes : 0;
}

void remedies_tell(Session *s, const Plan *p, const char *missing)
{
    Search q = {.s = s, .plan = p, .nowhere = fopen("/dev/null", "w")};
    if (!q.nowhere)
        return;
    if (missing)
        diag_note(s->diag, (Span){0}, "%s", missing);
    if (!s->o->from)
        each_alone(&q);
    if (!s->o->from && !q.n)
        all_together(&q);
    tell(&q);
    fclose(q.nowhere);
}
