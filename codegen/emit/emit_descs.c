/* emit_descs.c - the descriptors of products and library kernels (runtime/abi.h), as constant data
 * of the emitted program. */
#include "codegen/emit/emit.h"
#include "ir/collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void emit_real(const Emitter *e, double x)
{
    if (isfinite(x))
        fputs(real_text(e->a, x), e->out);
    else
        fputs(isnan(x) ? "(0.0 / 0.0)" : x < 0 ? "(-1.0 / 0.0)" : "(1.0 / 0.0)", e->out);
}

void emit_sizes(const Emitter *e, const int64_t *v, int n)
{
    fputc('{', e->out);
    for (int i = 0; i < n; i++)
        fprintf(e->out, "%s%lld", i ? ", " : "", (long long)v[i]);
    if (!n)
        fputc('0', e->out);
    fputc('}', e->out);
}

static void flag(const Emitter *e, const char *name, bool x)
{
    if (x)
        fprintf(e->out, ", .%s = true", name);
}

void emit_num(const Emitter *e, const char *name, int64_t x)
{
    if (x)
        fprintf(e->out, ", .%s = %lld", name, (long long)x);
}

static const char *desc_dtype(mg_dtype t)
{
    static const char *const names[] = {
        "0",       "MG_F32",  "MG_F64",  "MG_BF16",     "MG_F16",       "MG_I32",  "MG_I64",
        "MG_BOOL", "MG_E4M3", "MG_E5M2", "MG_DYNAMIC8", "MG_UDYNAMIC8", "MG_E8M0", "MG_U8"};
    return names[t];
}

/* A number of a descriptor by its name there. */
typedef struct Number {
    const char *name;
    int64_t value;
} Number;
#define NUMBER(member) {#member, d->member}

/* A descriptor's dtype and numbers. */
static void sized(const Emitter *e, mg_dtype t, const Number *number, size_t n)
{
    fprintf(e->out, ".dtype = %s", desc_dtype(t));
    for (size_t i = 0; i < n; i++)
        emit_num(e, number[i].name, number[i].value);
}

static void list(const Emitter *e, const char *name, const int64_t *v, int n)
{
    fprintf(e->out, ", .%s = ", name);
    emit_sizes(e, v, n);
}

/* GEMM, a macro of the emitted file, has the common fields of all products. The other fields are
 * written by name. */
static void desc_gemm(const Emitter *e, const mg_gemm_desc *d)
{
    fprintf(e->out, "GEMM(%s, %s, %lld, %lld, %lld, %lld, %lld, %lld, ", desc_dtype(d->dtype),
            desc_dtype(d->out), (long long)d->m, (long long)d->n, (long long)d->k,
            (long long)d->lda, (long long)d->ldb, (long long)d->ldc);
    emit_real(e, d->alpha);
    fputs(", ", e->out);
    emit_real(e, d->beta);
    fprintf(e->out, ", %lld)", (long long)d->batch);
    flag(e, "ta", d->ta);
    flag(e, "tb", d->tb);
    static const char *const ends[] = {"MG_BIAS", "MG_SUM",       "MG_GELU",
                                       "MG_AUX",  "MG_GELU_GRAD", "MG_SCALES"};
    const char *before = ", .epilogue = ";
    for (int i = 0; i < 6; i++)
        if (d->epilogue >> i & 1) {
            fprintf(e->out, "%s%s", before, ends[i]);
            before = " | ";
        }
    emit_num(e, "variant", d->variant);
    static const char *const tiles[] = {NULL, "MG_TILES_ROWS", "MG_TILES_A", "MG_TILES_B",
                                        "MG_TILES_MX"};
    if (d->tiles)
        fprintf(e->out, ", .tiles = %s", tiles[d->tiles]);
    if (d->other)
        fprintf(e->out, ", .other = %s", desc_dtype(d->other));
    emit_num(e, "ldx", d->ldx);
    emit_num(e, "sa", d->sa);
    emit_num(e, "sb", d->sb);
    emit_num(e, "sc", d->sc);
}

