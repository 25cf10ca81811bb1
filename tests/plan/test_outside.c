/* The memory of a GPU beside the arena: the proof counts it anew, agrees with every plan of
 * these layouts, and refuses a plan that counts a byte or a node too little. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/check/check.h"
#include "plan/outside.h"
#include "plan/place/place.h"
#include "runtime/sizes.h"
#include "tests/plan/sharded.h"

static const Small llama = {"llama7b.mg",
                            0,
                            {"layers=7", "hidden=16", "kv_heads=4", "group=1", "head=4", "ffn=8",
                             "vocab=16", "seq=8", "batch=8"}};
static const Small mixtral = {"mixtral_mini.mg",
                              0,
                              {"layers=5", "hidden=8", "kv_heads=4", "head=2", "ffn=8", "vocab=16",
                               "seq=8", "experts=4", "batch=8"}};

typedef struct Case {
    const Small *model;
    const char *schedule, *spec; /* NULL: no stages */
    int64_t at_once;
    int node_ranks;
    mg_links collectives, messages;
} Case;

/* The links by hand: a ring is a pair of connections, near or far; who sends to each other rank has
 * a pair with each that is near. */
static const Case cases[] = {
    {&llama, NULL, "dp=2; batch dp", 2, 8, {1, 1, 0, 0, 0, false}, {0, 0, 0, 0, 0, false}},
    {&llama, NULL, "dp=4; batch dp", 4, 2, {1, 0, 1, 0, 0, false}, {0, 0, 0, 0, 0, false}},
    {&llama,
     NULL,
     "dp=2 tp=2; batch dp; kv_heads tp; ffn tp; vocab tp",
     2,
     2,
     {3, 1, 1, 0, 0, false},
     {0}},
    {&llama, NULL, "cp=4; seq cp~", 1, 8, {1, 2, 0, 0, 0, false}, {0, 0, 0, 0, 0, false}},
    {&llama, "1f1b", "pp=4; layers pp", 1, 8, {1, 1, 0, 0, 0, false}, {1, 2, 0, 0, 0, false}},
    {&llama, "zb-h1", "pp=2; layers pp", 1, 1, {1, 0, 1, 0, 0, false}, {1, 0, 0, 1, 0, false}},
    {&llama,
     "interleaved",
     "pp=2; layers pp:2",
     1,
     8,
     {1, 1, 0, 0, 0, false},
     {1, 1, 0, 0, 0, false}},
    {&mixtral,
     NULL,
     "ep=4; experts ep; batch ep",
     4,
     8,
     {1, 4, 0, 0, 0, false},
     {0, 0, 0, 0, 0, false}},
    {&mixtral,
     NULL,
     "ep=4; experts ep; batch ep",
     4,
     2,
     {1, 1, 1, 1, 0, false},
     {0, 0, 0, 0, 0, false}},
};

static int broken_in(const Plan *p)
{
    FILE *f = fopen("/dev/null", "w");
    const int n = plan_check(p, f);
    fclose(f);
    return n;
}

static void same_links(const mg_links *a, const mg_links *b)
{
    assert_int_equal(a->comms, b->comms);
    assert_int_equal(a->near, b->near);
    assert_int_equal(a->far, b->far);
    assert_int_equal(a->pools, b->pools);
    assert_int_equal(a->switched, b->switched);
}

static Device gpu(int node_ranks)
{
    Device d = test_device;
    d.target = TARGET_cuda;
    d.node_ranks = node_ranks;
    d.memory = (int64_t)1 << 40;
    return d;
}

/* With the least that is proved in place of *x, and with one less. */
static void one_less_is_refused(const Plan *p, int64_t *x, int64_t least)
{
    const int64_t was = *x;
    *x = least;
    assert_int_equal(broken_in(p), 0);
    *x = least - 1;
    assert_int_equal(broken_in(p), 1);
    *x = was;
}

