/* emit_tables.c - the constant data of the emitted program: tensors, actions, mg_main. */
#include "codegen/emit/emit.h"
#include "ir/initial.h"
#include "ir/optimizers.h"
#include "plan/class.h"
#include "plan/outside.h"
#include "plan/saving.h"

#include <stdlib.h>
#include <string.h>

const char *emit_where(const Emitter *e, Span s)
{
    int line, column;
    char *text;
    size_t size;
    if (!s.file)
        return "\"\"";
    diag_locate(e->m->diag, s, &line, &column);
    const char *path = diag_path(e->m->diag, s.file);
    if (!strcmp(path, e->m->source))
        return arena_printf(e->a, "AT(%d)", line);
    FILE *out = open_memstream(&text, &size);
    emit_string(out, arena_printf(e->a, "%s:%d", path, line));
    fclose(out);
    const char *kept = arena_strdup(e->a, text);
    free(text);
    return kept;
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

/* The fields that a parameter and its optimizer state share, in the order of mg_tensor. */
static const char *shape_text(const Emitter *e, const Tensor *t)
{
    char *text;
    size_t size;
    Emitter aside = *e;
    FILE *out = aside.out = open_memstream(&text, &size);
    int64_t stored[MAX_RANK], axes[MAX_RANK], zigzag[MAX_RANK], split = 0, zigzags = 0;
    for (int k = 0; k < t->type.rank; k++) {
        stored[k] = t->type.dims[k].size;
        split |= axes[k] = t->axes[k];
        zigzags |= zigzag[k] = t->zigzag[k];
    }
    fputs(".name = ", out);
    emit_string(out, str(e, t->external));
    fprintf(out, ", .where = %s, .dtype = %s, RANKS(%d, %d, %d), ", emit_where(e, t->span),
            emit_dtype(t->type.dtype), t->type.rank, t->stacked, t->external_rank);
    if (!memcmp(stored, t->valid, (size_t)t->type.rank * sizeof *stored)) {
        fputs("SIZES(", out);
        for (int k = 0; k < t->type.rank; k++)
            fprintf(out, "%s%lld", k ? ", " : "", (long long)stored[k]);
        fputs(t->type.rank ? ")" : "0)", out);
    } else {
        fputs(".size = ", out);
        emit_sizes(&aside, stored, t->type.rank);
        fputs(", .valid = ", out);
        emit_sizes(&aside, t->valid, t->type.rank);
    }
    fputs(", .order = ", out);
    bytes(&aside, t->order, t->type.rank - t->stacked);
    fputs(", .merge = ", out);
    bytes(&aside, t->merge, t->external_rank);
    if (t->part_of)
        fprintf(out, ", .part_dim = %d, .part_at = %lld, .part_of = %lld", t->part_dim,
                (long long)t->part_at, (long long)t->part_of);
    if (split) {
        fputs(", .axes = ", out);
        emit_sizes(&aside, axes, t->type.rank);
    }
    if (zigzags) {
        fputs(", .zigzag = ", out);
        emit_sizes(&aside, zigzag, t->type.rank);
    }
    if (t->at && t->at != AT_ALL)
        fprintf(out, ", .at = %d", t->at);
    else
        fputs(", .at = MG_AT_ALL", out);
    fclose(out);
    const char *kept = arena_strdup(e->a, text);
    free(text);
    return kept;
}

static bool is_state(const Tensor *t)
{
    return t->slot && !tensor_is_rounded(t) && !t->follows;
}

/* It begins as what it follows. */
static void emit_follower(const Emitter *e, size_t i, const char *shape)
{
    const Tensor *t = &e->m->tensors.data[i];
    fprintf(e->out, "    FOLLOWS(%s, ", shape);
    emit_string(e->out, str(e, t->slot));
    fprintf(e->out, ", %s, ", t->slot ? "MG_STATE" : "MG_PARAM");
    emit_offset(e, (size_t)e->p->tensor_buffer.data[i]);
    fputs(", ", e->out);
    emit_string(e->out, str(e, e->m->tensors.data[t->follows - 1].external));
    fprintf(e->out, ", %d),\n", formula_is_one(str(e, t->beta)));
}

/* State begins with one number; copies are made when parameters are there. */
static void emit_tensor(const Emitter *e, size_t i, const char *shape)
{
    static const char *const inits[] = {"MG_INIT_CONST", "MG_INIT_NORMAL", "MG_INIT_UNIFORM"};
    const Tensor *t = &e->m->tensors.data[i];
    if (tensor_is_rounded(t)) {
        fprintf(e->out, "    ROUNDED(%s, ", shape);
        emit_offset(e, (size_t)e->p->tensor_buffer.data[i]);
        fputs("),\n", e->out);
        return;
    }
    if (t->follows) {
        emit_follower(e, i, shape);
        return;
    }
    if (t->formula) {
        fprintf(e->out, "    FORMULA(%s, ", shape);
        emit_offset(e, (size_t)e->p->tensor_buffer.data[i]);
        fprintf(e->out, ", mg_init_%zu),\n", i);
        return;
    }
    const bool adapter = t->adapter && !t->slot;
    if (t->base) {
        static const char *const parts[] = {"CODES", "ABSMAX", "SCALE", "OFFSET", "BYTES"};
        const Train *of = &e->m->train;
        fprintf(e->out, "    BASE(MG_BASE_%s, %s, %s, ", parts[t->base - 1],
                emit_dtype(of->half == DT_bf16 ? DT_bf16 : of->compute), shape);
    } else if (adapter) {
        static const char *const parts[] = {"A", "B", "MAGNITUDE", "WHOLE"};
        fprintf(e->out, "    ADAPTER(MG_ADAPTER_%s, %s, ", parts[t->adapter - 1],
                t->turned ? "true" : "false");
        emit_real(e, t->scale);
        fprintf(e->out, ", %s, ", shape);
    } else {
        fprintf(e->out, "    %s(%s, ", t->slot ? "STATE" : "PARAM", shape);
    }
    if (t->slot) {
        emit_string(e->out, str(e, t->slot));
        fputs(", ", e->out);
    }
    emit_offset(e, (size_t)e->p->tensor_buffer.data[i]);
    fprintf(e->out, ", %s, ", inits[t->init]);
    emit_real(e, t->a);
    fputs(", ", e->out);
    emit_real(e, t->b);
    fputs("),\n", e->out);
}

/* The number of tensors from i on that STATE_OF writes as the state of one parameter: all state
 * that the first parameter has, at places with corresponding names. 0: the tensors do not have this
 * form. */
static size_t alike(const Emitter *e, size_t i, const char *const *shape)
{
    const Tensor *t = e->m->tensors.data;
    const size_t n = e->m->tensors.n;
    size_t first = 0, k = 0;
    while (first < n && !is_state(&t[first]))
        first++;
    for (; first + k < n && t[first + k].parameter == t[first].parameter && is_state(&t[first + k]);
         k++) {
        if (i + k >= n || t[i + k].slot != t[first + k].slot ||
            t[i + k].parameter != t[i].parameter || shape[i + k] != shape[i] ||
            t[i + k].init != INIT_const || t[i + k].a != t[first + k].a || t[i + k].b != 0)
            return 0;
        const int b = e->p->tensor_buffer.data[i + k];
        if (e->step[b] || strcmp(e->buffer[b], arena_printf(e->a, "S_%s_%s", str(e, t[i + k].slot),
                                                            shape[i] + 3)))
            return 0;
    }
    return is_state(&t[i]) ? k : 0;
}

static void define_states(const Emitter *e)
{
    const char *comma = "";
    fputs("#define STATE_OF(p) ", e->out);
    const Tensor *first = NULL;
    for (size_t i = 0; i < e->m->tensors.n; i++) {
        const Tensor *t = &e->m->tensors.data[i];
        if (!is_state(t) || (first && t->parameter != first->parameter))
            continue;
        first = t;
        fprintf(e->out, "%sSTATE(OF_##p, \"%s\", S_%s_##p, MG_INIT_CONST, ", comma, str(e, t->slot),
                str(e, t->slot));
        emit_real(e, t->a);
        fputs(", 0)", e->out);
        comma = ", ";
    }
    fputs("\n", e->out);
}

/* A shape is a macro, because a parameter and its state share it. */
void emit_tensors(Emitter *e)
{
    const size_t n = e->m->tensors.n;
    const char **shape = NEW_ARRAY(e->a, const char *, n + 1);
    const char **name = NEW_ARRAY(e->a, const char *, n + 1);
    fputs("/* Tensors, as mg_tensor in abi.h says: parameters, optimizer state, rounded copies of "
          "parameters. */\n"
          "#define RANKS(all, layers, outside) .rank = all, .stacked = layers, .external_rank = "
          "outside\n"
          "#define SIZES(...) .size = {__VA_ARGS__}, .valid = {__VA_ARGS__}\n"
          "#define STATE(t, s, at, by, x, y) "
          "{t, .slot = s, .role = MG_STATE, .offset = at, .init = by, .a = x, .b = y}\n"
          "#define PARAM(t, at, by, x, y) "
          "{t, .slot = \"\", .role = MG_PARAM, .offset = at, .init = by, .a = x, .b = y}\n",
          e->out);
    if (e->p->round)
        fputs("#define ROUNDED(t, at) {t, .slot = \"rounded\", .role = MG_ROUNDED, .offset = at, "
              ".init = MG_INIT_CONST}\n",
              e->out);
    bool follows = false;
    for (size_t i = 0; i < n; i++)
        follows |= e->m->tensors.data[i].follows != 0;
    if (e->m->adapter)
        fputs("#define ADAPTER(part, t_, s, t, at, k, x, y) {t, .slot = \"\", .role = MG_PARAM, "
              ".offset = at, .init = k, .a = x, .b = y, .adapter = part, .turned = t_, .scale = "
              "s}\n",
              e->out);
    if (e->m->train.base)
        fputs("#define BASE(part, of, t, at, k, x, y) {t, .slot = \"\", .role = MG_PARAM, "
              ".offset = at, .init = k, .a = x, .b = y, .coded = part, .wide = of}\n",
              e->out);
    if (follows)
        fputs(
            "#define FOLLOWS(t, s, kind, at, of, stays) {t, .slot = s, .role = kind, .offset = at, "
            ".init = MG_INIT_CONST, .begins = of, .fixed = stays}\n",
            e->out);
    for (size_t i = 0; i < n; i++) {
        const Tensor *t = &e->m->tensors.data[i];
        shape[i] = shape_text(e, t);
        for (size_t k = 0; k < i && !name[i]; k++)
            if (!strcmp(shape[k], shape[i]))
                name[i] = name[k];
        if (name[i])
            continue;
        name[i] = cname(&e->names, "OF_", emit_short_name(e, str(e, t->name)));
        fprintf(e->out, "#define %s %s\n", name[i], shape[i]);
    }
    define_states(e);
    emit_initial(e);
    fputs("static const mg_tensor tensors[] = {\n", e->out);
    for (size_t i = 0; i < n; i++) {
        const size_t states = alike(e, i, name);
        if (states) {
            fprintf(e->out, "    STATE_OF(%s),\n", name[i] + 3);
            i += states - 1;
        } else {
            emit_tensor(e, i, name[i]);
        }
    }
    if (!n)
        fputs("    {0},\n", e->out);
    fputs("};\n\n", e->out);
}

/* ---- actions --------------------------------------------------------------------------------- */

/* The outputs of a generated kernel, by its pointers. */
static int float_outputs(const Action *a, int *out)
{
    const bool generated = a->kind == ACT_kernel || a->epilogue;
    int n = 0;
    for (int i = a->epilogue; i < a->noperands && generated && n < 6; i++)
        if (a->operand[i].write && dtype_is_float(a->operand[i].type.dtype))
            out[n++] = i - a->epilogue;
    return n;
}

/* Consecutive outputs of one type and size are written as one entry. */
static void emit_outputs(const Emitter *e, const Action *a, const int *written, int n)
{
    fprintf(e->out, ", %d", n);
    for (int i = 0, run; i < n; i += run) {
        const Type *t = &a->operand[a->epilogue + written[i]].type;
        for (run = 1; i + run < n && run < 3; run++) {
            const Type *next = &a->operand[a->epilogue + written[i + run]].type;
            if (written[i + run] != written[i] + run || next->dtype != t->dtype ||
                type_elements(next) != type_elements(t))
                break;
        }
        fprintf(e->out, ", OUT%.0d(%s, %d, %lld)", run > 1 ? run : 0, emit_dtype(t->dtype) + 3,
                written[i], (long long)type_elements(t));
    }
}

static void emit_action(Emitter *e, const Action *a)
{
    FILE *out = e->out;
    int written[6], n = float_outputs(a, written);
    const bool kernel = n && a->kind == ACT_kernel;
    fprintf(out, "    [%u] = %s(", a->id, kernel ? "KERNEL" : n ? "WRITES" : "ACTION");
    emit_string(out, str(e, a->name));
    if (!kernel) {
        fputs(", ", out);
        emit_string(out, action_info[a->kind].name);
    }
    fprintf(out, ", %s, %s, %s, %s", emit_where(e, a->span), short_real(e->a, a->seconds * 1e6, 4),
            short_real(e->a, a->flops, 6), short_real(e->a, a->bytes_moved, 6));
    if (n)
        emit_outputs(e, a, written, n);
    fputs("),\n", out);
}

void emit_actions(Emitter *e)
{
    Program *const *const programs = e->p->programs;
    const Action **by_id = NEW_ARRAY(e->a, const Action *, e->p->nactions + 1);
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; programs[k] && i < programs[k]->actions.n; i++)
            if (programs[k]->actions.data[i].id < e->p->nactions)
                by_id[programs[k]->actions.data[i].id] = &programs[k]->actions.data[i];
    fputs(
        "/* Actions, for traces and messages: name, kind, source, predicted us, FLOPs, bytes; of "
        "a\n"
        " * kernel or an epilogue the floating outputs: how many, and of each which pointer, how "
        "many elements. */\n"
        "#define OUT(t, i, n) {i, MG_##t, n}\n#define OUT2(t, i, n) OUT(t, i, n), OUT(t, i + 1, "
        "n)\n"
        "#define OUT3(t, i, n) OUT2(t, i, n), OUT(t, i + 2, n)\n"
        "#define ACTION(n, k, w, us, f, b) {.name = n, .kind = k, .where = w, .predicted_us = us, "
        ".flops = f, .bytes = b}\n"
        "#define WRITES(n, k, at, us, f, b, outs, ...) {.name = n, .kind = k, .where = at, "
        ".predicted_us = us, .flops = f, .bytes = b, .nout = outs, .out = {__VA_ARGS__}}\n",
        e->out);
    fprintf(e->out,
            "#define KERNEL(n, ...) WRITES(n, \"%s\", __VA_ARGS__)\n"
            "static const mg_action actions[] = {\n",
            action_info[ACT_kernel].name);
    for (uint32_t i = 0; i < e->p->nactions; i++)
        if (by_id[i])
            emit_action(e, by_id[i]);
    if (!e->p->nactions)
        fputs("    {0},\n", e->out);
    fputs("};\n\n", e->out);
}

