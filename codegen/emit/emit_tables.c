/* emit_tables.c - the constant data of the emitted program: tensors, actions, mg_main. */
#include "codegen/emit/emit.h"

#include <math.h>
#include <string.h>

static const char *where(const Emitter *e, Span s)
{
    int line, column;
    if (!s.file)
        return "";
    diag_locate(e->m->diag, s, &line, &column);
    return arena_printf(e->a, "%s:%d", diag_path(e->m->diag, s.file), line);
}

static const char *str(const Emitter *e, Name n)
{
    return name_str(e->m->names, n);
}

static void bytes(const Emitter *e, const uint8_t *v, int n)
{
    int64_t wide[MAX_RANK];
    for (int i = 0; i < n; i++)
        wide[i] = v[i];
    emit_sizes(e, wide, n);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void emit_tensor(Emitter *e, size_t i)
{
    static const char *const inits[] = {"MG_INIT_CONST", "MG_INIT_NORMAL", "MG_INIT_UNIFORM"};
    const Tensor *t = &e->m->tensors.data[i];
    FILE *out = e->out;
    int64_t stored[MAX_RANK];
    for (int k = 0; k < t->type.rank; k++)
        stored[k] = t->type.dims[k].size;
    fputs("    {", out);
    emit_string(out, str(e, t->external));
    fputs(", ", out);
    emit_string(out, str(e, t->slot));
    fputs(", ", out);
    emit_string(out, where(e, t->span));
    fprintf(out, ", %s, %s, %s, %d, %d, %d,\n     ", emit_dtype(t->type.dtype),
            t->slot ? "MG_STATE" : "MG_PARAM", e->buffer[e->p->tensor_buffer.data[i]], t->type.rank,
            t->stacked, t->external_rank);
    emit_sizes(e, stored, t->type.rank);
    fputs(", ", out);
    emit_sizes(e, t->valid, t->type.rank);
    fputs(", ", out);
    bytes(e, t->order, t->type.rank - t->stacked);
    fputs(", ", out);
    bytes(e, t->merge, t->external_rank);
    fprintf(out, ", %s, ", inits[t->init]);
    emit_real(e, t->a);
    fputs(", ", out);
    emit_real(e, t->b);
    int64_t axes[MAX_RANK], zigzag[MAX_RANK], split = 0, zigzags = 0;
    for (int k = 0; k < t->type.rank; k++) {
        split |= axes[k] = t->axes[k];
        zigzags |= zigzag[k] = t->zigzag[k];
    }
    fputs(", ", out);
    emit_sizes(e, axes, split ? t->type.rank : 0);
    fputs(", ", out);
    emit_sizes(e, zigzag, zigzags ? t->type.rank : 0);
    fprintf(out, ", %d},\n", t->at ? t->at : AT_ALL);
}

void emit_tensors(Emitter *e)
{
    fputs("/* name, slot, source, dtype, role, offset, rank, stacked, external rank,\n"
          " * stored sizes, valid sizes, external order, merged, initial value,\n"
          " * axes of a split dim, those in zigzag order, which stages' ranks */\n"
          "static const mg_tensor tensors[] = {\n",
          e->out);
    for (size_t i = 0; i < e->m->tensors.n; i++)
        emit_tensor(e, i);
    if (!e->m->tensors.n)
        fputs("    {0},\n", e->out);
    fputs("};\n\n", e->out);
}

/* ---- actions --------------------------------------------------------------------------------- */

/* Of a generated kernel, by its pointers. */
static int float_outputs(const Action *a, int *out)
{
    const bool generated = a->kind == ACT_kernel || a->epilogue;
    int n = 0;
    for (int i = a->epilogue; i < a->noperands && generated && n < 6; i++)
        if (a->operand[i].write && dtype_is_float(a->operand[i].type.dtype))
            out[n++] = i - a->epilogue;
    return n;
}

static void emit_action(Emitter *e, const Action *a)
{
    FILE *out = e->out;
    int written[6], n = float_outputs(a, written);
    fputs("    {", out);
    emit_string(out, str(e, a->name));
    fputs(", ", out);
    emit_string(out, action_info[a->kind].name);
    fputs(", ", out);
    emit_string(out, where(e, a->span));
    fprintf(out, ", %.4g, %.6g, %.6g, %d, {", a->seconds * 1e6, a->flops, a->bytes_moved, n);
    for (int i = 0; i < n; i++) {
        const Type *t = &a->operand[a->epilogue + written[i]].type;
        fprintf(out, "%s{%d, %s, %lld}", i ? ", " : "", written[i], emit_dtype(t->dtype),
                (long long)type_elements(t));
    }
    fputs(n ? "}},\n" : "{0}}},\n", out);
}

void emit_actions(Emitter *e)
{
    const Program *programs[] = {e->p->train, e->p->eval, e->p->sample};
    const Action **by_id = NEW_ARRAY(e->a, const Action *, e->p->nactions + 1);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; programs[k] && i < programs[k]->actions.n; i++)
            if (programs[k]->actions.data[i].id < e->p->nactions)
                by_id[programs[k]->actions.data[i].id] = &programs[k]->actions.data[i];
    fputs("/* name, kind, source, predicted us, FLOPs, bytes, floating outputs of a kernel */\n"
          "static const mg_action actions[] = {\n",
          e->out);
    for (uint32_t i = 0; i < e->p->nactions; i++)
        if (by_id[i])
            emit_action(e, by_id[i]);
    if (!e->p->nactions)
        fputs("    {0},\n", e->out);
    fputs("};\n\n", e->out);
}