static void refuses(Plan *p)
{
    Outside *o = &p->outside;
    Program *const *const all = p->programs;
    int64_t nodes = 0;
    for (int k = 0; k < PLAN_PROGRAMS; k++) {
        if (!all[k])
            continue;
        nodes += o->most[k];
        one_less_is_refused(p, &o->most[k], o->most[k]);
        for (int place = 0; place < o->places; place++) {
            one_less_is_refused(p, &o->nodes[k][place].before, o->nodes[k][place].before);
            one_less_is_refused(p, &o->nodes[k][place].after, o->nodes[k][place].after);
        }
    }
    one_less_is_refused(p, &o->bytes[OUT_graphs], nodes * MG_NODE_BYTES);
    for (int i = 0; i < OUT_count; i++)
        if (i != OUT_graphs && i != OUT_products && o->bytes[i])
            one_less_is_refused(p, &o->bytes[i], o->bytes[i]);
    /* That of one stream at least. */
    const int64_t was = o->bytes[OUT_products];
    o->bytes[OUT_products] = MG_PRODUCT_WORK - 1;
    assert_int_equal(broken_in(p), 1);
    o->bytes[OUT_products] = was;
}

static void layouts(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const Case *c = &cases[k];
        Reference r;
        Model t;
        Lies l[3];
        open_reference(&r, c->model, c->at_once);
        assert_true(open_local(&t, &r, c->spec, l));
        if (c->schedule)
            t.m->layout.pipeline.schedule = name_intern(t.m->names, c->schedule);
        lower_physical(&t);
        const Device d = gpu(c->node_ranks);
        Plan *p = plan_for(&t, &d);
        assert_int_equal(broken_in(p), 0);
        same_links(&p->outside.links[OUT_comms], &c->collectives);
        same_links(&p->outside.links[OUT_messages], &c->messages);
        refuses(p);
        model_close(&t);
        model_close(&r.t);
    }
}

/* Sums in any order: a chain of two or more in a node, a tree over nodes, the switch of one. */
static void in_any_order(void **state)
{
    static const Case any[] = {
        {&llama, NULL, "dp=2; batch dp", 2, 8, {1, 2, 0, 0, 2, false}, {0}},
        {&llama, NULL, "dp=4; batch dp", 4, 8, {1, 3, 0, 0, 4, false}, {0}},
        {&llama, NULL, "dp=4; batch dp", 4, 2, {1, 1, 4, 0, 0, false}, {0}},
        {&llama, NULL, "dp=4; batch dp", 4, 1, {1, 0, 4, 0, 0, false}, {0}},
        {&llama, NULL, "cp=4; seq cp~", 1, 8, {1, 4, 0, 0, 4, false}, {0}},
    };
    (void)state;
    for (size_t k = 0; k < sizeof any / sizeof *any; k++)
        for (int adds = 0; adds < 2; adds++) {
            Reference r;
            Model t;
            Lies l[3];
            open_reference(&r, any[k].model, any[k].at_once);
            assert_true(open_local(&t, &r, any[k].spec, l));
            lower_physical(&t);
            Device d = gpu(any[k].node_ranks);
            d.collectives = COLLECTIVES_unordered;
            d.switch_bandwidth = adds ? 1e12 : 0;
            Plan *p = plan_for(&t, &d);
            mg_links want = any[k].collectives;
            want.switched *= adds;
            assert_int_equal(broken_in(p), 0);
            same_links(&p->outside.links[OUT_comms], &want);
            refuses(p);
            model_close(&t);
            model_close(&r.t);
        }
}

static Action *copied(Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].kind == ACT_comm && p->train->actions.data[i].comm.piece)
            return &p->train->actions.data[i];
    fail_msg("no collective is made by copies");
    return NULL;
}

/* Collectives by copies take no links of NCCL, but of numbers alone; and are refused where they
 * cannot be made. */