static void emit_classes(const Emitter *e)
{
    const char **text = plan_classes(e->p, e->a);
    fputs("/* Classes of actions, by which --trace compares their times. */\n"
          "static const char *const classes[] = {\n",
          e->out);
    for (uint32_t i = 0; i < e->p->nactions; i++)
        if (text[i])
            fprintf(e->out, "    [%u] = \"%s\",\n", i, text[i]);
    fprintf(e->out, "    [%u] = NULL,\n};\n\n", e->p->nactions);
}

/* ---- mg_main --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u; /* FNV-1a */
    return h;
}

/* A checkpoint depends on external names, shapes and types of all tensors that it has, and on the
 * optimizer. */
static uint64_t fingerprint(const Emitter *e)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < e->m->tensors.n; i++) {
        const Tensor *t = &e->m->tensors.data[i];
        const char *name = str(e, t->external), *slot = str(e, t->slot);
        if (tensor_is_rounded(t))
            continue;
        h = mix(h, name, strlen(name) + 1);
        h = mix(h, slot, strlen(slot) + 1);
        h = mix(h, &t->type.dtype, sizeof t->type.dtype);
        h = mix(h, t->valid, (size_t)t->type.rank * sizeof *t->valid);
        h = mix(h, t->order, (size_t)(t->type.rank - t->stacked));
        h = mix(h, t->merge, (size_t)t->external_rank);
        if (t->part_of)
            h = mix(h, (int64_t[]){t->part_dim, t->part_at, t->part_of}, 3 * sizeof t->part_at);
    }
    for (int k = 0; k < e->m->train.goals; k++) {
        const char *name = e->m->train.goal[k].optimizer->name;
        h = mix(h, name, strlen(name) + 1);
    }
    return h;
}

