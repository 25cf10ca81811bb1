/* The faults that layouts are known for, by name, each planted in the program or the plan of eight
 * ranks: the types refuse it, or the proof of the plan does, or it shows in the numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "passes/passes.h"
#include "passes/walk.h"
#include "tests/plan/mutate.h"
#include "tests/plan/sharded.h"
#include "plan/check/check.h"

#define SIZES "layers=2", "hidden=32", "head=8", "ffn=64", "vocab=64", "seq=8", "batch=16"
static const Small models[] = {
    {"gpt2_124m.mg", 0, {SIZES, "heads=4"}},
    {"llama7b.mg", 0, {SIZES, "kv_heads=4", "group=2"}},
    {"qwen3_0_6b.mg", 0, {SIZES, "kv_heads=4", "group=2"}},
};
#define RULES "dp=2 cp=2 tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; state dp; "
/* Keys go round a ring; heads are exchanged. */
static const char *const layouts[] = {RULES "seq cp tp", RULES "seq cp^ tp"};
enum { DP = 1, CP = 2, TP = 4, AT_ONCE = 8 };

/* ---- looking ----------------------------------------------------------------------------------
 */

typedef bool Match(const Model *t, const Fn *fn, const Ins *i);

static Ins *find(const Model *t, const Fn *fn, const Region *r, Match *match)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k], *inner = i->body ? find(t, fn, i->body, match) : NULL;
        if (inner || match(t, fn, i))
            return inner ? inner : i;
    }
    return NULL;
}

static void use_instead(Region *r, Value from, Value to)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        for (uint32_t x = 0; x < i->nin; x++)
            i->in[x] = i->in[x] == from ? to : i->in[x];
        if (i->body)
            use_instead(i->body, from, to);
    }
    for (size_t k = 0; k < r->results.n; k++)
        r->results.data[k] = r->results.data[k] == from ? to : r->results.data[k];
}

static const Ins *def_of(const Model *t, Value v)
{
    return t->m->values.data[v].def;
}

static bool is_role(const Fn *fn, Value v, ArgRole role)
{
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->body->args.data[k] == v && fn->args.data[k].role == role)
            return true;
    return false;
}

static bool comes_from(const Model *t, const Fn *fn, Value v, ArgRole role)
{
    const Ins *i = def_of(t, v);
    for (uint32_t k = 0; i && !i->body && k < i->nin; k++)
        if (comes_from(t, fn, i->in[k], role))
            return true;
    return is_role(fn, v, role);
}

static bool is_sum(const Ins *i)
{
    return i->op == OP_all_reduce || i->op == OP_reduce_scatter;
}

/* A constant of the function's region, before everything else. */
static Value constant(Model *t, Fn *fn, DType type, double x)
{
    Builder b = {.m = t->m, .region = fn->body};
    Value v = build_const(&b, type, x);
    Ins **all = fn->body->ins.data, *last = all[fn->body->ins.n - 1];
    memmove(all + 1, all, (fn->body->ins.n - 1) * sizeof *all);
    all[0] = last;
    return v;
}

/* ---- in the program ---------------------------------------------------------------------------
 */

/* Gradients summed, not averaged, over dp: what the mean divides by is that of one rank. */
static bool summed(Model *t, Fn *fn, Region *r)
{
    bool any = false;
    double all = (double)(t->m->batch.size * t->m->seq.size);
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        if (i->body)
            any |= summed(t, fn, i->body);
        double off = i->op == OP_const ? i->attrs.value * all - 1 : 1;
        if (off < -1e-9 || off > 1e-9)
            continue;
        i->attrs.value *= 2;
        any = true;
    }
    return any;
}

static bool not_averaged(Model *t, Fn *fn)
{
    return summed(t, fn, fn->body);
}

static bool gain_is_summed(const Model *t, const Fn *fn, const Ins *i)
{
    (void)fn;
    if (!is_sum(i) || !(i->attrs.axes & TP))
        return false;
    for (size_t k = 0; k < t->m->tensors.n; k++) {
        const Tensor *x = &t->m->tensors.data[k];
        if (!x->slot && x->external_rank == 1 && type_same_dims(type_of(t->m, i->out[0]), &x->type))
            return true;
    }
    return false;
}

static bool gains_not_over_tp(Model *t, Fn *fn)
{
    Ins *i = find(t, fn, fn->body, gain_is_summed);
    if (!i)
        return false;
    if (i->attrs.axes & ~(Axes)TP)
        i->attrs.axes &= ~(Axes)TP;
    else
        use_instead(fn->body, i->out[0], i->in[0]);
    return true;
}

