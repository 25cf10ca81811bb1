/* planned.c - see planned.h. */
#include "tests/plan/planned.h"
#include "plan/check/check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide/make.h"
#include "grammar/grammar.h"
#include "tests/plan/run_plan.h"

const Small small_models[] = {
    {"mlp.mg", 64, {"seq=3", "embed=4", "hidden=5", "vocab=7", AS_READY}},
    {"gpt2_124m.mg",
     1,
     {"layers=2", "hidden=6", "heads=2", "head=4", "ffn=8", "vocab=11", "seq=4", "batch=4"}},
    {"llama_mini.mg",
     0,
     {"layers=3", "hidden=4", "kv_heads=2", "head=2", "ffn=5", "vocab=7", "seq=3", "batch=16"}},
    {"llama_mini.mg",
     1,
     {"layers=1", "hidden=4", "kv_heads=2", "head=4", "ffn=5", "vocab=7", "seq=6", "batch=16",
      AS_READY}},
    {"llama7b.mg",
     2,
     {"layers=2", "hidden=6", "kv_heads=2", "group=2", "head=4", "ffn=5", "vocab=7", "seq=3",
      "batch=4"}},
    {"mixtral_mini.mg",
     2,
     {"layers=2", "hidden=6", "kv_heads=2", "group=1", "head=4", "ffn=5", "experts=3", "vocab=7",
      "seq=5", "batch=4"}},
    {"mixtral_8x7b_dropless.mg",
     2,
     {"layers=2", "hidden=6", "kv_heads=2", "group=1", "head=4", "ffn=5", "experts=3", "vocab=7",
      "seq=5", "batch=4"}},
    {"gpt2_124m.mg", /* kernels go on with products of so many columns */
     2,
     {"layers=2", "hidden=6", "heads=2", "head=16", "ffn=32", "vocab=11", "seq=3", "batch=4"}},
    {"mixtral_mini.mg", /* each position chooses both */
     1,
     {"layers=1", "hidden=6", "kv_heads=1", "group=2", "head=4", "ffn=5", "experts=2", "vocab=7",
      "seq=5", "batch=4"}},
    {MODELS_DIR "/../tests/plan/axial.mg", 2, {"batch=4"}},
    {MODELS_DIR "/../tests/plan/fused_qkv.mg", 2, {"batch=4"}},
    {MODELS_DIR "/../tests/plan/nested.mg", 2, {"batch=4"}},
    {MODELS_DIR "/../tests/plan/nested.mg", 0, {"inner=3", "outer=1"}},
    {MODELS_DIR "/../tests/plan/replaced.mg", 2, {"batch=4"}},
    {MODELS_DIR "/../tests/plan/begins.mg", 2, {"batch=4"}},
    {MODELS_DIR "/../tests/plan/gated.mg", 2, {"batch=4"}},
};
const int small_model_count = sizeof small_models / sizeof *small_models;

static const AttentionShare test_attention[] = {
    {.kernels = ATTENTION_flash, .head = 64, .keys = 1024, .forward = 0.5, .gradient = 0.6}};

const Device test_device = {
    .name = "test",
    .memory = 1 << 30,
    .flops_f32 = 1e11,
    .flops_f64 = 5e10,
    .flops_tf32 = 1e11,
    .flops_bf16 = 1e11,
    .flops_f16 = 1e11,
    .product_share = 0.8,
    .attention_share = 0.5,
    .attention_grad_share = 0.6,
    .weights_share = 1,
    .attention = test_attention,
    .nattention = 1,
    .exponentials = 1e9,
    .operations = 1e10,
    .bandwidth = 1e10,
    .launch = 1e-6,
    .link_bandwidth = 1e9,
    .link_seconds = 1e-6,
    .link_slowdown = 1.2,
    .node_ranks = 256,
    .node_bandwidth = 1e9,
    .node_seconds = 1e-6,
    .level[LEVEL_host] = {.memory = 1 << 30, .in = 2e9, .out = 3e9, .both = 4e9, .seconds = 1e-6},
    .host_bandwidth = 8e9,
    .streams = 2,
    .threads = 2};

Plan *must_make(Model *t, const Device *d, const char *after, const char *upto)
{
    PlanJob job = {
        .m = t->m, .d = d, .a = t->a, .after = after, .upto = upto, .decided = true, .log = stderr};
    PassStatus s = plan_make(&job);
    t->m = job.m;
    if (s != PASS_ok)
        fail_msg("%s fails: %s", job.at, model_messages(t));
    return job.plan;
}