/* ---- mg_main --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u; /* FNV-1a */
    return h;
}

/* What a checkpoint depends on: external names, shapes and types of all tensors, the optimizer. */
static uint64_t fingerprint(const Emitter *e)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < e->m->tensors.n; i++) {
        const Tensor *t = &e->m->tensors.data[i];
        const char *name = str(e, t->external), *slot = str(e, t->slot);
        h = mix(h, name, strlen(name) + 1);
        h = mix(h, slot, strlen(slot) + 1);
        h = mix(h, &t->type.dtype, sizeof t->type.dtype);
        h = mix(h, t->valid, (size_t)t->type.rank * sizeof *t->valid);
        h = mix(h, t->order, (size_t)(t->type.rank - t->stacked));
        h = mix(h, t->merge, (size_t)t->external_rank);
    }
    return mix(h, &e->m->train.optimizer, sizeof e->m->train.optimizer);
}

static void entry_offset(const Emitter *e, const char *name, int buffer)
{
    fprintf(e->out, ", .%s = ", name);
    if (buffer < 0)
        fputs("-1", e->out);
    else
        fputs(e->buffer[buffer], e->out);
}

/* Where the inputs of an entry lie; elements of a sample. */
static void emit_inputs(const Emitter *e, const Program *p)
{
    fprintf(e->out, ",\n        .ninputs = %zu, .inputs = {", e->m->inputs.n);
    for (size_t i = 0; i < e->m->inputs.n; i++) {
        const Buffer *b = &e->p->buffers.data[p->input[i]];
        const Type *t = type_of(e->m, b->value);
        fputs(i ? ", {" : "{", e->out);
        emit_string(e->out, str(e, e->m->inputs.data[i].name));
        fprintf(e->out, ", %s, %s, %lld, %lld}", emit_dtype(t->dtype), e->buffer[p->input[i]],
                (long long)(type_elements(t) / p->batch), (long long)e->m->inputs.data[i].limit);
    }
    fputs("}", e->out);
}

static void emit_totals(const Emitter *e, const Program *p)
{
    fprintf(e->out, ",\n        .ntotals = %zu, .total = (const mg_total[]){", p->totals.n);
    for (size_t i = 0; i < p->totals.n; i++) {
        const Buffer *b = &e->p->buffers.data[p->totals.data[i]];
        fprintf(e->out, "%s{%s, %lld, %s}", i ? ", " : "", e->buffer[p->totals.data[i]],
                (long long)type_elements(type_of(e->m, b->value)),
                p->fn->totals.data[i] ? "true" : "false");
    }
    fputs("}", e->out);
}

