/* test_rates.c - times of collectives and products by the numbers of a device, against numbers
 * worked out by hand; and the parts of a step of the mesh. */
#include "decide/apart.h"
#include "plan/copies.h"
#include "plan/network.h"
#include "plan/rates.h"
#include "plan/stragglers.h"
#include "plan/volume.h"
#include "plan/whole.h"
#include "tests/plan/planned.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { OUTER = 1, MIDDLE = 2, INNER = 4 }; /* axes of the mesh 6 x 4 x 2 */

static const Device device = {.name = "nodes of 4",
                              .target = TARGET_cuda,
                              .flops_f32 = 4e9, /* of 4 multiprocessors */
                              .product_share = 0.5,
                              .product_rows = 64,
                              .product_columns = 32,
                              .bandwidth = 4e6,
                              .launch = 1e-9,
                              .link_bandwidth = 1e6,
                              .link_seconds = 1e-3,
                              .link_slowdown = 1,
                              .node_ranks = 4,
                              .node_bandwidth = 1e5,
                              .node_seconds = 1e-2,
                              .streams = 1,
                              .threads = 4};

static Module *mesh(Arena *a)
{
    Module *m = module_new(a, names_new(a), NULL);
    const int64_t size[] = {6, 4, 2};
    for (int i = 0; i < 3; i++)
        vec_push(a, &m->layout.mesh, ((Axis){.size = size[i]}));
    m->train.compute = DT_f32;
    return m;
}

static double seconds_on(const Device *d, Module *m, Action act)
{
    Program g = {0};
    Plan p = {.module = m, .device = d, .train = &g};
    act.times = 1;
    vec_push(m->arena, &g.actions, act);
    plan_rates(&p);
    assert_true(g.busy == g.actions.data[0].seconds && g.seconds == g.busy);
    return g.seconds;
}

static double seconds_of(Module *m, Action act)
{
    return seconds_on(&device, m, act);
}

/* Of so many numbers on a rank. */
static double comm_on(const Device *on, Module *m, mg_comm_kind kind, Axes axes, int64_t size)
{
    mg_comm_desc d = {.kind = kind,
                      .dtype = MG_F32,
                      .axes = axes,
                      .n = mesh_size(m, axes),
                      .outer = 1,
                      .size = size,
                      .inner = 1};
    return seconds_on(on, m, (Action){.kind = ACT_comm, .around = -1, .comm = d});
}

/* Of 4000 bytes, on processors. */
static double comm(Module *m, mg_comm_kind kind, Axes axes)
{
    Device host = device;
    host.target = TARGET_host;
    return comm_on(&host, m, kind, axes, 1000);
}

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-9 * want)
        fail_msg("%.12g s, and by hand %.12g", got, want);
}

static void collectives(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    assert_int_equal(network_node(m, &device, INNER), 2);
    assert_int_equal(network_node(m, &device, MIDDLE), 2);
    assert_int_equal(network_node(m, &device, MIDDLE | INNER), 4);
    assert_int_equal(network_node(m, &device, OUTER), 1);
    /* Two in one node: half of the bytes, one step. */
    near(comm(m, MG_REDUCE_SCATTER, INNER), 2000 / 1e6 + 1e-3);
    /* Four, two to a node: 3/4 of them at twice a rank's rate; 2 steps inside, 1 over the network.
     */
    near(comm(m, MG_REDUCE_SCATTER, MIDDLE), 3000 / 2e5 + 2e-3 + 1e-2);
    near(comm(m, MG_ALL_GATHER, MIDDLE), 12000 / 2e5 + 2e-3 + 1e-2);
    /* The tree has one step inside of a node, and one between the two. */
    near(comm(m, MG_ALL_REDUCE, MIDDLE), 6000 / 2e5 + 2 * (1e-3 + 1e-2));
    /* Six nodes with one each: 3 steps of a tree, not 5 of a ring. */
    near(comm(m, MG_REDUCE_SCATTER, OUTER), 4000 * 5 / 6. / 1e5 + 3e-2);
    near(comm(m, MG_RING_SHIFT, OUTER), 4000 / 1e5 + 1e-2);
    near(comm(m, MG_RING_SHIFT, INNER), 4000 / 1e6 + 1e-3);
    /* 3000 bytes go to the three others; two of those are in the other node. */
    near(comm(m, MG_ALL_TO_ALL, MIDDLE), 2000 / 1e5 + 2e-3 + 1e-2);
    arena_free(a);
}

