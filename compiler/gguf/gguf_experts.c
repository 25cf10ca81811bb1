/* gguf_experts.c - layers of experts. A matrix of all experts is one tensor there, one expert's
 * behind the other's; the router is in f32. */
#include "compiler/gguf/gguf_family.h"

#include <string.h>

static const struct {
    const char *name, *written; /* name: of an expert's */
    int in;
} matrices[] = {
    {"block_sparse_moe.experts.%lld.w1.weight", "ffn_gate_exps.weight", MIXTRAL},
    {"block_sparse_moe.experts.%lld.w2.weight", "ffn_down_exps.weight", MIXTRAL},
    {"block_sparse_moe.experts.%lld.w3.weight", "ffn_up_exps.weight", MIXTRAL},
    {"mlp.experts.%lld.gate_proj.weight", "ffn_gate_exps.weight", QWEN2_MOE | QWEN3_MOE},
    {"mlp.experts.%lld.down_proj.weight", "ffn_down_exps.weight", QWEN2_MOE | QWEN3_MOE},
    {"mlp.experts.%lld.up_proj.weight", "ffn_up_exps.weight", QWEN2_MOE | QWEN3_MOE},
};

static const struct {
    const char *name, *written;
    int in;
    bool router; /* in f32; a single row is a vector */
} others[] = {
    {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight", MIXTRAL, true},
    {"mlp.gate.weight", "ffn_gate_inp.weight", QWEN2_MOE | QWEN3_MOE, true},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", QWEN2_MOE, true},
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight", QWEN2_MOE, false},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight", QWEN2_MOE, false},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight", QWEN2_MOE, false},
};

/* Whether the weights of the chosen experts are scaled to sum to 1 is none of the metadata: the
 * family has it. */
static bool check_sparse(const Family *f)
{
    const json_t *step = gguf_key(f, "decoder_sparse_step");
    const bool sums = json_is_true(gguf_key(f, "norm_topk_prob"));
    if (f->is != MIXTRAL && sums != (f->is == QWEN3_MOE))
        return gguf_bad_key(f, "norm_topk_prob",
                            sums ? "llama.cpp does not scale the weights of chosen experts to sum "
                                   "to 1 in this family"
                                 : "llama.cpp scales the weights of chosen experts to sum to 1 in "
                                   "this family");
    if (step && json_integer_value(step) != 1)
        return gguf_bad_key(f, "decoder_sparse_step", "llama.cpp has experts in each layer");
    if (json_array_size(gguf_key(f, "mlp_only_layers")))
        return gguf_bad_key(f, "mlp_only_layers", "llama.cpp has experts in each layer");
    return true;
}

bool gguf_experts_sizes(Family *f)
{
    Gguf *g = f->g;
    int64_t used, width;
    if (!(f->is & SPARSE))
        return true;
    if (!gguf_whole(f, f->is == MIXTRAL ? "num_local_experts" : "num_experts", 0, &f->experts) ||
        !gguf_whole(f, "num_experts_per_tok", 0, &used) || !check_sparse(f))
        return false;
    if (used > f->experts)
        return gguf_bad_key(f, "num_experts_per_tok", "there are fewer experts");
    gguf_u32(g, ".expert_count", f->experts);
    gguf_u32(g, ".expert_used_count", used);
    if (f->is == MIXTRAL)
        return true;
    if (!gguf_whole(f, "moe_intermediate_size", 0, &width))
        return false;
    gguf_u32(g, ".expert_feed_forward_length", width);
    if (f->is == QWEN3_MOE)
        return true;
    if (!gguf_whole(f, "shared_expert_intermediate_size", 0, &width))
        return false;
    gguf_u32(g, ".expert_shared_feed_forward_length", width);
    return true;
}

static const GgufSource *found(const Family *f, int64_t layer, const char *name)
{
    const char *all = arena_printf(f->g->s->arena, "model.layers.%lld.%s", (long long)layer, name);
    const GgufSource *x = gguf_source(f->g, all);
    if (!x)
        gguf_refuse(f->g, 611, "%s is missing", all);
    return x;
}

static bool add_matrix(const Family *f, int64_t layer, const char *name, const char *written)
{
    Gguf *g = f->g;
    Arena *a = g->s->arena;
    const GgufSource **part = NEW_ARRAY(a, const GgufSource *, (size_t)f->experts);
    for (int64_t e = 0; e < f->experts; e++) {
        const char *at = strstr(name, "%lld");
        const char *one =
            arena_printf(a, "%.*s%lld%s", (int)(at - name), name, (long long)e, at + 4);
        part[e] = found(f, layer, one);
        if (!part[e])
            return false;
        if (part[e]->rank != 2 || part[e]->shape[0] != part[0]->shape[0] ||
            part[e]->shape[1] != part[0]->shape[1])
            return gguf_refuse(g, 611, "%s has not the shape of the first expert's", part[e]->name);
    }
    GgufTensor t = {.name = arena_printf(a, "blk.%lld.%s", (long long)layer, written),
                    .source = part[0],
                    .part = part,
                    .parts = f->experts,
                    .rank = 3,
                    .shape = {f->experts, part[0]->shape[0], part[0]->shape[1]},
                    .type = gguf_matrix_type(g, part[0]->shape[1])};
    vec_push(a, &g->tensor, t);
    return true;
}

static bool add_other(const Family *f, int64_t layer, const char *name, const char *written,
                      bool router)
{
    Gguf *g = f->g;
    const GgufSource *x = found(f, layer, name);
    if (!x)
        return false;
    if (x->rank != 2)
        return gguf_refuse(g, 611, "%s is no matrix", x->name);
    GgufTensor t = {.name = arena_printf(g->s->arena, "blk.%lld.%s", (long long)layer, written),
                    .source = x,
                    .rank = 2,
                    .shape = {x->shape[0], x->shape[1]},
                    .type = router ? GGUF_f32 : gguf_matrix_type(g, x->shape[1])};
    if (router && x->shape[0] == 1) {
        t.rank = 1;
        t.shape[0] = x->shape[1];
    }
    vec_push(g->s->arena, &g->tensor, t);
    return true;
}

bool gguf_experts_layer(const Family *f, int64_t layer, int64_t *taken)
{
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        if (matrices[i].in & f->is) {
            if (!add_matrix(f, layer, matrices[i].name, matrices[i].written))
                return false;
            *taken += f->experts;
        }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].in & f->is) {
            if (!add_other(f, layer, others[i].name, others[i].written, others[i].router))
                return false;
            ++*taken;
        }
    return true;
}
