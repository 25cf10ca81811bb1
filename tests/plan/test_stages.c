/* Layers as stages on several ranks, in the interpreter: programs of all ranks against those of
 * one, in double precision. What a rank has not is NaN there. Every collective along the axis of
 * stages is left out and changed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/passes.h"
#include "passes/walk.h"
#include "tests/plan/sharded.h"

#define SMALL(file, layers, batch, more)                                                           \
    {                                                                                              \
        file, 0,                                                                                   \
        {                                                                                          \
            "layers=" #layers, "batch=" #batch, "hidden=8", "head=2", "ffn=8", "vocab=16",         \
                "seq=8", more                                                                      \
        }                                                                                          \
    }
#define LLAMA(layers, batch)    SMALL("llama7b.mg", layers, batch, "kv_heads=4")
#define GPT2(layers, batch)     SMALL("gpt2_124m.mg", layers, batch, "heads=4")
#define QWEN(layers, batch)     SMALL("qwen3_0_6b.mg", layers, batch, "kv_heads=4")
#define MIXTRAL(layers, batch)  SMALL("mixtral_mini.mg", layers, batch, "experts=4")
#define DROPLESS(layers, batch) SMALL("mixtral_8x7b_dropless.mg", layers, batch, "experts=4")

#define NOISE(layers)                                                                              \
    {                                                                                              \
        MODELS_DIR "/../tests/plan/noise.mg", 0,                                                   \
        {                                                                                          \
            "layers=" #layers                                                                      \
        }                                                                                          \
    }

/* Two losses, followers, and several towers: beside each other, and one after the other's sums. */
#define OWN(file, layers)                                                                          \
    {MODELS_DIR "/../tests/plan/" file, 0, {"layers=" #layers, "batch=8", "vocab=16"}}
#define TOGETHER(layers) OWN("together.mg", layers)
#define ENDS(layers)     OWN("ends.mg", layers)

#define DEEPSEEK(layers)                                                                           \
    {"deepseek_v3.mg",                                                                             \
     0,                                                                                            \
     {                                                                                             \
         "layers=" #layers, "batch=8", "hidden=8", "heads=2", "still=4", "turn=4", "value=4",      \
         "latent=4", "narrow=4", "wide=8", "ffn=4", "experts=4", "groups=2", "vocab=16", "seq=8",  \
         "dense=0" /* layers of one kind */                                                        \
     }}

/* The logits are more work than a layer, and the last rank has none of those. */
#define WIDE(layers)                                                                               \
    {"llama7b.mg",                                                                                 \
     0,                                                                                            \
     {"layers=" #layers, "batch=8", "hidden=8", "head=2", "ffn=8", "vocab=512", "seq=8",           \
      "kv_heads=4"}}

typedef struct Alone {
    Small model;
    const char *spec;
    bool bits; /* no table has two gradients: the same bits as on one rank */
} Alone;

static const Alone alone[] = {
    {LLAMA(4, 8), "pp=2; layers pp", true},
    {LLAMA(4, 8), "pp=4; layers pp", true},
    {LLAMA(3, 8), "pp=2; layers pp", true},
    {LLAMA(7, 8), "pp=4; layers pp", true},
    {LLAMA(4, 8), "pp=2; layers pp:2", true},
    {LLAMA(5, 8), "pp=2; layers pp:2", true},
    {LLAMA(9, 8), "pp=4; layers pp:2", true},
    {GPT2(4, 8), "pp=2; layers pp", false},
    {GPT2(5, 8), "pp=4; layers pp", false},
    {GPT2(5, 8), "pp=2; layers pp:2", false},
    {QWEN(4, 8), "pp=2; layers pp", false},
    {QWEN(6, 8), "pp=4; layers pp", false},
    {MIXTRAL(4, 8), "pp=2; layers pp", true},
    {MIXTRAL(3, 8), "pp=2; layers pp", true},
    {MIXTRAL(5, 8), "pp=2; layers pp:2", true},
    {WIDE(4), "pp=2; layers pp", true},
    {WIDE(7), "pp=4; layers pp:2", true},
    {NOISE(4), "pp=2; layers pp", true},
    {NOISE(7), "pp=4; layers pp", true},
    {NOISE(7), "pp=2; layers pp:2", true},
    {TOGETHER(4), "pp=2; layers pp", false},
    {TOGETHER(5), "pp=4; layers pp", false},
    {TOGETHER(5), "pp=2; layers pp:2", false},
    {ENDS(4), "pp=2; layers pp", false},
    {ENDS(5), "pp=4; layers pp", false},
    {ENDS(5), "pp=2; layers pp:2", false},
    {DEEPSEEK(4), "pp=2; layers pp", false},
    {DEEPSEEK(6), "pp=2; layers pp:2", false},
    /* Numbers that are said, among them stages without a layer. */
    {LLAMA(5, 8), "pp=2; layers pp:1=1,4", true},
    {LLAMA(5, 8), "pp=2; layers pp:1=5,0", true},
    {LLAMA(5, 8), "pp=4; layers pp:1=0,2,3,0", true},
    {LLAMA(5, 8), "pp=4; layers pp:1=2,0,3,0", true},
    {LLAMA(7, 8), "pp=2; layers pp:2=3,1,3,0", true},
    {LLAMA(7, 8), "pp=2; layers pp:2=0,4,3,0", true},
    {LLAMA(7, 8), "pp=2; layers pp:2=4,0,3,0", true},
    {QWEN(6, 8), "pp=2; layers pp:2=0,3,3,0", false},
    {MIXTRAL(5, 8), "pp=2; layers pp:2=1,0,1,3", true},
    {NOISE(7), "pp=2; layers pp:2=3,0,3,1", true},
    {TOGETHER(5), "pp=2; layers pp:2=0,2,3,0", false},
    {ENDS(5), "pp=4; layers pp:1=0,1,4,0", false},
    {DEEPSEEK(6), "pp=2; layers pp:2=0,4,2,0", false},
};

static void stages_alone(void **state)
{
    (void)state;
    static const int64_t at_once[] = {8, 4, 2, 1};
    for (size_t k = 0; k < sizeof alone / sizeof *alone; k++)
        for (int n = 0; n < 4; n++) {
            Reference r;
            if (!sampled(4 * k + (uint64_t)n, SANITIZED ? 8 : 4))
                continue;
            open_reference(&r, &alone[k].model, at_once[n]);
            double worst = layout_error(&r, alone[k].spec);
            if (alone[k].bits ? worst != 0 : !(worst <= SHARD_BOUND))
                fail_msg("%s %s, layout %s: %g", alone[k].model.file, alone[k].model.define[0],
                         alone[k].spec, worst);
            assert_true(layout_follows(&r, alone[k].spec));
            model_close(&r.t);
        }
}

static const char *const combined[] = {
    "pp=2 dp=2; layers pp; batch dp",
    "dp=2 pp=2; layers pp; batch dp; state dp",
    "dp=2 pp=2; layers pp; batch dp; state dp; grads dp",
    "dp=2 pp=2; layers pp; batch dp; state dp; grads dp; params dp",
    "pp=2 tp=2; layers pp; kv_heads tp; heads tp; ffn tp; vocab tp",
    "pp=2 tp=2; layers pp:2; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp",
    "pp=2 cp=2; layers pp; seq cp",
    "cp=2 pp=2; layers pp; seq cp~",
    "pp=4 cp=2; layers pp; seq cp~",
    "pp=2 dp=2 tp=2; layers pp:2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; state "
    "dp",
    "dp=2 pp=2 tp=2; layers pp; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; state dp; "
    "grads dp; params dp",
    "pp=2 ep=2; layers pp; experts ep; batch ep",
    "pp=2 dp=2 ep=2; layers pp; experts ep; batch dp ep; state dp; grads dp",
    "ep=2 pp=2; layers pp; experts ep>; batch ep", /* of the last model alone: sorted rows */
    "pp=2 dp=2 ep=2; layers pp:2; experts ep>; batch dp ep; state dp; grads dp",
    "dp=2 pp=2; layers pp:2=2,0,3,0; batch dp; state dp; grads dp; params dp",
    "pp=2 tp=2; layers pp:1=1,4; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp",
};

/* Is a layout for the n-th model? Rows are sent in the last alone, and the second has other numbers
 * of layers than are said. */
static bool is_for(const char *spec, size_t n)
{
    return (!strstr(spec, "experts") || n >= 3) && (!strchr(spec, '>') || n == 4) &&
           (!strchr(strchr(spec, ';'), '=') || n != 1);
}

static void stages_combined(void **state)
{
    (void)state;
    uint64_t n = 0;
    static const Small models[] = {LLAMA(5, 12), GPT2(4, 12), QWEN(5, 12), MIXTRAL(5, 12),
                                   DROPLESS(5, 12)};
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        for (int64_t at_once = 12; at_once >= 4; at_once -= 8) { /* one microbatch, and three */
            Reference r;
            open_reference(&r, &models[k], at_once);
            for (size_t l = 0; l < sizeof combined / sizeof *combined; l++, n++)
                if (sampled(n, SANITIZED ? 4 : 2) && is_for(combined[l], k))
                    assert_true(layout_follows(&r, combined[l]));
            model_close(&r.t);
        }
}

/* Stages are fused for the plan: into kernels, and products as they are called. */
static void stages_fused(void **state)
{
    (void)state;
    static const char *const some[] = {
        "pp=2; layers pp", "pp=4; layers pp", "pp=2; layers pp:2",
        "dp=2 pp=2; layers pp; batch dp; state dp; grads dp; params dp",
        "pp=2 tp=2; layers pp:2; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp"};
    static const Small models[] = {LLAMA(5, 8), GPT2(5, 8), MIXTRAL(5, 8),
                                   WIDE(3),     ENDS(5),    TOGETHER(5)};
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        Reference r;
        open_reference(&r, &models[k], 4);
        for (size_t l = 0; l < sizeof some / sizeof *some; l++) {
            Model t;
            Lies whole[3];
            if (!sampled(5 * k + l, SANITIZED ? 5 : 2))
                continue;
            if (!open_local(&t, &r, some[l], whole))
                fail_msg("layout %s: %s", some[l], model_messages(&t));
            lower_physical(&t);
            for (int f = 0; f < 3; f++) {
                Compared c =
                    run_many(&r.t, r.args[f], r.want[f], &t, sharded_functions[f], &whole[f]);
                if (!(c.worst <= SHARD_BOUND))
                    fail_msg("%s, layout %s: @%s: %s is off by %g", models[k].file, some[l],
                             sharded_functions[f], c.where, c.worst);
            }
            model_close(&t);
        }
        model_close(&r.t);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* The n-th operation that crosses stages: a collective along their axis, or a relay. */
static Ins *nth_crossing(const Module *m, Region *r, int *n)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k], *inner = i->body ? nth_crossing(m, i->body, n) : NULL;
        bool crosses = op_is(i->op, COMM) && (i->attrs.axes & m->layout.pipeline.axis);
        if (inner)
            return inner;
        if ((crosses || i->attrs.relay) && (*n)-- == 0)
            return i;
    }
    return NULL;
}