static void emit_entry(const Emitter *e, const char *name, const Program *p)
{
    if (!p) {
        fprintf(e->out, "    .%s = {.present = false},\n", name);
        return;
    }
    fprintf(e->out, "    .%s = {.present = true", name);
    entry_offset(e, "tokens", p->tokens);
    entry_offset(e, "weights", p->weights);
    emit_num(e, "batch", p->batch * mesh_size(e->m, p->batch_axes));
    emit_num(e, "rows", p->rows);
    emit_num(e, "batch_axes", p->batch_axes);
    emit_num(e, "window", p->window);
    entry_offset(e, "lr", p->lr);
    entry_offset(e, "scale", p->scale);
    entry_offset(e, "step", p->step);
    entry_offset(e, "seed", p->seed);
    entry_offset(e, "pos", p->pos);
    entry_offset(e, "filled", p->filled);
    entry_offset(e, "before", p->before);
    entry_offset(e, "loss", p->loss);
    entry_offset(e, "norm", p->norm);
    entry_offset(e, "logits", p->logits);
    fprintf(e->out, ",\n        .predicted_ms = %.6g, .flops = %.9g", p->seconds * 1e3, p->flops);
    if (e->m->inputs.n)
        emit_inputs(e, p);
    if (p->totals.n)
        emit_totals(e, p);
    if (p->nplaces)
        fprintf(e->out, ",\n        .nplaces = %d, .place = {", p->nplaces);
    for (int i = 0; i < p->nplaces; i++)
        fprintf(e->out, "%s{%u, %s}", i ? ", " : "", p->place[i].axes,
                e->buffer[p->place[i].buffer]);
    fputs(p->nplaces ? "}},\n" : "},\n", e->out);
}

/* The optimizer's numbers that are not zero, and the schedule's. */
static const char *config_line(const Emitter *e)
{
    const Train *t = &e->m->train;
    const struct {
        const char *name;
        double value;
    } numbers[] = {
#define NUMBER(name) {#name, t->name},
#define FLAG(name)   {#name, t->name},
#include "ir/optimizers.def"
    };
    const char *opt = "", *between = "";
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value != 0) {
            opt =
                arena_printf(e->a, "%s%s%s = %g", opt, between, numbers[i].name, numbers[i].value);
            between = ", ";
        }
    return arena_printf(e->a,
                        "%s(%s), lr %s(peak = %g, warmup = %lld, steps = %lld, floor = %g), "
                        "clip %g, %s%s, microbatch %lld",
                        optimizer_names[t->optimizer], opt, schedule_names[t->schedule], t->peak,
                        (long long)t->warmup, (long long)t->steps, t->floor, t->clip,
                        dtype_name(t->half ? t->half : t->compute),
                        t->as_ready ? ", updated as ready" : "",
                        (long long)e->m->layout.microbatch);
}

static void named(const Emitter *e, const char *field, const char *text)
{
    fprintf(e->out, "    .%s = ", field);
    emit_string(e->out, text);
    fputs(",\n", e->out);
}

/* A text of several lines, one literal each. */
static void named_lines(const Emitter *e, const char *field, const char *text)
{
    fprintf(e->out, "    .%s =", field);
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n") + 1;
        fputs("\n        ", e->out);
        emit_string(e->out, arena_strndup(e->a, line, n));
        line += n;
    }
    fputs(",\n", e->out);
}

static bool add_axes(Axes *groups, int *n, Axes axes)
{
    for (int i = 0; i < *n; i++)
        if (groups[i] == axes)
            return true;
    if (*n == MG_GROUPS_MAX)
        return false;
    groups[(*n)++] = axes;
    return true;
}

/* The sets of axes along which ranks do something together, in the order in which they are met. */
static void emit_groups(const Emitter *e)
{
    const Program *all[] = {e->p->train, e->p->eval, e->p->sample};
    Axes groups[MG_GROUPS_MAX];
    int n = 0;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; all[k] && i < all[k]->actions.n; i++) {
            const Action *a = &all[k]->actions.data[i];
            if (action_sends(a))
                add_axes(groups, &n, a->comm.axes);
        }
    fprintf(e->out, "    .collectives = &mg_nccl,\n    .ngroups = %d,\n    .groups = {", n);
    for (int i = 0; i < n; i++)
        fprintf(e->out, "%s%u", i ? ", " : "", groups[i]);
    fputs(n ? "},\n" : "0},\n", e->out);
}

