/* Programs of several ranks that generate, against that of one, in the interpreter and in double
 * precision: texts take turns, some go on by some tokens, others by none; logits and caches of each
 * call, on each rank, are those of one rank. Named layouts and random ones; their plans, in any
 * order that streams allow; plans without a wait, and collectives left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/check/check.h"
#include "tests/plan/texts.h"

static const double BOUND = 1e-12;

static const Small models[] = {
    {"llama3_8b.mg",
     0,
     {"layers=2", "hidden=16", "kv_heads=2", "group=2", "head=4", "ffn=8", "vocab=16", "seq=12",
      "batch=4"}},
    {"gpt2_124m.mg",
     0,
     {"layers=2", "hidden=16", "heads=4", "head=4", "ffn=8", "vocab=16", "seq=12", "batch=4"}},
    {"mistral_7b.mg", /* a window */
     0,
     {"layers=2", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "vocab=16", "seq=12",
      "batch=4"}},
    {"gemma3.mg",
     0,
     {"layers=6", "hidden=16", "kv_heads=2", "group=2", "head=4", "ffn=8", "vocab=16", "seq=12",
      "batch=4"}},
    {"mixtral_mini.mg", /* whose experts have slots */
     0,
     {"layers=2", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "experts=4", "vocab=16",
      "seq=12", "batch=4"}},
    {"mixtral_8x7b_dropless.mg",
     0,
     {"layers=2", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "experts=4", "vocab=16",
      "seq=12", "batch=4"}},
    {"deepseek_v3.mg", 0, {"vocab=16", "seq=12", "batch=4", "ffn=8", "wide=8", "hidden=16"}},
    {"mamba2.mg",
     0,
     {"layers=2", "hidden=16", "heads=4", "head=4", "state=4", "vocab=16", "seq=12", "batch=4"}},
    {"bamba.mg",
     0,
     {"layers=3", "hidden=16", "heads=4", "head=4", "state=4", "ffn=8", "vocab=16", "seq=12",
      "batch=4"}},
    {MODELS_DIR "/../tests/plan/texts.mg", 0, {"batch=4"}},
};
enum { MODELS = sizeof models / sizeof *models };