static void use_operand(Region *r, const Ins *of)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        for (uint32_t x = 0; x < i->nin; x++)
            i->in[x] = i->in[x] == of->out[0] ? of->in[0] : i->in[x];
        if (i->body)
            use_operand(i->body, of);
    }
    for (size_t k = 0; k < r->results.n; k++)
        if (r->results.data[k] == of->out[0])
            r->results.data[k] = of->in[0];
}

typedef enum Fault { LEFT_OUT, OTHER_AXES, OTHER_PLACE, OTHER_WAY, FAULTS } Fault;

static bool plant(const Module *m, Fn *fn, Ins *i, Fault f)
{
    Axes all = ((Axes)1 << m->layout.mesh.n) - 1;
    bool relay = i->attrs.relay;
    switch (f) {
    case LEFT_OUT:
        if (relay)
            i->attrs.relay = false;
        else
            use_operand(fn->body, i);
        return true;
    case OTHER_AXES:
        i->attrs.axes = all & ~m->layout.pipeline.axis;
        return !relay && i->attrs.axes;
    case OTHER_PLACE:
        i->attrs.at = mesh_size(m, m->layout.pipeline.axis) - 1 - i->attrs.at;
        return i->op == OP_broadcast;
    case OTHER_WAY:
        i->attrs.reverse = !i->attrs.reverse;
        return relay;
    case FAULTS:
        break;
    }
    return false;
}