static void desc_conv(const Emitter *e, const mg_conv_desc *d)
{
    const int n = d->batch + d->rows + d->columns + d->terms;
    fprintf(e->out, ".dtype = %s, .out = %s", desc_dtype(d->dtype), desc_dtype(d->out));
    flag(e, "accumulate", d->accumulate);
    const Number number[] = {NUMBER(batch), NUMBER(rows), NUMBER(columns), NUMBER(terms),
                             NUMBER(axes)};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        emit_num(e, number[i].name, number[i].value);
    list(e, "size", d->size, n);
    list(e, "x", d->x, n);
    list(e, "w", d->w, n);
    list(e, "y", d->y, n);
    for (int i = 0; i < d->axes; i++) {
        const mg_conv_axis *x = &d->axis[i];
        fprintf(e->out, "%s{%lld, %lld, %lld, %lld, {", i ? ", " : ", .axis = {",
                (long long)x->size, (long long)x->stride, (long long)x->at, (long long)x->every);
        for (int k = 0; k < n; k++)
            fprintf(e->out, "%s%d", k ? ", " : "", (int)x->by[k]);
        fputs("}}", e->out);
    }
    fputc('}', e->out);
}

static void desc_attention(const Emitter *e, const mg_attention_desc *d, ActionKind kind)
{
    fprintf(e->out, ".dtype = %s", desc_dtype(d->dtype));
    flag(e, "causal", d->causal);
    fputs(", .scale = ", e->out);
    emit_real(e, d->scale);
    if (d->cap > 0) {
        fputs(", .cap = ", e->out);
        emit_real(e, d->cap);
    }
    emit_num(e, "window", d->window);
    emit_num(e, "batch", d->batch);
    emit_num(e, "kv", d->kv);
    emit_num(e, "group", d->group);
    emit_num(e, "queries", d->queries);
    emit_num(e, "keys", d->keys);
    emit_num(e, "head", d->head);
    emit_num(e, "vhead", d->vhead);
    fputs(", .q = ", e->out);
    emit_sizes(e, d->q, 4);
    list(e, "k", d->k, 3);
    list(e, "v", d->v, 3);
    list(e, "o", d->o, 4);
    list(e, "lse", d->lse, 4);
    if (kind == ACT_attention_grad) {
        list(e, "dq", d->dq, 4);
        list(e, "dk", d->dk, 3);
        list(e, "dv", d->dv, 3);
    }
    if (d->first[0] || d->first[1])
        list(e, "first", d->first, 2);
    if (d->seen[0] || d->seen[1])
        list(e, "seen", d->seen, 2);
    flag(e, "biased", d->biased);
    if (d->biased)
        list(e, "bias", d->bias, 5);
    if (kind == ACT_attention_bias_grad)
        list(e, "dbias", d->dbias, 5);
}

static void desc_xent(const Emitter *e, const mg_xent_desc *d)
{
    const Number numbers[] = {NUMBER(rows),         NUMBER(vocab),        NUMBER(valid),
                              NUMBER(dloss_stride), NUMBER(target_inner), NUMBER(target_outer)};
    sized(e, d->dtype, numbers, sizeof numbers / sizeof *numbers);
}

static void desc_head(const Emitter *e, const mg_head_desc *d)
{
    fputs(".xent = {", e->out);
    desc_xent(e, &d->xent);
    fputs("}", e->out);
    emit_num(e, "hidden", d->hidden);
    emit_num(e, "chunk", d->chunk);
    flag(e, "w_by_vocab", d->w_by_vocab);
    flag(e, "dw_accumulate", d->dw_accumulate);
    flag(e, "frozen", d->frozen);
    fprintf(e->out, ", .dw = %s", desc_dtype(d->dw));
}

static void desc_gather(const Emitter *e, const mg_gather_desc *d)
{
    const Number numbers[] = {NUMBER(indices), NUMBER(tables),      NUMBER(outer),      NUMBER(n),
                              NUMBER(inner),   NUMBER(index_inner), NUMBER(index_outer)};
    sized(e, d->dtype, numbers, sizeof numbers / sizeof *numbers);
    flag(e, "accumulate", d->accumulate);
}

static void desc_top(const Emitter *e, const mg_top_desc *d)
{
    const Number numbers[] = {NUMBER(rows), NUMBER(n), NUMBER(top)};
    sized(e, d->dtype, numbers, sizeof numbers / sizeof *numbers);
}

static void desc_experts(const Emitter *e, const mg_experts_desc *d)
{
    const Number numbers[] = {NUMBER(groups),  NUMBER(positions), NUMBER(choices), NUMBER(homes),
                              NUMBER(experts), NUMBER(slots),     NUMBER(inner)};
    sized(e, d->dtype, numbers, sizeof numbers / sizeof *numbers);
}