/* keep: not 0: what is kept is drawn. */
static void run_logical(Model *t, const Device *d, DType compute, uint64_t keep)
{
    t->m->train.compute = dtype_wide(compute);
    if (dtype_is_half(compute))
        t->m->train.half = compute;
    if (dtype_is_fp8(compute)) {
        t->m->train.half = DT_bf16;
        t->m->train.fp8 = t->m->train.fp8_gradients = DT_e4m3;
        t->m->train.fp8_scales = compute == DT_e4m3 ? SCALES_tile : SCALES_mx;
    }
    t->m->train.scale = compute == DT_f16 && !t->m->train.as_ready ? 16 : 0;
    t->m->train.goal[0].eps = 1e-3; /* so that tiny gradients compare after the update */
    must_make(t, d, "evaluate", "precision");
    if (keep)
        random_keep(t, keep);
    must_make(t, d, "precision", "simplify");
}

Ast *parse_small(Model *t, const Small *s)
{
    const char *path =
        strchr(s->file, '/') ? s->file : arena_printf(t->a, "%s/%s", MODELS_DIR, s->file);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot read %s", path);
    char *text = arena_alloc(t->a, 1 << 16);
    size_t size = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    uint32_t file = diag_add_file(t->m->diag, path, text, size);
    Ast *ast = mg_parse(t->a, names_new(t->a), t->m->diag, file);
    if (!ast)
        fail_msg("%s", model_messages(t));
    return ast;
}

void open_elaborated(Model *t, const Small *s)
{
    model_open(t);
    ElaborateOptions o = {.define = s->define};
    while (o.ndefine < SMALL_DEFINES && s->define[o.ndefine])
        o.ndefine++;
    bool ready = o.ndefine && !strcmp(s->define[o.ndefine - 1], AS_READY);
    o.ndefine -= ready;
    Ast *ast = parse_small(t, s);
    t->m = mg_elaborate(t->a, ast->names, t->m->diag, ast, &o);
    if (!t->m)
        fail_msg("%s", model_messages(t));
    t->fn = module_fn(t->m, "train");
    t->m->layout.microbatch = s->microbatch ? s->microbatch : t->m->batch.size;
    if (ready) {
        t->m->train.as_ready = true;
        t->m->train.goal[0].clip = 0;
    }
}

void open_kept(Model *t, const Small *s, DType compute, uint64_t keep)
{
    open_elaborated(t, s);
    run_logical(t, NULL, compute, keep);
}

void open_for(Model *t, const Small *s, DType compute, const Device *d)
{
    open_elaborated(t, s);
    run_logical(t, d, compute, 0);
}

void open_model(Model *t, const Small *s, DType compute)
{
    open_kept(t, s, compute, 0);
}

void open_random(Model *t, uint64_t seed, int64_t microbatch, DType compute, bool keep)
{
    model_open(t);
    random_model(t, seed);
    t->m->layout.microbatch = microbatch;
    run_logical(t, NULL, compute, keep ? seed : 0);
}

void offload_some(Model *t, uint64_t number)
{
    for (int k = 0; k < OFFLOAD_count; k++)
        t->m->layout.offload[k] = number >> k & 1 ? LEVEL_host : LEVEL_device;
    t->m->layout.optimizer = number >> OFFLOAD_count & 1 ? OPTIMIZER_host : OPTIMIZER_device;
    t->m->layout.piece = (int64_t)(16 << number % 7);
}

void lower_physical(Model *t)
{
    lower_for(t, NULL);
}

void lower_for(Model *t, const Device *d)
{
    must_make(t, d, "local", "fuse");
}

Plan *plan_for(Model *t, const Device *d)
{
    return must_make(t, d, "fuse", "timeline");
}

int plan_breaks(const Plan *p, char **text)
{
    size_t size;
    FILE *f = open_memstream(text, &size);
    int n = plan_check(p, f);
    fclose(f);
    return n;
}

void must_hold(const Plan *p)
{
    char *text;
    if (plan_breaks(p, &text))
        fail_msg("%s", text);
    free(text);
}

/* ---- running --------------------------------------------------------------------------------- */

Run interpret(Model *t, const char *name, uint64_t seed)
{
    Run r = {.fn = module_fn(t->m, name)};
    if (!r.fn)
        return r;
    r.args = inputs_for(t, r.fn, seed, -1, 1);
    r.results = run_fn(t, r.fn, r.args);
    return r;
}