/* Each is refused by the invariants, or seen in the numbers. */
static void faults(void **state)
{
    (void)state;
    static const char *const some[] = {
        "dp=2 pp=2; layers pp; batch dp; state dp", "pp=4 dp=2; layers pp; batch dp",
        "dp=2 pp=2; layers pp:2; batch dp", "dp=2 pp=2; layers pp:2=3,0,2,0; batch dp"};
    static const Small models[] = {GPT2(5, 8), LLAMA(5, 8), TOGETHER(5)};
    int planted = 0, told = 0, seen = 0;
    for (int k = 0; k < 12; k++) {
        const char *spec = some[k % 4];
        Reference r;
        if (k >= 8 && !sampled((uint64_t)k, 3))
            continue;
        open_reference(&r, &models[k / 4], 4);
        for (int n = 0, more = 1; more; n++)
            for (int f = 0; f < FAULTS; f++) {
                Model t;
                int at = n;
                assert_true(open_many(&t, &r, spec));
                Lies whole = lies(&t, "train");
                Fn *fn = module_fn(t.m, "train");
                Ins *i = nth_crossing(t.m, fn->body, &at);
                more = i != NULL;
                if (i && plant(t.m, fn, i, (Fault)f)) {
                    FILE *nowhere = fopen("/dev/null", "w");
                    planted++;
                    if (ir_verify(t.m, nowhere))
                        told++;
                    else if (run_many(&r.t, r.args[0], r.want[0], &t, "train", &whole).worst >
                             SHARD_BOUND)
                        seen++;
                    else
                        fail_msg("layout %s: fault %d of crossing %d is not seen", spec, f, n);
                    fclose(nowhere);
                }
                model_close(&t);
            }
        model_close(&r.t);
    }
    print_message("%d faults: %d by the invariants, %d by the numbers\n", planted, told, seen);
    assert_true(planted > 200 && told >= 0.9 * planted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_alone),
        cmocka_unit_test(stages_combined),
        cmocka_unit_test(stages_fused),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