static bool counts(const Model *t, const Fn *fn, const Ins *i)
{
    return i->op == OP_all_reduce && i->home == fn->body && !type_of(t->m, i->out[0])->rank &&
           comes_from(t, fn, i->in[0], ARG_weight);
}

/* The mean of the ranks' means: each divides by what its own targets count. */
static bool mean_of_means(Model *t, Fn *fn)
{
    Ins *i = find(t, fn, fn->body, counts);
    if (i)
        use_instead(fn->body, i->out[0], i->in[0]);
    return i != NULL;
}

static bool is_root(const Model *t, const Fn *fn, const Ins *i)
{
    (void)t;
    return i->op == OP_sqrt && i->home == fn->body && i->nout && !type_of(t->m, i->out[0])->rank;
}

static const Ins *sum_behind(const Model *t, Value v)
{
    const Ins *i = def_of(t, v), *found = NULL;
    for (uint32_t k = 0; i && !i->body && !is_sum(i) && k < i->nin && !found; k++)
        found = sum_behind(t, i->in[k]);
    return i && is_sum(i) ? i : found;
}

static bool clipped_by_own_norm(Model *t, Fn *fn)
{
    const Ins *root = find(t, fn, fn->body, is_root), *sum = root ? sum_behind(t, root->in[0]) : 0;
    if (sum)
        use_instead(fn->body, sum->out[0], sum->in[0]);
    return sum != NULL;
}

static bool counts_steps(const Model *t, const Fn *fn, const Ins *i)
{
    return i->op == OP_add && i->home == fn->body && !type_of(t->m, i->out[0])->rank &&
           comes_from(t, fn, i->in[0], ARG_step);
}

static bool step_off_by_one(Model *t, Fn *fn)
{
    Ins *i = find(t, fn, fn->body, counts_steps);
    if (i)
        i->in[1] = constant(t, fn, DT_f64, 2);
    return i != NULL;
}

static bool gains_decay(Model *t, Fn *fn)
{
    for (size_t k = 0; k < fn->results.n; k++) {
        const Tensor *x = &t->m->tensors.data[fn->results.data[k].tensor];
        if (fn->results.data[k].role != RES_update || x->slot || x->external_rank != 1)
            continue;
        Builder b = {.m = t->m, .region = fn->body};
        Value by = build_const(&b, DT_f64, 0.999);
        fn->body->results.data[k] = build2(&b, OP_mul, fn->body->results.data[k], by);
        return true;
    }
    return false;
}

static bool adds_gradients(const Model *t, const Fn *fn, const Ins *i)
{
    int k = i->op == OP_add ? 1 : ins_added(i);
    (void)fn;
    return i->backward && k >= 0 && type_of(t->m, i->out[0])->rank >= 2;
}

/* Of two things that lead to a gradient one is lost: of a tied embedding's, where it is tied. */
static bool half_is_lost(Model *t, Fn *fn)
{
    Ins *i = find(t, fn, fn->body, adds_gradients);
    if (!i)
        return false;
    if (i->op == OP_add)
        use_instead(fn->body, i->out[0], i->in[0]);
    else
        i->nin--;
    return true;
}

static bool adds_to_sum(const Model *t, const Fn *fn, const Ins *i)
{
    (void)fn;
    const Ins *x = i->op == OP_add ? def_of(t, i->in[0]) : NULL;
    const Ins *y = i->op == OP_add ? def_of(t, i->in[1]) : NULL;
    return !i->backward &&
           ((x && is_sum(x) && x->attrs.axes & TP) || (y && is_sum(y) && y->attrs.axes & TP));
}

/* A bias, or what goes past, is added by each rank of tp, before its sum. */
static bool added_tp_times(Model *t, Fn *fn)
{
    Ins *i = find(t, fn, fn->body, adds_to_sum);
    for (uint32_t k = 0; i && k < 2; k++) {
        const Ins *x = def_of(t, i->in[k]);
        if (x && is_sum(x)) {
            i->in[k] = x->in[0];
            return true;
        }
    }
    return false;
}

static bool counts_positions(const Model *t, const Fn *fn, const Ins *i)
{
    (void)t;
    (void)fn;
    return i->op == OP_iota && i->attrs.dim.axes & CP;
}

static bool cuts_positions(const Model *t, const Fn *fn, const Ins *i)
{
    (void)t;
    (void)fn;
    return i->op == OP_shard && i->attrs.axes & CP;
}