/* An all-reduce in any order, on H100s: by a tree where it is small, by the switch where large. */
static void unordered(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    Device d = device;
    d.collectives = COLLECTIVES_unordered;
    d.link_bandwidth = 360e9;
    d.node_bandwidth = 46e9;
    d.link_seconds = 3.4e-6;
    d.node_seconds = 14e-6;
    d.node_ranks = 8;
    d.switch_bandwidth = 470e9;
    const int64_t many = 1 << 24;
    const double sent = 4.0 * (double)many * 2 * 7 / 8;
    near(comm_on(&d, m, MG_ALL_REDUCE, MIDDLE | INNER, many), 25e-6 + sent / 470e9);
    /* Nothing else changes: a gather, two ranks, links whose switch does not add up. */
    near(comm_on(&d, m, MG_REDUCE_SCATTER, MIDDLE | INNER, many),
         8.4e-6 + 7 * 3.4e-6 + sent / 2 / 360e9);
    near(comm_on(&d, m, MG_ALL_REDUCE, INNER, many),
         8.4e-6 + 2 * 3.4e-6 + 4.0 * (double)many / 360e9);
    d.switch_bandwidth = 0;
    near(comm_on(&d, m, MG_ALL_REDUCE, MIDDLE | INNER, many),
         8.4e-6 + 2 * 7 * 3.4e-6 + sent / 360e9);
    /* A number of six nodes by LL: three steps of a tree each way, not five of a ring. */
    near(comm_on(&d, m, MG_ALL_REDUCE, OUTER, 1),
         6.8e-6 + 2 * 3 * 5e-6 + 8 / (0.6 * 0.92 / 3.8 * 46e9));
    d.collectives = COLLECTIVES_auto;
    near(comm_on(&d, m, MG_ALL_REDUCE, OUTER, 1), 6.6e-6 + 2 * 5 * 5e-6 + 40. / 6 / 19e9);
    arena_free(a);
}

/* Pods of two nodes, so three along the outer axis, whose other links are an eighth as fast. */
static void pods(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    Device d = device;
    d.target = TARGET_host;
    d.pod_ranks = 16;
    d.pod_bandwidth = 1e4;
    d.pod_seconds = 3e-2;
    assert_int_equal(mesh_block(m, OUTER, d.pod_ranks), 2);
    assert_int_equal(mesh_block(m, MIDDLE, d.pod_ranks), 4);
    /* Within a pod nothing changes. */
    near(comm_on(&d, m, MG_REDUCE_SCATTER, MIDDLE, 1000), 3000 / 2e5 + 2e-3 + 1e-2);
    near(comm_on(&d, m, MG_RING_SHIFT, MIDDLE, 1000), 4000 / 1e5 + 1e-2);
    /* Six nodes in three pods: two of a pod have its links in turns; a tree has a step within a pod
     * and two between. */
    near(comm_on(&d, m, MG_REDUCE_SCATTER, OUTER, 1000), 4000 * 5 / 6. / 2e4 + 1e-2 + 6e-2);
    near(comm_on(&d, m, MG_RING_SHIFT, OUTER, 1000), 4000 / 2e4 + 3e-2);
    /* 4/5 of what goes to others goes to other pods; all of a ring's steps, three and two. */
    near(comm_on(&d, m, MG_ALL_TO_ALL, OUTER, 1000),
         4000 * 5 / 6. * 4 / 5 / 1e4 + 3 * 1e-2 + 2 * 3e-2);
    /* By NCCL's LL128, whose steps are 8.5/14 as long with one rank in a node. */
    d.target = TARGET_cuda;
    d.link_seconds = 3.4e-6;
    d.node_seconds = 14e-6;
    d.pod_seconds = 28e-6;
    near(comm_on(&d, m, MG_REDUCE_SCATTER, OUTER, 1),
         14e-6 + 3 * 8.5e-6 + 2 * 17e-6 + 4 * 5 / 6. / (0.92 * 2e4));
    arena_free(a);
}

