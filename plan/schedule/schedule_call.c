/* schedule_call.c - instructions that are one call of the runtime's library: their descriptors. */
#include "ir/interpret.h"
#include "ir/collective.h"
#include "passes/library/attention.h"
#include "passes/library/conv.h"
#include "passes/library/product.h"
#include "plan/copies.h"
#include "plan/host_price.h"
#include "plan/near.h"
#include "plan/small.h"
#include "passes/library/tiles.h"
#include "plan/schedule/schedule.h"
#include "passes/view.h"
#include "runtime/conv.h"
#include "runtime/sizes.h"

#include <string.h>

/* Bytes of logits that exist at once, and the fewest rows. Each chunk reads the whole weight and
 * adds to its whole gradient, so the more of them the slower; where the weight is large, so is what
 * belongs to it in any case, and logits may take as much as the weight, up to a limit (on a
 * processor a higher one if the weight is frozen: its gradient takes nothing). A GPU wants products
 * large enough to be busy; what it has is where decide/logits.c begins. */
static const struct {
    int64_t min, max, rows;
} head_chunk[] = {
    [TARGET_host] = {16 << 20, 64 << 20, 32}, [TARGET_cuda] = {256 << 20, 256 << 20, 512}};

static void priced(Sched *s, Action *a, const Ins *i)
{
    price(s, a, ir_cost(s->m, i));
}

static Strided strided(Sched *s, Value v)
{
    Loc l = locate(s, v);
    Strided r = {.type = type_of(s->m, v)};
    memcpy(r.stride, l.stride, sizeof r.stride);
    return r;
}

void needs_scratch(Sched *s, int64_t bytes)
{
    Plan *p = s->p;
    if (p->device->target == TARGET_host && bytes > p->scratch_bytes)
        p->scratch_bytes = bytes;
}

static uint8_t epilogue_of(const Ins *i)
{
    static const uint8_t ends[OP_count] = {[OP_dot] = MG_PLAIN,
                                           [OP_dot_scaled] = MG_SCALES,
                                           [OP_dot_bias] = MG_BIAS,
                                           [OP_dot_sum] = MG_SUM,
                                           [OP_dot_gelu] = MG_GELU,
                                           [OP_dot_gelu_aux] = MG_GELU | MG_AUX,
                                           [OP_dot_gelu_grad] = MG_GELU_GRAD};
    const bool biased = (ends[i->op] & MG_GELU) && i->nin == 3;
    return ends[i->op] | (biased ? MG_BIAS : 0);
}

void call_dot(Sched *s, const Ins *i)
{
    Strided a = strided(s, i->in[0]), b = strided(s, i->in[1]), c = strided(s, i->out[0]);
    Product p;
    if (!product_match(&a, &b, &c, &i->attrs.over, &p))
        sched_bug(s, i, "a contraction that is no product");
    bool adds = ins_added(i) >= 0;
    p.desc.beta = adds ? 1 : 0;
    p.desc.epilogue = epilogue_of(i);
    Value first = i->in[p.swap], second = i->in[!p.swap];
    Operand op[5] = {operand_of(s, first, true, false), operand_of(s, second, true, false),
                     operand_of(s, i->out[0], adds, true)};
    int n = 3;
    const bool turned = p.swap && i->attrs.tiles; /* scales are in the order of the matrices */
    if (p.desc.epilogue & (MG_BIAS | MG_SCALES))
        op[n++] = operand_of(s, i->in[turned ? 3 : 2], true, false);
    if (p.desc.epilogue & MG_SCALES)
        op[n++] = operand_of(s, i->in[turned ? 2 : 3], true, false);
    if (i->op == OP_dot_scaled && i->attrs.tiles)
        p.desc.tiles = i->attrs.tiles == TILES_mx                   ? MG_TILES_MX
                       : i->attrs.tiles == TILES_rows               ? MG_TILES_ROWS
                       : (i->attrs.tiles == TILES_second) == p.swap ? MG_TILES_A
                                                                    : MG_TILES_B;
    if (p.desc.epilogue & MG_SUM)
        op[n++] = operand_of(s, i->out[1], false, true);
    if (p.desc.epilogue & (MG_AUX | MG_GELU_GRAD)) {
        const bool given = p.desc.epilogue & MG_AUX;
        const Value aux = given ? i->out[1] : i->in[2];
        Strided x = strided(s, aux);
        Product like;
        if (!product_match(&a, &b, &x, &i->attrs.over, &like) || like.swap != p.swap ||
            like.desc.batch != 1)
            sched_bug(s, i, "a matrix of a product's end that lies otherwise than its result");
        p.desc.ldx = like.desc.ldc;
        op[n++] = operand_of(s, aux, !given, given);
    }
    Action *act = action_new(s, ACT_gemm, i, n, op);
    act->gemm = p.desc;
    needs_scratch(s, mg_gemm_scratch(&p.desc));
    priced(s, act, i);
}