/* Positions are counted, or cut from those of all, as if the rank had the first. */
static bool local_positions(Model *t, Fn *fn)
{
    Ins *i = find(t, fn, fn->body, counts_positions);
    if (i) {
        i->attrs.dim.axes = 0;
        return true;
    }
    i = find(t, fn, fn->body, cuts_positions);
    if (!i)
        return false;
    Dim d = i->attrs.dim;
    i->op = OP_window;
    i->attrs = (Attrs){.along = {d.name, d.size / mesh_size(t->m, i->attrs.axes), 0}};
    return true;
}

static bool exchanges(const Model *t, const Fn *fn, const Ins *i)
{
    (void)t;
    (void)fn;
    return i->op == OP_all_to_all && i->attrs.axes == CP;
}

/* Attention has all heads of its own positions. */
static bool not_exchanged(Model *t, Fn *fn)
{
    Ins *i = find(t, fn, fn->body, exchanges);
    if (i)
        use_instead(fn->body, i->out[0], i->in[0]);
    return i != NULL;
}

/* ... or those of the ranks that have other heads, not other positions. */
static bool exchanged_over_tp(Model *t, Fn *fn)
{
    Ins *i = find(t, fn, fn->body, exchanges);
    if (i)
        i->attrs.axes = TP;
    return i != NULL;
}

/* ---- in the plan ------------------------------------------------------------------------------
 */

static bool microbatch_dropped(Plan *p)
{
    for (size_t k = 0; k < p->train->loops.n; k++) {
        Loop *l = &p->train->loops.data[k];
        if (strncmp(name_str(p->module->names, l->dim.name), "micro", 5) == 0) {
            l->dim.size--;
            return true;
        }
    }
    return false;
}

static bool mask_off_by_one(Plan *p)
{
    for (size_t k = 0; k < p->train->actions.n; k++)
        if (p->train->actions.data[k].kind == ACT_attention) {
            p->train->actions.data[k].attention.keys--;
            return true;
        }
    return false;
}

static bool writes_buffer_of(const Action *a, const Operand *o)
{
    for (int k = 0; k < a->noperands; k++)
        if (a->operand[k].write && a->operand[k].at.buffer == o->at.buffer)
            return true;
    return false;
}

/* A new parameter is gathered before it is computed: the others get the old one. */
static bool weight_is_stale(Plan *p)
{
    Action *all = p->train->actions.data;
    for (size_t j = p->train->actions.n; j-- > 0;) {
        if (all[j].kind != ACT_comm || all[j].comm.kind != MG_ALL_GATHER || all[j].around >= 0)
            continue;
        for (size_t i = j; i-- > 0 && all[i].kind != ACT_end;)
            if (writes_buffer_of(&all[i], &all[j].operand[0])) {
                Action early = all[j];
                memmove(&all[i + 1], &all[i], (j - i) * sizeof *all);
                all[i] = early;
                return true;
            }
    }
    return false;
}

/* The second exchange has the operand of the first: queries in the place of keys, or these in that
 * of values. */
static bool exchanged_twice(Plan *p)
{
    const Action *first = NULL;
    for (size_t k = 0; k < p->train->actions.n; k++) {
        Action *a = &p->train->actions.data[k];
        if (a->kind != ACT_comm || a->comm.kind != MG_ALL_TO_ALL)
            continue;
        if (first && type_equal(&first->operand[0].type, &a->operand[0].type)) {
            a->operand[0].at = first->operand[0].at;
            return true;
        }
        first = a;
    }
    return false;
}