/* NCCL's rings, on H100s: each protocol is the fastest somewhere. */
static void protocols(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    Device d = device;
    d.link_bandwidth = 360e9;
    d.node_bandwidth = 46e9;
    d.link_seconds = 3.4e-6;
    d.node_seconds = 14e-6;
    /* Two in one node. 4 KiB by LL: one step of 0.6 us and half of the bytes at 87.7 GB/s. */
    near(comm_on(&d, m, MG_REDUCE_SCATTER, INNER, 1024), 6.6e-6 + 0.6e-6 + 2048 / 87.7e9);
    near(comm_on(&d, m, MG_ALL_REDUCE, INNER, 1024), 6.6e-6 + 2 * 0.6e-6 + 4096 / 87.7e9);
    /* 64 MiB by Simple. */
    const int64_t many = 1 << 24;
    const double bytes = 4. * many;
    near(comm_on(&d, m, MG_REDUCE_SCATTER, INNER, many), 8.4e-6 + 3.4e-6 + bytes / 2 / 360e9);
    /* Four, two to a node. 64 KiB by LL, whose steps in a node take 1 us beside a network; it
     * stores no more than 22.5 GB/s. */
    near(comm_on(&d, m, MG_REDUCE_SCATTER, MIDDLE, 1 << 14),
         6.6e-6 + 2 * 1e-6 + 2.7e-6 + 49152 / 22.5e9);
    /* Many ranks of many nodes: 64 KiB of each by LL128, 16 MiB by Simple. */
    m->layout.mesh.data[0].size = 256;
    near(comm_on(&d, m, MG_ALL_GATHER, OUTER | MIDDLE | INNER, 1 << 8),
         6.6e-6 + 3 * 512 * 1e-6 + 511 * 2.7e-6 + 2047 * 1024 / 19e9);
    near(comm_on(&d, m, MG_ALL_GATHER, OUTER | MIDDLE | INNER, 1 << 14),
         14e-6 + 3 * 512 * 1.9e-6 + 511 * 4e-6 + 2047 * 65536. / (0.92 * 4 * 46e9));
    near(comm_on(&d, m, MG_ALL_GATHER, OUTER | MIDDLE | INNER, 1 << 22),
         8.4e-6 + 3 * 512 * 3.4e-6 + 511 * 14e-6 + 2047 * 16777216. / (4 * 46e9));
    /* One of each node: its steps over the network are longer. */
    near(comm_on(&d, m, MG_REDUCE_SCATTER, OUTER, 256),
         6.6e-6 + 255 * 5e-6 + 1024 * 255 / 256. / 19e9);
    /* A large all-reduce has a plateau: 1.4 times the steps. */
    near(comm_on(&d, m, MG_ALL_REDUCE, MIDDLE, many),
         8.4e-6 + 1.4 * 2 * (2 * 3.4e-6 + 14e-6) + 1.5 * bytes / 92e9);
    /* Without NVLink, or on a card that NCCL does not trust with it, there is no LL128. */
    const double with = comm_on(&d, m, MG_ALL_GATHER, OUTER | MIDDLE | INNER, 1 << 14);
    d.architecture = 89;
    assert_true(comm_on(&d, m, MG_ALL_GATHER, OUTER | MIDDLE | INNER, 1 << 14) > 1.2 * with);
    d.architecture = 90;
    near(comm_on(&d, m, MG_ALL_GATHER, OUTER | MIDDLE | INNER, 1 << 14), with);
    d.through_host = true; /* and Simple's step is that of PCI Express */
    near(comm_on(&d, m, MG_REDUCE_SCATTER, INNER, 1024), 6.6e-6 + 3.4e-6 / 5.7 + 2048 / 87.7e9);
    arena_free(a);
}