static void desc_grouped(const Emitter *e, const mg_grouped_desc *d)
{
    const Number numbers[] = {NUMBER(groups), NUMBER(rows), NUMBER(experts), NUMBER(k), NUMBER(n)};
    sized(e, d->dtype, numbers, sizeof numbers / sizeof *numbers);
    fprintf(e->out, ", .out = %s", desc_dtype(d->out));
    flag(e, "turned", d->turned);
    flag(e, "accumulate", d->accumulate);
}

static void desc_random(const Emitter *e, const mg_random_desc *d)
{
    fprintf(e->out, ".dtype = %s, .key = %lluu, .elements = %lld", desc_dtype(d->dtype),
            (unsigned long long)d->key, (long long)d->elements);
}

static void desc_tile_scale(const Emitter *e, const mg_tile_scale_desc *d)
{
    const Number numbers[] = {NUMBER(outer), NUMBER(rows), NUMBER(columns), NUMBER(tile_rows),
                              NUMBER(tile_columns)};
    sized(e, d->dtype, numbers, sizeof numbers / sizeof *numbers);
    fputs(", .largest = ", e->out);
    emit_real(e, d->largest);
    flag(e, "power", d->power);
}

static void desc_round_tiles(const Emitter *e, const mg_round_tiles_desc *d)
{
    const Number numbers[] = {NUMBER(rows),          NUMBER(columns),   NUMBER(row_stride),
                              NUMBER(column_stride), NUMBER(tile_rows), NUMBER(tile_columns)};
    sized(e, d->dtype, numbers, sizeof numbers / sizeof *numbers);
    fprintf(e->out, ", .to = %s, .largest = ", desc_dtype(d->to));
    emit_real(e, d->largest);
    flag(e, "power", d->power);
}

static void desc_comm(const Emitter *e, const mg_comm_desc *d)
{
    fprintf(e->out, ".kind = %s, .dtype = %s, .axes = %u, .n = %lld, ",
            collective_of_kind(d->kind)->abi, desc_dtype(d->dtype), d->axes, (long long)d->n);
    fprintf(e->out, ".outer = %lld, .size = %lld, .inner = %lld", (long long)d->outer,
            (long long)d->size, (long long)d->inner);
    emit_num(e, "root", d->root);
    emit_num(e, "piece", d->piece);
    flag(e, "max", d->max);
    flag(e, "small", d->small);
    flag(e, "tree", d->tree);
    flag(e, "zigzag", d->zigzag);
    if (d->kind == MG_ALL_TO_ALL)
        fprintf(e->out, ", .to_outer = %lld, .to_size = %lld, .to_inner = %lld",
                (long long)d->to_outer, (long long)d->to_size, (long long)d->to_inner);
}

static void desc_body(const Emitter *e, const Action *a)
{
    switch (a->kind) {
    case ACT_gemm:
        desc_gemm(e, &a->gemm);
        break;
    case ACT_conv:
        desc_conv(e, &a->conv);
        break;
    case ACT_attention:
    case ACT_attention_grad:
    case ACT_attention_bias_grad:
        desc_attention(e, &a->attention, a->kind);
        break;
    case ACT_xent:
    case ACT_xent_grad:
        desc_xent(e, &a->xent);
        break;
    case ACT_head:
    case ACT_head_loss:
        desc_head(e, &a->head);
        break;
    case ACT_gather:
    case ACT_scatter_add:
    case ACT_put:
        desc_gather(e, &a->gather);
        break;
    case ACT_top:
        desc_top(e, &a->top);
        break;
    case ACT_slots:
    case ACT_ends:
    case ACT_dispatch:
    case ACT_combine:
    case ACT_combine_weight:
        desc_experts(e, &a->experts);
        break;
    case ACT_grouped:
    case ACT_grouped_weight:
        desc_grouped(e, &a->grouped);
        break;
    case ACT_tile_scale:
        desc_tile_scale(e, &a->tile_scale);
        break;
    case ACT_round_tiles:
        desc_round_tiles(e, &a->round_tiles);
        break;
    case ACT_random:
        desc_random(e, &a->random);
        break;
    case ACT_comm:
        desc_comm(e, &a->comm);
        break;
    case ACT_loop:
    case ACT_end:
    case ACT_kernel:
    case ACT_copy:
    case ACT_fetch:
    case ACT_offload:
    case ACT_zero:
    case ACT_guard:
    case ACT_phase:
    case ACT_receive:
    case ACT_send:
    case ACT_count:
        break; /* these have no descriptor */
    }
}

/* "gemm_4096x432x160", m by n by k, with "_add" if the product is added to C. Other descriptors are
 * named after their action. */