#define TP "kv_heads tp; heads tp; ffn tp; wide tp; vocab tp"
static const char *const layouts[] = {
    "dp=2; batch dp",
    "dp=4; batch dp",
    "tp=2; " TP,
    "tp=4; " TP,
    "tp=2 tq=2; " TP "; group tq",
    "dp=2 tp=2; batch dp; " TP,
    "tp=2 dp=2; batch dp; " TP "; state dp; grads dp; params dp",
    "dp=2; batch dp; state dp; grads dp; params dp",
    "dp=4; batch dp; state dp; grads dp; params dp",
    "replica=2 shard=2; batch replica shard; state shard; grads shard; params shard",
    "tp=2; hidden tp; vocab tp",
    "ep=2; experts ep; batch ep",
    "ep=4; experts ep; batch ep",
    "dp=2 ep=2; experts ep; batch dp ep; state dp; grads dp; params dp",
    "ep=2 tp=2; experts ep; batch ep; " TP,
    "ep=2; experts ep>; batch ep", /* sorted rows are sent */
    "dp=2 ep=2 tp=2; experts ep>; batch dp ep; " TP,
    "node=2 ep=2; experts node! ep; batch ep node",  /* rows once to each machine */
    "node=2 ep=2; experts node! ep>; batch ep node", /* ... sorted */
    "tp=2; experts tp; " TP,
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* ---- one rank and many ----------------------------------------------------------------------- */

enum { TEXTS = 4 };

/* The program before it is split; false: ranks do not share the texts. */
static bool open_texts(Model *t, const Small *s, const char *spec)
{
    model_open(t);
    ElaborateOptions o = {.define = s->define};
    while (o.ndefine < SMALL_DEFINES && s->define[o.ndefine])
        o.ndefine++;
    if (!texts_elaborate(t, parse_small(t, s), o, TEXTS))
        fail_msg("%s", model_messages(t));
    texts_alone(t->m);
    if (spec)
        lay_out(t, spec);
    if (TEXTS % mesh_batch_ranks(t->m))
        return false;
    t->m->layout.microbatch = TEXTS / mesh_batch_ranks(t->m);
    if (!texts_passes(t))
        fail_msg("%s: %s", s->file, model_messages(t));
    return true;
}

typedef struct One {
    Texts x;
    const Small *small;
} One;

static void open_one(One *x, const Small *s)
{
    *x = (One){.small = s};
    open_texts(&x->x.t, s, NULL);
    texts_run(&x->x);
}

/* As pass shard leaves it; false: refused, for sizes, or an axis that splits nothing; or it sends
 * rows that are not sorted, or once such that are, and does not say so. */
static bool open_many_texts(ManyTexts *y, const Small *s, const char *spec)
{
    const bool sorted = strstr(s->file, "dropless"), sent = strchr(spec, '>');
    if (sent ? !sorted : sorted && strchr(spec, '!')) {
        model_open(&y->t);
        return false;
    }
    if (!open_texts(&y->t, s, spec))
        return false;
    const bool follows = texts_shard(y);
    const char *said = model_messages(&y->t);
    if (!follows && !strstr(said, "error[MG0332]") && !strstr(said, "error[MG0333]"))
        fail_msg("%s, layout %s: %s", s->file, spec, said);
    return follows;
}

static void same_turns(const One *x, ManyTexts *y, const char *spec, const char *when)
{
    for (int n = 0; n < TURNS; n++) {
        const Turn *turn = &x->x.turn[n];
        const Compared c = texts_compare(&x->x, y, turn);
        if (getenv("MGC_SHOW"))
            print_message("%-8s %-6s %.1e %s\n", turn->name, when, c.worst, spec);
        if (!(c.worst <= BOUND))
            fail_msg("%s, layout %s, %s: @%s of turn %d: %s is off by %g", x->small->file, spec,
                     when, turn->name, n, c.where, c.worst);
    }
}

static bool follows(const One *x, const char *spec)
{
    ManyTexts y;
    const bool runs = open_many_texts(&y, x->small, spec);
    if (runs) {
        same_turns(x, &y, spec, "shard");
        must_pass(&y.t, pass_local);
        same_turns(x, &y, spec, "local");
    }
    model_close(&y.t);
    return runs;
}

/* Each layout is followed by some model: by the llamas, or by those with experts. */
static void named(void **state)
{
    (void)state;
    int ran[LAYOUTS] = {0};
    for (int k = 0; k < MODELS; k++) {
        One x;
        open_one(&x, &models[k]);
        for (int l = 0; l < LAYOUTS; l++)
            if (sampled((uint64_t)(k * LAYOUTS + l), SANITIZED ? 8 : 3))
                ran[l] += follows(&x, layouts[l]);
            else
                ran[l]++;
        model_close(&x.x.t);
    }
    for (int l = 0; l < LAYOUTS; l++)
        assert_true(ran[l] > 0);
}

/* ---- random layouts -------------------------------------------------------------------------- */

/* The dims of parameters that are not those of repeats, and the texts'. */
static int dims_of(const Module *m, Name *dims, int most)
{
    int n = 0;
    dims[n++] = m->batch.name;
    for (size_t k = 0; k < m->tensors.n; k++)
        for (int i = m->tensors.data[k].stacked; i < m->tensors.data[k].type.rank; i++) {
            bool known = m->tensors.data[k].type.dims[i].name == m->seq.name;
            for (int j = 0; j < n; j++)
                known |= dims[j] == m->tensors.data[k].type.dims[i].name;
            if (!known && n < most)
                dims[n++] = m->tensors.data[k].type.dims[i].name;
        }
    return n;
}

static const char *any_layout(const Module *m, Arena *a, uint64_t *rng)
{
    enum { MOST = 32 };
    static const char *const axes[] = {"a", "b", "c"}, *const classes[] = {"state", "grads",
                                                                           "params"};
    Name dims[MOST];
    const int n = dims_of(m, dims, MOST), mesh = 1 + draw_int(rng, 3);
    const char *s = "";
    for (int i = 0; i < mesh; i++)
        s = arena_printf(a, "%s%s%s=%d", s, i ? " " : "", axes[i], draw_int(rng, 4) ? 2 : 4);
    for (int i = 0; i < n; i++) {
        const int k = i + draw_int(rng, n - i);
        const Name d = dims[k];
        dims[k] = dims[i];
        dims[i] = d;
        const int one = draw_int(rng, mesh), two = draw_int(rng, 2 * mesh);
        if (draw_int(rng, 3))
            s = arena_printf(a, "%s; %s %s%s%s", s, name_str(m->names, d), axes[one],
                             two > one && two < mesh ? " " : "",
                             two > one && two < mesh ? axes[two] : "");
    }
    const int class = draw_int(rng, 2) * 3, axis = draw_int(rng, mesh);
    for (int c = 0; c < class; c++)
        s = arena_printf(a, "%s; %s %s", s, classes[c], axes[axis]);
    return s;
}

static void random_layouts(void **state)
{
    (void)state;
    uint64_t rng = 17 * sample_turn() + 3;
    const int samples = sample_full() ? 400 : SANITIZED ? 12 : 40;
    int ran = 0, drawn = 0;
    for (; drawn < samples || (!ran && drawn < 10 * samples); drawn++) {
        One x;
        open_one(&x, &models[draw_int(&rng, MODELS)]);
        ran += follows(&x, any_layout(x.x.t.m, x.x.t.a, &rng));
        model_close(&x.x.t);
    }
    print_message("%d layouts follow, %d are refused\n", ran, drawn - ran);
    assert_true(ran > 0);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The plan of all ranks is proved, and computes the same in any order that its streams allow. */
static void plans(void **state)
{
    (void)state;
    uint64_t rng = sample_turn() + 1;
    int ran = 0;
    for (uint64_t k = 0; k < MODELS * LAYOUTS; k++) {
        One x;
        ManyTexts y;
        if (!sampled(k, SANITIZED ? 24 : 8))
            continue;
        open_one(&x, &models[k % MODELS]);
        const char *spec = layouts[k / MODELS];
        if (open_many_texts(&y, x.small, spec)) {
            const Plan *p = texts_plan(&y);
            must_hold(p);
            for (int n = 0; n < TURNS; n++) {
                const Turn *turn = &x.x.turn[n];
                const Compared c = texts_compare_planned(&x.x, &y, p, turn, n % 2 ? &rng : NULL);
                if (!(c.worst <= BOUND))
                    fail_msg("%s, layout %s, planned: @%s of turn %d: %s is off by %g",
                             x.small->file, spec, turn->name, n, c.where, c.worst);
            }
            ran++;
        }
        model_close(&y.t);
        model_close(&x.x.t);
    }
    assert_true(ran > 3);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static const int faulty[][2] = {{0, 5}, {0, 6}, {4, 13}, {5, 16}, {7, 8}};
enum { FAULTY = sizeof faulty / sizeof *faulty };

/* Without any one of its waits the plan is not proved. */
static int drop_waits(Plan *p)
{
    int dropped = 0;
    Program *all[] = {p->prefill, p->decode};
    for (int f = 0; f < 2; f++)
        for (size_t i = 0; i < all[f]->actions.n; i++)
            for (int s = 0; s < MAX_STREAMS; s++) {
                uint32_t *wait = &all[f]->actions.data[i].wait[s], was = *wait;
                char *text;
                if (!was)
                    continue;
                *wait = 0;
                if (!plan_breaks(p, &text))
                    fail_msg("%s: action %zu need not wait for %u", f ? "decode" : "prefill", i,
                             was - 1);
                free(text);
                *wait = was;
                dropped++;
            }
    return dropped;
}

/* Without any one of its collectives the plan is of another program. */
static int leave_out(Plan *p)
{
    int left = 0;
    Program *all[] = {p->prefill, p->decode};
    for (int f = 0; f < 2; f++)
        for (size_t i = 0; i < all[f]->actions.n; i++) {
            Action *a = &all[f]->actions.data[i];
            char *text;
            if (a->kind != ACT_comm)
                continue;
            const Action was = *a;
            a->comm.kind = MG_SHARD;
            if (!plan_breaks(p, &text))
                fail_msg("%s: collective %zu is left out, and nobody notices",
                         f ? "decode" : "prefill", i);
            free(text);
            *a = was;
            left++;
        }
    return left;
}

static void faults(void **state)
{
    (void)state;
    int waits = 0, collectives = 0;
    for (int k = 0; k < FAULTY; k++) {
        ManyTexts y;
        if (!sampled((uint64_t)k, SANITIZED ? FAULTY : 2))
            continue;
        assert_true(open_many_texts(&y, &models[faulty[k][0]], layouts[faulty[k][1]]));
        Plan *p = texts_plan(&y);
        must_hold(p);
        waits += drop_waits(p);
        collectives += leave_out(p);
        model_close(&y.t);
    }
    print_message("%d waits, %d collectives\n", waits, collectives);
    assert_true(waits > 4 && collectives > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(named), cmocka_unit_test(random_layouts),
                                       cmocka_unit_test(plans), cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