/* An exchange: what it sends is under way together, and its steps are no chain. */
static void exchanges(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    Device d = device;
    d.link_bandwidth = 360e9;
    d.node_bandwidth = 46e9;
    d.link_seconds = 3.4e-6;
    d.node_seconds = 14e-6;
    const double bytes = 4. * (1 << 20);
    /* Two in one node: half of it leaves the rank. */
    near(comm_on(&d, m, MG_ALL_TO_ALL, INNER, 1 << 20), 8.4e-6 + 3.4e-6 + bytes / 2 / 360e9);
    /* A shift is a send and a receive: all of it leaves. */
    near(comm_on(&d, m, MG_RING_SHIFT, INNER, 1 << 20), 8.4e-6 + 3.4e-6 + bytes / 360e9);
    /* Four, two to a node: a step inside, one over the network; half of it goes there. */
    near(comm_on(&d, m, MG_ALL_TO_ALL, MIDDLE, 1 << 20),
         8.4e-6 + 3.4e-6 + 14e-6 + bytes / 2 / 46e9);
    /* Six nodes with one each: four more messages are handed to the network. */
    near(comm_on(&d, m, MG_ALL_TO_ALL, OUTER, 1 << 20),
         8.4e-6 + 14e-6 + 4 * 3e-6 + bytes * 5 / 6 / 46e9);
    /* In three pods, whose network is slower. */
    d.pod_ranks = 8;
    d.pod_seconds = 20e-6;
    d.pod_bandwidth = 46e9;
    near(comm_on(&d, m, MG_ALL_TO_ALL, OUTER, 1 << 20),
         8.4e-6 + 20e-6 + 4 * 3e-6 + bytes * 5 / 6 / 46e9);
    /* Eight of a node, a few bytes: NCCL was seen to take 10.3 to 11.1 us. */
    d.node_ranks = 8;
    d.pod_ranks = 0;
    const double seen = comm_on(&d, m, MG_ALL_TO_ALL, MIDDLE | INNER, 256);
    assert_true(seen > 10.3e-6 && seen < 1.15 * 11.1e-6);
    arena_free(a);
}

static bool apart(const Module *m, int axis)
{
    return m->layout.mesh.data[axis].apart;
}

/* The largest number of ranks is found along axes one after the other where rings of NCCL's are
 * shorter so. */
static void largest(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    Device d = device;
    d.link_seconds = 3.4e-6;
    d.node_seconds = 14e-6;
    d.link_bandwidth = 360e9;
    d.node_bandwidth = 46e9;
    d.node_ranks = 8;
    /* Eight of a node: 14 steps together by LL, or 6 and 2 and another beginning. Then six nodes.
     */
    apart_choose(m, &d);
    assert_true(apart(m, 0) && !apart(m, 1) && !apart(m, 2));
    /* Four to a node: eight ranks of two nodes take 24.0 us, and the two axes 7.8 and 16.0. */
    d.node_ranks = 4;
    apart_choose(m, &d);
    assert_true(apart(m, 0) && apart(m, 1) && !apart(m, 2));
    /* Two to a node: what goes along the middle axis alone has longer steps, 36.6 us; with the
     * inner one it is 30.8. */
    d.node_ranks = 2;
    apart_choose(m, &d);
    assert_true(apart(m, 0) && !apart(m, 1) && !apart(m, 2));
    m->layout.pipeline.axis = MIDDLE; /* whose ranks have other tensors */
    apart_choose(m, &d);
    assert_true(!apart(m, 0) && !apart(m, 1));
    m->layout.pipeline.axis = 0;
    d.target = TARGET_host;
    apart_choose(m, &d);
    assert_true(!apart(m, 0) && !apart(m, 1) && !apart(m, 2));
    arena_free(a);
}

/* By copies through the host, on nodes of which all ranks copy at once. */
static mg_comm_desc copied(Module *m, const Device *d, mg_comm_kind kind, Axes axes, int64_t size)
{
    mg_comm_desc c = {.kind = kind,
                      .dtype = MG_F32,
                      .axes = axes,
                      .n = mesh_size(m, axes),
                      .outer = 1,
                      .size = size,
                      .inner = 1};
    copies_choose(m, d, &c);
    return c;
}