static const char *desc_name(const Emitter *e, const Action *a, const char *type)
{
    const mg_gemm_desc *d = &a->gemm;
    if (a->kind == ACT_gemm)
        return arena_printf(e->a, "gemm_%lldx%lldx%lld%s%s%s", (long long)d->m, (long long)d->n,
                            (long long)d->k, d->ta ? "_ta" : "", d->tb ? "_tb" : "",
                            d->beta != 0 ? "_add" : "");
    const char *name = name_str(e->m->names, a->name), *last = strrchr(name, '.');
    const char *kind = arena_strndup(e->a, type + 3, strlen(type) - strlen("mg__desc"));
    name = last ? last + 1 : name;
    return !strncmp(name, kind, strlen(kind)) ? name : arena_printf(e->a, "%s_%s", kind, name);
}

static const char *desc_text(const Emitter *e, const Action *a)
{
    char *text;
    size_t size;
    Emitter aside = *e;
    aside.out = open_memstream(&text, &size);
    desc_body(&aside, a);
    fclose(aside.out);
    const char *kept = arena_strdup(e->a, text);
    free(text);
    return kept;
}

/* The number of an action's descriptor among all constants. It is added if no constant is equal to
 * it. */
static size_t described(Emitter *e, const Action *a, const char *type)
{
    const char *body = desc_text(e, a);
    for (size_t i = 0; i < e->ndescribed; i++)
        if (!strcmp(e->described[i].type, type) && !strcmp(e->described[i].body, body))
            return i;
    size_t i = e->ndescribed++;
    e->described[i].type = type;
    e->described[i].body = body;
    e->described[i].name = cname(&e->names, "", desc_name(e, a, type));
    return i;
}

/* For each type, one declaration of all its descriptors, or their definitions. */
static void each_type(const Emitter *e, bool define)
{
    for (size_t i = 0; i < e->ndescribed; i++) {
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first &= strcmp(e->described[k].type, e->described[i].type) != 0;
        if (!first)
            continue;
        fprintf(e->out, "static const %s", e->described[i].type);
        const char *before = define ? "\n    " : " ";
        for (size_t k = i; k < e->ndescribed; k++) {
            if (strcmp(e->described[k].type, e->described[i].type) != 0)
                continue;
            fprintf(e->out, "%s%s", before, e->described[k].name);
            if (define)
                fprintf(e->out, " = {%s}", e->described[k].body);
            before = define ? ",\n    " : ", ";
        }
        fputs(";\n", e->out);
    }
    fputs(e->ndescribed ? "\n" : "", e->out);
}

void emit_descriptor_names(Emitter *e)
{
    Program *const *const programs = e->p->programs;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; programs[k] && i < programs[k]->actions.n; i++) {
            const Action *a = &programs[k]->actions.data[i];
            const char *type = action_info[a->kind].descriptor;
            if (type)
                e->desc[a->id] = e->described[described(e, a, type)].name;
            const Action writes = action_begins(a);
            if (a->nbegins)
                e->begins[a->id] = e->described[described(e, &writes, type)].name;
        }
    if (e->ndescribed)
        fputs("/* Descriptors of products (m x n x k) and library kernels: see below. */\n",
              e->out);
    each_type(e, false);
}

void emit_descriptors(const Emitter *e)
{
    if (e->ndescribed)
        fputs("/* Descriptors of products and library kernels. */\n", e->out);
    each_type(e, true);
}

/* The links that the plan counts on, and the collectives of the step, for --preflight. */
void emit_network(const Emitter *e)
{
    const Device *d = e->p->device;
    const Program *p = e->p->train;
    int n = 0;
    if (!e->m->layout.mesh.n)
        return;
    fputs("    .network = {", e->out);
    const double number[] = {d->link_bandwidth, d->link_seconds, d->node_bandwidth,
                             d->node_seconds};
    for (int i = 0; i < 4; i++) {
        emit_real(e, number[i]);
        fputs(", ", e->out);
    }
    fprintf(e->out, "%d},\n", d->node_ranks);
    for (size_t i = 0; p && i < p->actions.n; i++) {
        const Action *a = &p->actions.data[i];
        if (!action_sends(a) || a->id >= e->p->nactions)
            continue;
        fprintf(e->out, "%s{%u, &%s}", n++ ? ", " : "    .planned = (const mg_planned[]){", a->id,
                e->desc[a->id]);
    }
    if (n)
        fprintf(e->out, "},\n    .nplanned = %d,\n", n);
}