/* The nonzero numbers of the optimizer, and those of the schedule. */
static const char *goal_line(const Emitter *e, const Goal *t)
{
    const char *opt = "", *between = "";
    for (int i = 0; i < NUMBER_own + OWN_MAX; i++) {
        const char *name = i == ALWAYS ? NULL : optimizer_number_name(t->optimizer, i);
        if (name && train_number_of(t, i) != 0) {
            opt = arena_printf(e->a, "%s%s%s = %g", opt, between, name, train_number_of(t, i));
            between = ", ";
        }
    }
    return arena_printf(
        e->a, "%s(%s), lr %s(peak = %g, warmup = %lld, steps = %lld, floor = %g), clip %g",
        t->optimizer->name, opt, schedule_names[t->schedule], t->peak, (long long)t->warmup,
        (long long)t->steps, t->floor, t->clip);
}

static const char *config_line(const Emitter *e)
{
    const Train *t = &e->m->train;
    const char *goals = goal_line(e, &t->goal[0]);
    for (int k = 1; k < t->goals; k++)
        goals = arena_printf(e->a, "%s, %s by %s", goals, str(e, t->goal[k].loss),
                             goal_line(e, &t->goal[k]));
    return arena_printf(e->a, "%s, %s%s, microbatch %lld", goals,
                        t->fp8 ? precision_name(t) : dtype_name(t->half ? t->half : t->compute),
                        t->as_ready ? ", updated as ready" : "",
                        (long long)e->m->layout.microbatch);
}