static void copies(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    const int64_t large = (int64_t)1 << 26;
    Device d = device;
    d.link_bandwidth = 1e9;
    d.link_seconds = 1e-5;
    d.level[LEVEL_host] = (DeviceLevel){(int64_t)1 << 40, 2e9, 4e9, 5e9, 1e-5};
    d.node_ranks = 8; /* all of the inner two axes */
    assert_int_equal(copied(m, &d, MG_ALL_GATHER, INNER, large).piece, 0);
    d.through_host = true;
    mg_comm_desc c = copied(m, &d, MG_ALL_GATHER, MIDDLE, large);
    const double share = 4 * (double)large, piece = (double)c.piece, pieces = share / piece;
    assert_true(c.piece > 0);
    /* Three shares come in, at 2 GB/s, while one goes out; before that one piece. */
    near(network_collective(m, &d, &c), 3 * share / 2e9 + 3 * pieces * 1e-5 + piece / 4e9 + 1e-5);
    d.host_all = 1e10; /* for eight ranks: four shares of each, in or out */
    near(network_collective(m, &d, &c),
         8 * 4 * share / 1e10 + 3 * pieces * 1e-5 + piece / 4e9 + 1e-5);
    /* That is slower than NCCL's 3 shares at 1 GB/s: only where it is said. */
    assert_int_equal(copied(m, &d, MG_ALL_GATHER, MIDDLE, large).piece, 0);
    d.collectives = COLLECTIVES_copies;
    assert_true(copied(m, &d, MG_ALL_GATHER, MIDDLE, large).piece > 0);
    assert_true(copied(m, &d, MG_ALL_REDUCE, MIDDLE | INNER, large).piece > 0);
    assert_int_equal(copied(m, &d, MG_ALL_REDUCE, MIDDLE, large + 1).piece, 0); /* unequal parts */
    assert_int_equal(copied(m, &d, MG_BROADCAST, MIDDLE, large).piece, 0);
    assert_int_equal(copied(m, &d, MG_ALL_GATHER, OUTER, large).piece, 0); /* leaves the node */
    d.node_ranks = 4;
    assert_int_equal(copied(m, &d, MG_ALL_GATHER, MIDDLE, large).piece, 0);
    assert_true(copied(m, &d, MG_ALL_GATHER, INNER, large).piece > 0);
    d.level[LEVEL_host].memory = (int64_t)1 << 20; /* has no room for it */
    assert_int_equal(copied(m, &d, MG_ALL_GATHER, INNER, large).piece, 0);
    arena_free(a);
}

static double product(Module *m, int64_t rows, int64_t columns, int64_t depth)
{
    mg_gemm_desc g = {
        .dtype = MG_F32, .out = MG_F32, .m = rows, .n = columns, .k = depth, .batch = 1};
    return seconds_of(m, (Action){.kind = ACT_gemm, .around = -1, .gemm = g});
}

static void products(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    /* A multiprocessor multiplies at 5e8 FLOP/s, and writes 1e6 bytes/s. */
    const double tile = 2 * 64 * 32 * 1e6 / 5e8 + 64 * 32 * 4 / 1e6;
    near(product(m, 128, 64, 1000000), tile);
    /* One tile more is another wave; that half of a tile is asked for saves nothing. */
    assert_true(product(m, 129, 64, 1000000) > 1.2 * tile);
    assert_true(product(m, 128, 65, 1000000) > 1.2 * tile);
    /* A single tile is cut into parts of its sum, one to a multiprocessor. */
    assert_true(product(m, 64, 32, 1000000) < 0.3 * tile);
    /* Never faster than all multiprocessors together. */
    for (int64_t n = 1; n < 300; n += 7)
        assert_true(product(m, n, 2 * n, 1000) >= 2. * (double)(n * 2 * n) * 1000 / 2e9);
    arena_free(a);
}

/* A host multiplies a few rows by a matrix as it reads it, and reads it faster than its kernels
 * read; with more rows the time is what the schedule said. */
static void few_rows(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    const Device host = {.target = TARGET_host,
                         .flops_f32 = 1e9,
                         .product_share = 0.5,
                         .bandwidth = 1e8,
                         .weights_share = 1.5,
                         .launch = 1e-9};
    mg_gemm_desc g = {
        .dtype = MG_F32, .out = MG_F32, .m = 4, .n = 1000, .k = 500, .ldc = 1000, .batch = 1};
    const double matrix = 4 * 1000 * 500, rest = 4 * (4 * 500 + 4 * 1000);
    Action act = {.kind = ACT_gemm, .around = -1, .gemm = g, .seconds = 77};
    act.flops = 2. * 4 * 1000 * 500, act.bytes_moved = matrix + rest;
    near(seconds_on(&host, m, act), matrix / 1.5e8 + rest / 1e8);
    /* Of a slow processor the arithmetic, beside which it reads. */
    Device slow = host;
    slow.flops_f32 = 1e8;
    near(seconds_on(&slow, m, act), act.flops / 5e7 + rest / 1e8);
    act.gemm.m = 15;
    near(seconds_on(&host, m, act), 77);
    arena_free(a);
}