const Program *program_of(const Plan *p, const Fn *fn)
{
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        if (p->programs[k] && p->programs[k]->fn == fn)
            return p->programs[k];
    abort();
}

int buffer_of_argument(const Plan *p, const Program *prog, FnArg a)
{
    switch (a.role) {
    case ARG_place:
        for (int k = 0; k < prog->nplaces; k++)
            if (prog->place[k].axes == a.tensor)
                return prog->place[k].buffer;
        return -1;
    case ARG_input:
        return prog->input[a.tensor];
    case ARG_tokens:
        return prog->tokens;
    case ARG_weight:
        return prog->weights;
    case ARG_documents:
        return prog->documents;
    case ARG_lr:
        return prog->lr[a.tensor];
    case ARG_scale:
        return prog->scale;
    case ARG_step:
        return prog->step;
    case ARG_seed:
        return prog->seed;
    case ARG_pos:
        return prog->pos;
    case ARG_filled:
        return prog->filled;
    case ARG_before:
        return prog->before;
    case ARG_begin:
        return prog->begin;
    case ARG_count:
        return prog->count;
    case ARG_cache:
        return p->cache_buffer.data[a.tensor];
    case ARG_total:
        return prog->totals.data[a.tensor];
    case ARG_param:
    case ARG_rounded:
    case ARG_state:
        return p->tensor_buffer.data[a.tensor];
    }
    abort();
}

int buffer_of_result(const Plan *p, const Program *prog, FnResult r)
{
    return r.role == RES_loss      ? prog->loss[r.tensor]
           : r.role == RES_norm    ? prog->norm[r.tensor]
           : r.role == RES_dropped ? prog->dropped
           : r.role == RES_metric  ? prog->metric[r.tensor]
           : r.role == RES_logits  ? prog->logits
           : r.role == RES_total   ? prog->totals.data[r.tensor]
           : r.role == RES_cache   ? p->cache_buffer.data[r.tensor]
                                   : p->tensor_buffer.data[r.tensor];
}

unsigned char *arena_of_nan(const Plan *p)
{
    const int64_t all = p->arena_bytes + p->level_bytes[LEVEL_host] + p->level_bytes[LEVEL_disk];
    unsigned char *arena = aligned_alloc(64, (size_t)all);
    memset(arena, 0xff, (size_t)all);
    return arena;
}

bool run_planned(Model *t, const Plan *p, const Run *like, unsigned char *arena, Tensor64 *results,
                 KernelRun *kernel, void *ctx)
{
    const Fn *fn = like->fn;
    const Program *prog = program_of(p, fn);
    for (size_t i = 0; i < fn->args.n; i++) {
        const Type *type = &like->args[i].type;
        int b = buffer_of_argument(p, prog, fn->args.data[i]);
        assert_true(b >= 0);
        unsigned char *to = arena + memory_offset(p, &p->buffers.data[b]);
        for (int64_t e = 0; e < type_elements(type); e++)
            number_put(to, type->dtype, e, like->args[i].data[e]);
    }
    if (!run_plan(p, prog, arena, kernel, ctx, like->order))
        return false;
    for (size_t i = 0; i < fn->results.n; i++) {
        const Type *type = type_of(t->m, fn->body->results.data[i]);
        const unsigned char *from =
            arena +
            memory_offset(p, &p->buffers.data[buffer_of_result(p, prog, fn->results.data[i])]);
        results[i].type = *type;
        results[i].data = NEW_ARRAY(t->a, double, type_elements(type));
        for (int64_t e = 0; e < type_elements(type); e++)
            results[i].data[e] = number_at(from, type->dtype, e);
    }
    return true;
}

static double greatest(const Tensor64 *x)
{
    double max = 0;
    for (int64_t i = 0; i < type_elements(&x->type); i++)
        max = fmax(max, fabs(x->data[i]));
    return max;
}

double worst_difference(const Fn *fn, const Tensor64 *x, const Tensor64 *y, size_t *which)
{
    double worst = 0, all = 0;
    for (size_t i = 0; i < fn->results.n; i++)
        all = fmax(all, greatest(&x[i]));
    for (size_t i = 0; i < fn->results.n; i++) {
        double size = greatest(&x[i]);
        double d = difference(&x[i], &y[i]);
        if (size > 0 && size < 1e-6 * all)
            d *= size / (1e-6 * all);
        if (!(d <= worst)) {
            worst = isnan(d) ? INFINITY : d;
            *which = i;
        }
    }
    return worst;
}
