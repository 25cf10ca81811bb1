/* emit_entry.c - what mg_main says of one program: its inputs and results, by their places in the
 * arena. */
#include "codegen/emit/emit.h"
#include "plan/outside.h"

static void entry_offset(const Emitter *e, const char *name, int buffer)
{
    fprintf(e->out, ", .%s = ", name);
    if (buffer < 0)
        fputs("-1", e->out);
    else
        emit_offset(e, (size_t)buffer);
}

/* Places of the inputs of an entry, and elements of a sample. */
static void emit_inputs(const Emitter *e, const Program *p)
{
    fprintf(e->out, ", .ninputs = %zu, .inputs = {", e->m->inputs.n);
    for (size_t i = 0; i < e->m->inputs.n; i++) {
        const Buffer *b = &e->p->buffers.data[p->input[i]];
        const Type *t = type_of(e->m, b->value);
        fputs(i ? ", {" : "{", e->out);
        emit_string(e->out, name_str(e->m->names, e->m->inputs.data[i].name));
        fprintf(e->out, ", %s, ", emit_dtype(t->dtype));
        emit_offset(e, (size_t)p->input[i]);
        fprintf(e->out, ", %lld, %lld}", (long long)(type_elements(t) / p->batch),
                (long long)e->m->inputs.data[i].limit);
    }
    fputs("}", e->out);
}

static void emit_totals(const Emitter *e, const Program *p)
{
    fprintf(e->out, ", .ntotals = %zu, .total = (const mg_total[]){", p->totals.n);
    for (size_t i = 0; i < p->totals.n; i++) {
        const Buffer *b = &e->p->buffers.data[p->totals.data[i]];
        fputs(i ? ", {" : "{", e->out);
        emit_offset(e, (size_t)p->totals.data[i]);
        fprintf(e->out, ", %lld, %s}", (long long)type_elements(type_of(e->m, b->value)),
                p->fn->totals.data[i] ? "true" : "false");
    }
    fputs("}", e->out);
}

static void emit_metrics(const Emitter *e, const Program *p)
{
    fprintf(e->out, ", .nmetrics = %zu, .metric = (const mg_metric[]){", e->m->metrics.n);
    for (size_t i = 0; i < e->m->metrics.n; i++) {
        fputs(i ? ", {" : "{", e->out);
        emit_string(e->out, name_str(e->m->names, e->m->metrics.data[i]));
        fputs(", ", e->out);
        emit_offset(e, (size_t)p->metric[i]);
        fputc('}', e->out);
    }
    fputs("}", e->out);
}

void emit_entry(const Emitter *e, const char *name, const Program *p, int64_t nodes)
{
    if (!p) {
        fprintf(e->out, "    .%s = {.present = false},\n", name);
        return;
    }
    fprintf(e->out, "    .%s = {.present = true", name);
    entry_offset(e, "tokens", p->tokens);
    entry_offset(e, "weights", p->weights);
    entry_offset(e, "documents", p->documents);
    emit_num(e, "batch", p->batch * mesh_size(e->m, p->batch_axes));
    emit_num(e, "rows", p->rows);
    emit_num(e, "batch_axes", p->batch_axes);
    if (mesh_ruled(e->m, e->m->batch.name, p->batch_axes).inner)
        emit_num(e, "batch_inner", mesh_ruled(e->m, e->m->batch.name, p->batch_axes).inner);
    emit_num(e, "window", p->window);
    entry_offset(e, "lr", p->lr[0]);
    entry_offset(e, "scale", p->scale);
    entry_offset(e, "step", p->step);
    entry_offset(e, "seed", p->seed);
    entry_offset(e, "pos", p->pos);
    entry_offset(e, "filled", p->filled);
    entry_offset(e, "before", p->before);
    if (p->begin >= 0)
        entry_offset(e, "begin", p->begin);
    if (p->count >= 0)
        entry_offset(e, "count", p->count);
    entry_offset(e, "loss", p->loss[0]);
    entry_offset(e, "norm", p->norm[0]);
    entry_offset(e, "logits", p->logits);
    if (p->logits >= 0) {
        const Type *t = type_of(e->m, e->p->buffers.data[p->logits].value);
        emit_num(e, "logits_row", t->dims[t->rank - 1].size);
    }
    fprintf(e->out, ", .predicted_ms = %.6g, .flops = %.9g", p->seconds * 1e3, p->flops);
    if (e->cuda)
        emit_num(e, "nodes", nodes);
    if (e->m->inputs.n && p->input[0] >= 0) /* @round has none */
        emit_inputs(e, p);
    if (p->totals.n)
        emit_totals(e, p);
    if (e->m->metrics.n && p->metric[0] >= 0)
        emit_metrics(e, p);
    if (p->dropped >= 0) {
        fputs(", .drops = true", e->out);
        entry_offset(e, "dropped", p->dropped);
    }
    if (p->nplaces)
        fprintf(e->out, ", .nplaces = %d, .place = {", p->nplaces);
    for (int i = 0; i < p->nplaces; i++) {
        fprintf(e->out, "%s{%u, ", i ? ", " : "", p->place[i].axes);
        emit_offset(e, (size_t)p->place[i].buffer);
        fputc('}', e->out);
    }
    fputs(p->nplaces ? "}},\n" : "},\n", e->out);
}

static void emit_rollout(const Emitter *e)
{
    static const char *const scales[] = {"GROUP", "BATCH", "NONE"};
    const Rollout *o = &e->m->train.rollout;
    if (!o->size || !e->p->train)
        return;
    fprintf(e->out, "    .rollout = {%lld, %lld, %lld, MG_REWARD_%s, ", (long long)o->size,
            (long long)o->tokens, (long long)o->updates, scales[o->scale]);
    emit_real(e, o->temperature);
    fputs("},\n", e->out);
}

/* The programs that generate, and their caches: [layers..., sequences, ...]. */
void emit_generation(const Emitter *e)
{
    const Plan *p = e->p;
    fputs("    .run_prefill = mg_prefill, .run_decode = mg_decode,\n", e->out);
    emit_entry(e, "prefill", p->prefill, outside_nodes(p, 4));
    emit_entry(e, "decode", p->decode, outside_nodes(p, 5));
    if (p->spread) {
        fputs("    .run_spread = mg_spread,\n", e->out);
        emit_entry(e, "spread", p->spread, outside_nodes(p, 6));
    }
    fprintf(e->out, "    .ncaches = %zu, .caches = (const mg_cache[]){", p->cache_buffer.n);
    for (size_t i = 0; i < p->cache_buffer.n; i++) {
        const Type *t = type_of(e->m, p->buffers.data[p->cache_buffer.data[i]].value);
        const int at = type_find(t, e->m->batch.name);
        int64_t outer = 1;
        for (int k = 0; k < at; k++)
            outer *= t->dims[k].size;
        fputs(i ? ", {" : "{", e->out);
        emit_offset(e, (size_t)p->cache_buffer.data[i]);
        fprintf(e->out, ", %lld, %lld}", (long long)outer,
                (long long)(type_bytes(t) / outer / t->dims[at].size));
    }
    fputs("},\n", e->out);
    if (p->decode->fn->whole)
        fputs("    .whole_chunks = true,\n", e->out);
    if (p->decode->fn->cuts)
        fprintf(e->out, "    .cuts = %lld,\n", (long long)p->decode->fn->cuts);
    emit_rollout(e);
}