static void by_copies(void **state)
{
    (void)state;
    Reference r;
    Model t;
    Lies l[3];
    open_reference(&r, &llama, 2);
    assert_true(open_local(&t, &r, "dp=2 tp=2; batch dp; kv_heads tp; ffn tp; vocab tp", l));
    lower_physical(&t);
    Device d = gpu(4);
    d.through_host = true;
    d.collectives = COLLECTIVES_copies;
    d.level[LEVEL_host] = (DeviceLevel){(int64_t)1 << 40, 1e9, 1e9, 2e9, 1e-5};
    Plan *p = plan_for(&t, &d);
    assert_int_equal(broken_in(p), 0);
    assert_int_equal(p->outside.links[OUT_comms].far, 0);
    mg_comm_desc *c = &copied(p)->comm;
    const int64_t piece = c->piece;
    assert_true(p->outside.piece >= piece);
    p->outside.piece = piece - 1; /* the memory that ranks exchange through is too small */
    assert_true(broken_in(p) > 0);
    p->outside.piece = piece * 2;
    c->piece = 0; /* made by NCCL, without links for it, and as other nodes */
    assert_true(broken_in(p) > 0);
    c->piece = piece + 1; /* no whole numbers */
    assert_true(broken_in(p) > 0);
    c->piece = piece;
    assert_int_equal(broken_in(p), 0);
    d.through_host = false;
    assert_true(broken_in(p) > 0);
    d.through_host = true;
    d.node_ranks = 3; /* groups are in two nodes */
    assert_true(broken_in(p) > 0);
    d.node_ranks = 4;
    assert_int_equal(broken_in(p), 0);
    model_close(&t);
    model_close(&r.t);
}

/* The first wait for a collective, or for what comes after it in its stream. */
static uint32_t *wait_for(Plan *p, const Action *c)
{
    Action *all = p->train->actions.data;
    const uint32_t number = (uint32_t)(c - all) + 1;
    for (size_t i = number; i < p->train->actions.n; i++)
        if (all[i].stream != c->stream && all[i].wait[c->stream] >= number)
            return &all[i].wait[c->stream];
    return NULL;
}

/* A reader of the sums of a collective by copies waits for it, and it for what makes what it sends:
 * without either wait the plan is refused. */
static void waits_of_copies(void **state)
{
    (void)state;
    Reference r;
    Model t;
    Lies l[3];
    open_reference(&r, &llama, 2);
    assert_true(open_local(&t, &r, "dp=2 tp=2; batch dp; kv_heads tp; ffn tp; vocab tp", l));
    lower_physical(&t);
    Device d = gpu(4);
    d.through_host = true;
    d.collectives = COLLECTIVES_copies;
    Plan *p = plan_for(&t, &d);
    int before = 0, after = 0;
    for (size_t i = 0; i < p->train->actions.n; i++) {
        Action *c = &p->train->actions.data[i];
        if (c->kind != ACT_comm || !c->comm.piece)
            continue;
        for (int s = 0; s < MAX_STREAMS; s++) {
            const uint32_t was = c->wait[s];
            c->wait[s] = 0;
            before += was && broken_in(p) > 0;
            c->wait[s] = was;
        }
        uint32_t *wait = wait_for(p, c), was = wait ? *wait : 0;
        if (!wait)
            continue;
        *wait = 0;
        after += broken_in(p) > 0;
        *wait = was;
    }
    assert_true(before > 0 && after > 0);
    assert_int_equal(broken_in(p), 0);
    model_close(&t);
    model_close(&r.t);
}

/* A processor's plan has nothing beside the arena here. */
static void none_on_a_host(void **state)
{
    (void)state;
    Model t;
    open_model(&t, &llama, DT_f64);
    lower_physical(&t);
    Plan *p = plan_for(&t, &test_device);
    assert_int_equal(outside_bytes(p), 0);
    assert_null(outside_text(p, t.a));
    model_close(&t);
}

/* A plan fits with its bytes beside the arena, or not: told with both numbers, and what they are
 * for. */
static void too_little(void **state)
{
    (void)state;
    Device d = gpu(8);
    Model t;
    open_model(&t, &llama, DT_f64);
    lower_physical(&t);
    Plan *p = plan_for(&t, &d);
    const int64_t need = plan_bytes(p);
    assert_int_equal(need, p->arena_bytes + outside_bytes(p));
    d.memory = need;
    assert_true(plan_place(p));
    d.memory = need - 1;
    assert_false(plan_place(p));
    const char *said = model_messages(&t);
    char beside[160];
    snprintf(beside, sizeof beside,
             "(%lld bytes) of it beside the arena: CUDA context 72 MiB, code",
             (long long)outside_bytes(p));
    assert_non_null(strstr(said, "error[MG0550]"));
    assert_non_null(strstr(said, beside));
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),        cmocka_unit_test(in_any_order),
        cmocka_unit_test(by_copies),      cmocka_unit_test(waits_of_copies),
        cmocka_unit_test(none_on_a_host), cmocka_unit_test(too_little)};
    return cmocka_run_group_tests_name("outside", tests, NULL, NULL);
}