void emit_program(Emitter *e)
{
    static const char *const lr[LR_count] = {
        "MG_LR_CONSTANT",     "MG_LR_LINEAR", "MG_LR_COSINE",       "MG_LR_WSD",
        "MG_LR_INVERSE_SQRT", "MG_LR_WARMUP", "MG_LR_WARMUP_COSINE"};
    static const char *const shapes[DESCENT_count] = {"MG_SHAPE_LINEAR", "MG_SHAPE_COSINE",
                                                      "MG_SHAPE_SQRT"};
    const Plan *p = e->p;
    const Train *t = &e->m->train;
    FILE *out = e->out;
    fputs("const mg_program mg_main = {\n    .abi = MG_ABI,\n", out);
    named(e, "name", str(e, e->m->name));
    named(e, "source", e->m->source);
    named(e, "compiler", "mgc " MGC_VERSION);
    named(e, "layout", str(e, e->m->layout.name));
    fprintf(out, "    .fingerprint = 0x%016llxu,\n", (unsigned long long)fingerprint(e));
    named(e, "cpu_features", e->features);
    if (e->m->layout.mesh.n)
        fprintf(out, "    .naxes = %zu,\n    .axes = {", e->m->layout.mesh.n);
    for (size_t i = 0; i < e->m->layout.mesh.n; i++) {
        fputs(i ? ", {" : "{", out);
        emit_string(out, str(e, e->m->layout.mesh.data[i].name));
        fprintf(out, ", %lld}", (long long)e->m->layout.mesh.data[i].size);
    }
    fputs(e->m->layout.mesh.n ? "},\n" : "", out);
    if (e->m->layout.pipeline.axis)
        fprintf(out, "    .stages = {%u, %d, %lld, stage_layers},\n", e->m->layout.pipeline.axis,
                e->m->layout.pipeline.chunks, (long long)e->m->layout.pipeline.most);
    fprintf(out, "    .compute = %s,\n", emit_dtype(t->compute));
    if (t->half)
        fprintf(out, "    .half = %s,\n", emit_dtype(t->half));
    fprintf(out,
            "    .arena_bytes = %lld,\n    .persistent_bytes = %lld,\n"
            "    .scratch_bytes = %lld,\n",
            (long long)p->arena_bytes, (long long)p->persistent_bytes, (long long)p->scratch_bytes);
    fprintf(out, "    .batch = %lld,\n    .seq = %lld,\n    .vocab = %lld,\n",
            (long long)e->m->batch.size, (long long)e->m->seq.size, (long long)e->m->vocab);
    fprintf(out,
            "    .tensors = tensors,\n    .ntensors = %zu,\n    .actions = actions,\n"
            "    .nactions = %u,\n"
            "    .deaths = deaths,\n    .ndeaths = sizeof deaths / sizeof *deaths,\n",
            e->m->tensors.n, p->nactions);
    fprintf(out, "    .lr = {%s, ", lr[t->schedule]);
    emit_real(e, t->peak);
    fputs(", ", out);
    emit_real(e, t->floor);
    fprintf(out, ", %lld, %lld, %lld, %s, %s},\n", (long long)t->warmup, (long long)t->steps,
            (long long)t->last, shapes[t->descent], t->log ? "true" : "false");
    if (t->scale != 0) {
        fputs("    .scale = {", out);
        emit_real(e, t->scale);
        fputs(", ", out);
        emit_real(e, t->scale_least);
        fprintf(out, ", %lld, %lld},\n", (long long)t->scale_window,
                (long long)t->scale_hysteresis);
    }
    if (t->as_ready)
        fputs("    .as_ready = true,\n", out);
    named(e, "optimizer", optimizer_names[t->optimizer]);
    emit_entry(e, "step", p->train);
    emit_entry(e, "eval", p->eval);
    emit_entry(e, "sample", p->sample);
    named(e, "config", config_line(e));
    if (e->m->config)
        named_lines(e, "config_json", e->m->config);
    if (e->cuda)
        fprintf(out,
                "    .cuda_kernels = cuda_kernels,\n    .ncuda_kernels = %zu,\n"
                "    .cuda_image = mg_cuda_image,\n    .tf32 = %s,\n",
                p->kernels.n, t->tf32 ? "true" : "false");
    if (e->cuda && e->m->layout.mesh.n)
        emit_groups(e);
    fputs("};\n", out);
}