static Operand work_space(Sched *s, const char *name, int64_t bytes, int home)
{
    Type t = {.dtype = DT_bool, .rank = 1, .dims = {{name_intern(s->m->names, "byte"), bytes}}};
    Operand o = {.type = t, .read = true, .write = true};
    o.at.buffer = buffer_new(s, name, OWN_workspace, bytes, home, 0);
    o.stride[0] = 1;
    return o;
}

void call_conv(Sched *s, const Ins *i, int home)
{
    const Strided x = strided(s, i->in[0]), w = strided(s, i->in[1]), y = strided(s, i->out[0]);
    const bool adds = ins_added(i) >= 0;
    Operand op[4] = {operand_of(s, i->in[0], true, false), operand_of(s, i->in[1], true, false),
                     operand_of(s, i->out[0], adds, true)};
    mg_conv_desc d;
    if (!conv_match(&i->attrs, &x, &w, &y, &d))
        sched_bug(s, i, "a convolution that is no call");
    d.accumulate = adds;
    const int64_t work = s->p->device->target == TARGET_cuda ? mg_conv_work(&d) : 0;
    if (work)
        op[3] = work_space(s, "parts", work, home);
    Action *a = action_new(s, ACT_conv, i, work ? 4 : 3, op);
    a->conv = d;
    needs_scratch(s, mg_conv_scratch(&d));
    Cost c = ir_cost(s->m, i);
    c.across = host_packs(&d, c.flops);
    price(s, a, c);
}

void require_dense(const Sched *s, const Ins *i, const Operand *o)
{
    if (!strides_are_dense(&o->type, o->stride))
        sched_bug(s, i, "an operand has to be dense");
}

/* ---- attention ------------------------------------------------------------------------------- */

static bool match_attention(const Ins *i, const Operand *op, int n, mg_attention_desc *d)
{
    Strided lies[14];
    for (int k = 0; k < n; k++) {
        lies[k].type = &op[k].type;
        memcpy(lies[k].stride, op[k].stride, sizeof lies[k].stride);
    }
    const int seen = attention_seen(i);
    const AttentionMask mask = {.bias =
                                    i->attrs.biased ? &lies[attention_tensors(i) + i->nout] : NULL,
                                .seen = seen >= 0 ? &lies[seen + (int)i->nout] : NULL,
                                .first = i->attrs.within ? &lies[n - 1] : NULL};
    return attention_match(i, lies, &mask, d);
}

static ActionKind attention_kind(Op op)
{
    return op == OP_attention        ? ACT_attention
           : op == OP_attention_grad ? ACT_attention_grad
                                     : ACT_attention_bias_grad;
}

void call_attention(Sched *s, const Ins *i, int home)
{
    const bool grad = i->op != OP_attention;
    const uint32_t nin = attention_tensors(i);
    Operand op[14];
    int n = 0;
    for (uint32_t k = 0; k < nin; k++)
        op[n++] = operand_of(s, i->in[k], true, false);
    for (uint32_t k = 0; k < i->nout; k++)
        op[n++] = operand_of(s, i->out[k], false, true);
    for (uint32_t k = nin; k < i->nin; k++) /* bias, how many keys are seen, from which on */
        op[n++] = operand_of(s, i->in[k], true, false);
    mg_attention_desc d = {.dtype = abi_dtype(op[0].type.dtype),
                           .causal = i->attrs.causal,
                           .scale = i->attrs.scale,
                           .cap = i->attrs.cap,
                           .window = i->attrs.window};
    if (!match_attention(i, op, n, &d))
        sched_bug(s, i, "attention over operands that do not step evenly");
    for (int x = 0; grad && x < op[3].type.rank; x++) /* do as o */
        if (stride_of(&op[5].type, op[5].stride, op[3].type.dims[x].name) != op[3].stride[x])
            sched_bug(s, i, "a cotangent of attention that lies unlike its result");
    if (grad && s->p->device->target == TARGET_cuda && mg_attention_grad_work(&d))
        op[n++] = work_space(s, "delta", mg_attention_grad_work(&d), home);
    Action *a = action_new(s, attention_kind(i->op), i, n, op);
    a->attention = d;
    a->within = i->attrs.within;
    needs_scratch(s, mg_attention_scratch(&d));
    priced(s, a, i);
}