/* Two buffers that are alive at once have 64 bytes in common. */
static bool element_overwritten(Plan *p)
{
    for (size_t i = 0; i < p->buffers.n; i++)
        for (size_t j = 0; j < p->buffers.n; j++) {
            const Buffer *a = &p->buffers.data[i];
            Buffer *b = &p->buffers.data[j];
            if (i == j || a->persistent || b->persistent || a->program || b->program ||
                a->first < 0 || b->first <= a->first || b->first >= a->last ||
                b->offset < a->offset + a->bytes)
                continue;
            b->offset = a->offset + a->bytes - 64;
            return true;
        }
    return false;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

typedef struct Fault {
    const char *name;
    bool (*in_program)(Model *t, Fn *fn);
    bool (*in_plan)(Plan *p);
    bool weighed; /* of a model whose targets have weights */
    bool heads;   /* of an exchange of heads */
} Fault;

static const Fault faults[] = {
    {"gradients summed over dp, not averaged", not_averaged, NULL, false, false},
    {"gradients of gains not added up over tp", gains_not_over_tp, NULL, false, false},
    {"the mean of the ranks' means", mean_of_means, NULL, true, false},
    {"one microbatch dropped", NULL, microbatch_dropped, false, false},
    {"clipped by the norm of a rank", clipped_by_own_norm, NULL, false, false},
    {"Adam's step off by one", step_off_by_one, NULL, false, false},
    {"weight decay on gains and biases", gains_decay, NULL, false, false},
    {"half of a gradient lost", half_is_lost, NULL, false, false},
    {"what is added to a split product added tp times", added_tp_times, NULL, false, false},
    {"positions of the rank, not of the whole", local_positions, NULL, false, false},
    {"the mask of attention off by one", NULL, mask_off_by_one, false, false},
    {"a weight of the step before", NULL, weight_is_stale, false, false},
    {"an element of an activation overwritten", NULL, element_overwritten, false, false},
    {"heads not exchanged for positions", not_exchanged, NULL, false, true},
    {"heads exchanged over tp", exchanged_over_tp, NULL, false, true},
    {"the same exchanged twice", NULL, exchanged_twice, false, true},
};

/* The same model with weights of targets, as a file of its own. */
static Small weighed_model(const Small *s, char *path, size_t size)
{
    static const char *const edits[][2] = {
        {": token(vocab))", ": token(vocab), weight[batch, seq])"},
        {"next(tokens))", "next(tokens), weight)"}};
    char *from = NULL, name[256], line[1024];
    size_t n;
    snprintf(name, sizeof name, MODELS_DIR "/%s", s->file);
    snprintf(path, size, "/tmp/mgc-faults-%d.mg", (int)getpid());
    FILE *in = fopen(name, "r"), *out = fopen(path, "w"), *memory = open_memstream(&from, &n);
    while (fgets(line, sizeof line, in)) {
        char *at = line;
        for (int e = 0; e < 2; e++) {
            char *hit = strstr(at, edits[e][0]);
            if (!hit)
                continue;
            fprintf(memory, "%.*s%s", (int)(hit - at), at, edits[e][1]);
            at = hit + strlen(edits[e][0]);
        }
        fputs(at, memory);
    }
    fclose(memory);
    fputs(from, out);
    fclose(in);
    fclose(out);
    free(from);
    Small weighed = *s;
    weighed.file = path;
    return weighed;
}

typedef enum Caught { TYPES, PROOF, NUMBERS, WAYS } Caught;
static const char *const ways[WAYS] = {"by the types", "by the proof", "by the numbers"};

static Caught caught(const Fault *f, const Reference *r, const Small *s, const char *layout)
{
    Model t;
    Caught by = NUMBERS;
    FILE *nowhere = fopen("/dev/null", "w");
    assert_true(open_many(&t, r, layout));
    Fn *fn = module_fn(t.m, "train");
    Lies whole = lies(&t, "train");
    if (f->in_plan) {
        must_make(&t, NULL, "shard", "local");
        lower_physical(&t);
        Plan *p = plan_copy(plan_for(&t, &test_device), t.a);
        assert_int_equal(plan_check(p, nowhere), 0);
        assert_true(f->in_plan(p));
        by = plan_check(p, nowhere) ? PROOF : WAYS;
    } else if (!f->in_program(&t, fn)) {
        fail_msg("%s has no place for: %s", s->file, f->name);
    } else if (ir_verify(t.m, nowhere)) {
        by = TYPES;
    } else if (run_many(&r->t, r->args[0], r->want[0], &t, "train", &whole).worst <= SHARD_BOUND) {
        by = WAYS;
    }
    fclose(nowhere);
    if (by == WAYS)
        fail_msg("%s: nothing sees: %s", s->file, f->name);
    model_close(&t);
    return by;
}

static void by_name(void **state)
{
    (void)state;
    int seen[WAYS] = {0};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        for (size_t n = 0; n < 2 * sizeof models / sizeof *models; n++) {
            const size_t k = n / 2, heads = n % 2;
            char path[64];
            if (faults[f].heads && !heads)
                continue;
            Small s = faults[f].weighed ? weighed_model(&models[k], path, sizeof path) : models[k];
            Reference r;
            open_reference(&r, &s, AT_ONCE);
            Caught by = caught(&faults[f], &r, &s, layouts[heads]);
            if (n == 1)
                print_message("%-50s %s\n", faults[f].name, ways[by]);
            seen[by]++;
            model_close(&r.t);
            if (faults[f].weighed)
                unlink(path);
        }
    print_message("%d by the types, %d by the proof, %d by the numbers\n", seen[TYPES], seen[PROOF],
                  seen[NUMBERS]);
    assert_true(seen[TYPES] + seen[PROOF] >= 2 * seen[NUMBERS]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