static void named(const Emitter *e, const char *field, const char *text)
{
    enum { PIECE = 90 };
    fprintf(e->out, "    .%s = ", field);
    do {
        size_t n = strnlen(text, PIECE);
        emit_string(e->out, arena_strndup(e->a, text, n));
        text += n;
        fputs(*text ? " " : "", e->out);
    } while (*text);
    fputs(",\n", e->out);
}

/* A text of several lines, with one literal for each line. */
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

/* An initializer of mg_lr. */
static void emit_schedule(const Emitter *e, const Goal *t)
{
    static const char *const lr[LR_count] = {
        "MG_LR_CONSTANT",     "MG_LR_LINEAR", "MG_LR_COSINE",       "MG_LR_WSD",
        "MG_LR_INVERSE_SQRT", "MG_LR_WARMUP", "MG_LR_WARMUP_COSINE"};
    static const char *const shapes[DESCENT_count] = {"MG_SHAPE_LINEAR", "MG_SHAPE_COSINE",
                                                      "MG_SHAPE_SQRT"};
    fprintf(e->out, "{%s, ", lr[t->schedule]);
    emit_real(e, t->peak);
    fputs(", ", e->out);
    emit_real(e, t->floor);
    fprintf(e->out, ", %lld, %lld, %lld, %s, %s}", (long long)t->warmup, (long long)t->steps,
            (long long)t->last, shapes[t->descent], t->log ? "true" : "false");
}