/* ---- indices --------------------------------------------------------------------------------- */

/* A value of indices as rows of `inner` that are `outer` apart: what gather and targets take. */
static void index_steps(Sched *s, const Ins *i, const Operand *o, int64_t *inner, int64_t *outer)
{
    int64_t run = 1;
    int k = o->type.rank - 1;
    while (k >= 0 && (o->stride[k] == run || o->type.dims[k].size == 1))
        run *= o->type.dims[k--].size;
    *inner = run;
    *outer = run;
    if (k < 0)
        return;
    Group rest = {.n = k + 1};
    memcpy(rest.dim, o->type.dims, (size_t)rest.n * sizeof rest.dim[0]);
    if (!group_stride(&o->type, o->stride, &rest, outer))
        sched_bug(s, i, "indices that do not step evenly");
}

/* A GPU sorts the indices first: each pass reads them twice and writes them once, in three launches
 * that take as long as any. */
static void price_sort(const Sched *s, Action *a)
{
    const int passes = mg_sort_passes(&a->gather);
    const double bytes = 24.0 * passes * (double)a->gather.indices;
    const double memory = bytes / s->p->device->bandwidth,
                 least = 3 * passes * s->p->device->launch;
    a->bytes_moved += bytes;
    a->seconds += memory > least ? memory : least;
}

void call_gather(Sched *s, const Ins *i, int home)
{
    const bool scatter = i->op != OP_gather, sums = i->op == OP_scatter_add;
    const bool sorts = sums && s->p->device->target == TARGET_cuda;
    Operand op[4] = {operand_of(s, i->in[0], true, false), operand_of(s, i->in[1], true, false),
                     operand_of(s, i->out[0], ins_added(i) >= 0, true)};
    const Operand *table = scatter ? &op[2] : &op[0];
    require_dense(s, i, &op[0]);
    require_dense(s, i, &op[2]);
    mg_gather_desc d = {.dtype = abi_dtype(table->type.dtype),
                        .tables = 1,
                        .outer = 1,
                        .inner = 1,
                        .accumulate = sums && i->nin == 3};
    int at = type_find(&table->type, i->attrs.dim.name);
    for (int k = 0; k < at; k++) /* dims of the index come first (passes/library/calls.c) */
        *(type_find(&op[1].type, table->type.dims[k].name) >= 0 ? &d.tables : &d.outer) *=
            table->type.dims[k].size;
    for (int k = at + 1; k < table->type.rank; k++)
        d.inner *= table->type.dims[k].size;
    d.n = table->type.dims[at].size;
    d.indices = type_elements(&op[1].type);
    index_steps(s, i, &op[1], &d.index_inner, &d.index_outer);
    if (sorts)
        op[3] = work_space(s, "sorted", mg_scatter_work(&d), home);
    Action *a = action_new(s,
                           sums      ? ACT_scatter_add
                           : scatter ? ACT_put
                                     : ACT_gather,
                           i, sorts ? 4 : 3, op);
    a->gather = d;
    priced(s, a, i);
    if (sorts)
        price_sort(s, a);
}

static mg_xent_desc describe_xent(Sched *s, const Ins *i, const Type *classes, Name dim,
                                  const Operand *target)
{
    mg_xent_desc d = {.dtype = abi_dtype(classes->dtype), .valid = i->attrs.valid};
    d.rows = type_elements(&target->type);
    d.vocab = classes->dims[type_find(classes, dim)].size;
    index_steps(s, i, target, &d.target_inner, &d.target_outer);
    return d;
}

static int64_t dloss_stride(Sched *s, const Ins *i, const Operand *dloss, int64_t rows)
{
    int64_t n = type_elements(&dloss->type);
    if (n != 1 && n != rows)
        sched_bug(s, i, "the loss's cotangent has neither one number nor one a row");
    return n == 1 ? 0 : 1;
}

void call_cross_entropy(Sched *s, const Ins *i, int home)
{
    (void)home;
    bool grad = i->op == OP_cross_entropy_grad;
    Operand op[5];
    int n = 0;
    for (uint32_t k = 0; k < i->nin; k++)
        op[n++] = operand_of(s, i->in[k], true, false);
    for (uint32_t k = 0; k < i->nout; k++)
        op[n++] = operand_of(s, i->out[k], false, true);
    Name classes = i->attrs.over.dim[0].name;
    require_dense(s, i, &op[0]);
    if (op[0].type.dims[op[0].type.rank - 1].name != classes)
        sched_bug(s, i, "the classes are not the innermost dim");
    mg_xent_desc d = describe_xent(s, i, &op[0].type, classes, &op[1]);
    if (grad)
        d.dloss_stride = dloss_stride(s, i, &op[3], d.rows);
    Action *a = action_new(s, grad ? ACT_xent_grad : ACT_xent, i, n, op);
    a->xent = d;
    priced(s, a, i);
}