/* Rows of no whole words of 16 bytes: half the rate of a product, a quarter of the bandwidth of a
 * cross-entropy. */
static void rows_of_words(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Module *m = mesh(a);
    mg_gemm_desc g = {.dtype = MG_F32,
                      .out = MG_F32,
                      .m = 128,
                      .n = 64,
                      .k = 1000000,
                      .lda = 1000000,
                      .ldb = 64,
                      .ldc = 64,
                      .batch = 1};
    int64_t *const row[] = {&g.lda, &g.ldb, &g.ldc};
    const double write = 64 * 32 * 4 / 1e6, multiply = 2 * 64 * 32 * 1e6 / 5e8;
    near(seconds_of(m, (Action){.kind = ACT_gemm, .around = -1, .gemm = g}), multiply + write);
    for (int k = 0; k < 3; k++) {
        *row[k] += 1;
        near(seconds_of(m, (Action){.kind = ACT_gemm, .around = -1, .gemm = g}),
             2 * multiply + write);
        *row[k] += 3;
    }
    for (int vocab = 1000; vocab < 1004; vocab += 2)
        near(seconds_of(m, (Action){.kind = ACT_xent,
                                    .around = -1,
                                    .bytes_moved = 4000,
                                    .seconds = 1e-3,
                                    .xent = {.dtype = MG_F32, .rows = 1, .vocab = vocab}}),
             vocab % 4 ? 4e-3 : 1e-3);
    arena_free(a);
}

/* A program's parts are all of it, and a rank that is slower makes it no longer than it is slower.
 */
static void whole(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++) {
        Model t;
        open_model(&t, &small_models[k], DT_f32);
        lower_physical(&t);
        const Plan *p = plan_for(&t, &test_device);
        const Whole w = plan_whole(p);
        near(w.before + (double)w.microbatches * (w.forward + w.backward) + w.after, w.step);
        assert_true(w.forward > 0 && w.backward > 0 && w.after >= 0 && w.bubble == 0);
        near(w.slower, 0.1 * w.step); /* of one rank: nothing is sent */
        assert_int_equal(w.naxes, 0);
        model_close(&t);
    }
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The slowest of n draws, many times: at its quantiles the formula. */
static void slowest(void **state)
{
    enum { TIMES = 20000 };
    (void)state;
    static double most[TIMES];
    uint64_t rng = 3;
    for (int n = 1; n <= 64; n *= 8) {
        for (int t = 0; t < TIMES; t++) {
            most[t] = -INFINITY;
            for (int k = 0; k < n; k++) {
                const double u = (draw_int(&rng, 1 << 30) + 0.5) / (1 << 30);
                const double v = (double)draw_int(&rng, 1 << 30) / (1 << 30);
                most[t] = fmax(most[t], sqrt(-2 * log(u)) * cos(2 * acos(-1) * v));
            }
        }
        qsort(most, TIMES, sizeof *most, by_number);
        assert_true(fabs(most[TIMES / 2] - stragglers_slowest(n, 0.5)) < 0.04);
        assert_true(fabs(most[TIMES * 19 / 20] - stragglers_slowest(n, 0.95)) < 0.06);
    }
    /* By Python's statistics.NormalDist: 3.198 and 3.931. */
    assert_true(fabs(stragglers_slowest(1000, 0.5) - 3.198) < 2e-3);
    assert_true(fabs(stragglers_slowest(16384, 0.5) - 3.931) < 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchanges), cmocka_unit_test(largest),       cmocka_unit_test(collectives),
        cmocka_unit_test(pods),      cmocka_unit_test(unordered),     cmocka_unit_test(slowest),
        cmocka_unit_test(protocols), cmocka_unit_test(copies),        cmocka_unit_test(few_rows),
        cmocka_unit_test(products),  cmocka_unit_test(rows_of_words), cmocka_unit_test(whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