/* The losses beside the first. */
static void emit_goals(const Emitter *e)
{
    const Train *t = &e->m->train;
    const Program *p = e->p->train;
    for (int k = 1; k < t->goals; k++) {
        fputs(k > 1 ? ",\n        {" : "    .goals = (const mg_goal[]){\n        {", e->out);
        emit_string(e->out, str(e, t->goal[k].loss));
        fprintf(e->out, ", \"%s\", ", t->goal[k].optimizer->name);
        emit_schedule(e, &t->goal[k]);
        fputs(", ", e->out);
        emit_offset(e, (size_t)p->lr[k]);
        fputs(", ", e->out);
        emit_offset(e, (size_t)p->loss[k]);
        fputs(", ", e->out);
        emit_offset(e, (size_t)p->norm[k]);
        fputs("}", e->out);
    }
    if (t->goals > 1)
        fprintf(e->out, "},\n    .ngoals = %d,\n", t->goals - 1);
}

void emit_program(Emitter *e)
{
    const Plan *p = e->p;
    const Train *t = &e->m->train;
    FILE *out = e->out;
    if (e->cuda) {
        emit_outside(e);
        emit_classes(e);
    }
    const bool alike = emit_alike(e), held = emit_held(e);
    fputs("const mg_program mg_main = {\n    .abi = MG_ABI, .runtime = &MG_ABI_OBJECT,\n", out);
    named(e, "name", str(e, e->m->name));
    named(e, "source", e->m->source);
    fputs("    .compiler = \"mgc " MGC_VERSION "\", .layout = ", out);
    emit_string(out, str(e, e->m->layout.name));
    fputs(",\n", out);
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
                e->m->layout.pipeline.chunks, (long long)e->m->layout.pipeline.max_layers);
    fprintf(out, "    .compute = %s, ", emit_dtype(t->compute));
    if (t->half)
        fprintf(out, ".half = %s, ", emit_dtype(t->half));
    if (t->fp8)
        fprintf(out, ".fp8 = %s, .fp8_gradients = %s, ", emit_dtype(t->fp8),
                emit_dtype(t->fp8_gradients));
    if (t->fp8_products && t->fp8_scales != SCALES_tensor)
        fprintf(out, ".fp8_tiles = MG_TILES_%s, ", t->fp8_scales == SCALES_mx ? "MX" : "ROWS");
    fprintf(out, ".arena_bytes = %lld, .persistent_bytes = %lld, .scratch_bytes = %lld,\n",
            (long long)p->arena_bytes, (long long)p->persistent_bytes, (long long)p->scratch_bytes);
    if (p->level_bytes[LEVEL_host] || p->level_bytes[LEVEL_disk])
        fprintf(out, "    .level_bytes = {0, %lld, %lld},\n", (long long)p->level_bytes[LEVEL_host],
                (long long)p->level_bytes[LEVEL_disk]);
    const Saving s = plan_saving(p);
    if (p->train)
        fprintf(out, "    .saving = {%.9g, %.9g, %s},\n", s.copy, s.write,
                s.guessed ? "true" : "false");
    fprintf(out, "    .batch = %lld, .seq = %lld, .vocab = %lld,\n", (long long)e->m->batch.size,
            (long long)e->m->seq.size, (long long)e->m->vocab);
    fprintf(out,
            "    .tensors = tensors, .ntensors = %zu, .actions = actions, .nactions = %u,\n"
            "    .deaths = deaths, .ndeaths = sizeof deaths / sizeof *deaths,\n",
            e->m->tensors.n, p->nactions);
    if (alike)
        fputs("    .alike = alike, .nalike = sizeof alike / sizeof *alike,\n", out);
    if (held)
        fputs("    .held = held, .nheld = sizeof held / sizeof *held,\n", out);
    fputs("    .lr = ", out);
    emit_schedule(e, &t->goal[0]);
    fprintf(out, ", .optimizer = \"%s\",\n", t->goal[0].optimizer->name);
    emit_goals(e);
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
    emit_entry(e, "step", p->train, outside_nodes(p, 0));
    emit_entry(e, "eval", p->eval, outside_nodes(p, 1));
    emit_entry(e, "sample", p->sample, outside_nodes(p, 2));
    emit_entry(e, "round", p->round, outside_nodes(p, 3));
    if (p->prefill && p->decode)
        emit_generation(e);
    if (p->sample || p->prefill)
        fputs("    .speech = &mg_speech,\n", out);
    named(e, "config", config_line(e));
    if (e->m->config)
        named_lines(e, "config_json", e->m->config);
    if (e->m->adapter)
        named_lines(e, "adapter_json", e->m->adapter);
    if (e->cuda)
        fprintf(out,
                "    .cuda_kernels = cuda_kernels,\n    .ncuda_kernels = %zu,\n"
                "    .cuda_image = mg_cuda_image,\n    .tf32 = %s,\n"
                "    .outside = outside, .noutside = sizeof outside / sizeof *outside,\n"
                "    .classes = classes,\n",
                p->kernels.n - plan_host_kernels(p), t->tf32 ? "true" : "false");
    if (e->cuda && e->m->layout.mesh.n)
        emit_groups(e);
    emit_network(e);
    fputs("};\n", out);
}