/* The smallest number of chunks whose logits fit the work space, in rows that divide evenly: on a
 * GPU in multiples of its tiles' rows. */
static int64_t chunk_rows(const Sched *s, int64_t rows, int64_t row_bytes, int64_t weight_bytes,
                          bool frozen)
{
    const Target target = s->p->device->target;
    const int64_t tile = target == TARGET_cuda ? 128 : 1, chosen = s->m->layout.logits;
    const int64_t more = frozen && target == TARGET_host ? 4 : 1;
    const int64_t min = head_chunk[target].min, limit = more * head_chunk[target].max;
    const int64_t work = weight_bytes < min ? min : weight_bytes > limit ? limit : weight_bytes;
    const int64_t least = chosen ? tile : head_chunk[target].rows;
    int64_t max = (chosen ? chosen : work) / row_bytes / tile * tile;
    if (max < least)
        max = least;
    if (max >= rows)
        return rows;
    int64_t chunks = (rows + max - 1) / max;
    return ((rows + chunks - 1) / chunks + tile - 1) / tile * tile;
}

void call_head(Sched *s, const Ins *i, int home)
{
    const bool grad = i->op != OP_head_loss, frozen = i->op == OP_head_frozen;
    Operand op[8];
    int n = 0;
    for (uint32_t k = 0; k < (grad ? 4u : 3u); k++)
        op[n++] = operand_of(s, i->in[k], true, false);
    for (uint32_t k = 0; k < i->nout; k++)
        op[n++] = operand_of(s, i->out[k], k == 2 && i->nin == 5, true);
    for (int k = 0; k < n; k++)
        if (k != 2)
            require_dense(s, i, &op[k]);
    const Type *w = &op[1].type;
    mg_head_desc d = {.xent = describe_xent(s, i, w, i->attrs.dim.name, &op[2]),
                      .w_by_vocab = w->dims[0].name == i->attrs.dim.name,
                      .dw_accumulate = i->nin == 5,
                      .frozen = frozen};
    d.dw = grad && !frozen ? abi_dtype(op[6].type.dtype) : d.xent.dtype;
    d.hidden = type_elements(w) / d.xent.vocab;
    if (grad)
        d.xent.dloss_stride = dloss_stride(s, i, &op[3], d.xent.rows);
    d.chunk = chunk_rows(s, d.xent.rows, mg_head_row(&d) * mg_dtype_bytes(d.xent.dtype),
                         type_bytes(w), frozen);
    op[n++] = work_space(s, "logits", mg_head_work(&d), home);
    Action *a = action_new(s, grad ? ACT_head : ACT_head_loss, i, n, op);
    a->head = d;
    needs_scratch(s, mg_head_scratch(&d));
    Cost c = ir_cost(s->m, i);
    double again = (double)((d.xent.rows + d.chunk - 1) / d.chunk - 1); /* chunks but the first */
    c.bytes += again * (double)type_bytes(w) * (grad ? 2 : 1);
    c.bytes += grad && !frozen ? again * 2 * (double)type_bytes(&op[6].type) : 0;
    price(s, a, c);
}

/* Elements of a type's dims before, among and behind those of a list, which stand together. */
static void around_all(const Type *t, const DimList *l, int64_t *outer, int64_t *all,
                       int64_t *inner)
{
    int64_t *side = outer;
    *outer = *all = *inner = 1;
    for (int k = 0; k < t->rank; k++) {
        const bool listed = dims_have(l, t->dims[k].name);
        side = listed ? all : side == all ? inner : side;
        *side *= t->dims[k].size;
    }
}

void call_tile_scale(Sched *s, const Ins *i, int home)
{
    (void)home;
    const Attrs *a = &i->attrs;
    Operand op[2] = {operand_of(s, i->in[0], true, false), operand_of(s, i->out[0], false, true)};
    mg_tile_scale_desc d = {.dtype = abi_dtype(op[0].type.dtype),
                            .outer = 1,
                            .tile_rows = 1,
                            .tile_columns = 1,
                            .largest = a->value,
                            .power = a->power};
    require_dense(s, i, &op[0]);
    require_dense(s, i, &op[1]);
    if (a->at < a->over.n) {
        d.rows = d.columns = 1;
        for (int k = 0; k < a->over.n; k++)
            *(k < a->at ? &d.rows : &d.columns) *= a->over.dim[k].size;
        d.outer = type_elements(&op[0].type) / (d.rows * d.columns);
        d.tile_rows = d.tile_columns = a->every;
    } else {
        around_all(&op[0].type, &a->over, &d.outer, &d.rows, &d.columns);
        d.tile_rows = a->every;
        if (d.columns == 1) /* tiles of one row, which lie one behind the other */
            d = (mg_tile_scale_desc){d.dtype, 1, d.outer, d.rows, 1, a->every, d.largest, d.power};
    }
    Action *act = action_new(s, ACT_tile_scale, i, 2, op);
    act->tile_scale = d;
    priced(s, act, i);
}

void call_round_tiles(Sched *s, const Ins *i, int home)
{
    (void)home;
    const Strided x = strided(s, i->in[0]);
    Operand op[3] = {operand_of(s, i->in[0], true, false), operand_of(s, i->out[0], false, true),
                     operand_of(s, i->out[1], false, true)};
    mg_round_tiles_desc d;
    require_dense(s, i, &op[1]);
    require_dense(s, i, &op[2]);
    if (!round_tiles_match(&i->attrs, &x, type_of(s->m, i->out[0]), &d))
        sched_bug(s, i, "tiles of a matrix that lies otherwise");
    Action *a = action_new(s, ACT_round_tiles, i, 3, op);
    a->round_tiles = d;
    priced(s, a, i);
}

void call_random(Sched *s, const Ins *i, int home)
{
    (void)home;
    Operand op[4];
    for (int k = 0; k < 3; k++)
        op[k] = operand_of(s, i->in[k], true, false);
    op[3] = operand_of(s, i->out[0], false, true);
    Action *a = action_new(s, ACT_random, i, 4, op);
    a->random = (mg_random_desc){.dtype = abi_dtype(op[3].type.dtype),
                                 .key = ir_key(name_str(s->m->names, i->attrs.key)),
                                 .elements = type_elements(&op[3].type)};
    priced(s, a, i);
}

void call_transfer(Sched *s, const Ins *i, int home)
{
    (void)home;
    const bool fetch = i->attrs.level == LEVEL_device;
    Operand op[2] = {operand_of(s, i->in[0], true, false), operand_of(s, i->out[0], false, true)};
    require_dense(s, i, &op[0]);
    require_dense(s, i, &op[1]);
    Action *a = action_new(s, fetch ? ACT_fetch : ACT_offload, i, 2, op);
    a->bytes = type_bytes(&op[0].type);
    a->bytes_moved = (double)a->bytes;
}

/* A type as [outer, size, inner] around a dim; around none: all of it is inside. */
static void around(const Type *t, Name dim, int64_t *outer, int64_t *size, int64_t *inner)
{
    int at = dim ? type_find(t, dim) : -1;
    *outer = *size = *inner = 1;
    for (int i = 0; i < t->rank; i++)
        *(i < at ? outer : i == at ? size : inner) *= t->dims[i].size;
}

void call_comm(Sched *s, const Ins *i, int home)
{
    Operand op[3] = {operand_of(s, i->in[0], true, false), operand_of(s, i->out[0], false, true)};
    int n = 2;
    require_dense(s, i, &op[0]);
    require_dense(s, i, &op[1]);
    mg_comm_desc d = {.kind = collective_of(i->op)->kind,
                      .dtype = abi_dtype(op[0].type.dtype),
                      .max = i->attrs.max,
                      .tree = i->attrs.tree,
                      .zigzag = i->attrs.zigzag,
                      .axes = i->attrs.axes,
                      .n = mesh_size(s->m, i->attrs.axes),
                      .root = i->op == OP_broadcast ? (int)i->attrs.at : 0};
    around(&op[0].type, i->attrs.dim.name, &d.outer, &d.size, &d.inner);
    around(&op[0].type, i->attrs.to.name, &d.to_outer, &d.to_size, &d.to_inner);
    copies_choose(s->m, s->p->device, &d);
    small_choose(s->m, s->p->device, &d);
    if (s->p->device->target == TARGET_cuda && mg_comm_work(&d))
        op[n++] = work_space(s, "shares", mg_comm_work(&d), home);
    Action *a = action_new(s, ACT_comm, i, n, op);
    a->comm = d;
    a->near = action_sends(a) && near_is(s->m, s->p->device, &d);
    priced(s, a, i);
}
