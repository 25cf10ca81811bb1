/* text_print_header.c - the part of a module's text before its functions: the model, how it is
 * trained, the layout, inputs, metrics and tensors. text_header.c reads it. */
#include "ir/optimizers.h"
#include "ir/text.h"

static void print_text(const char *word, const char *text, FILE *out)
{
    fprintf(out, "%s ", word);
    text_put_string(out, text);
}

static void print_tensor(const Module *m, const Tensor *t, FILE *out)
{
    static const char *const inits[] = {"const", "normal", "uniform", "formula"};
    print_text("tensor", name_str(m->names, t->name), out);
    fputc(' ', out);
    Type shown = t->type;
    for (int i = 0; i < shown.rank; i++)
        shown.dims[i].axes |= t->axes[i], shown.dims[i].zigzag |= t->zigzag[i];
    text_print_type(m, &shown, out);
    print_text(" external", name_str(m->names, t->external), out);
    print_text(" slot", name_str(m->names, t->slot), out);
    fprintf(out, " of %u stacked %d ", t->parameter, t->stacked);
    if (t->numbered)
        fprintf(out, "numbered %d ", t->numbered);
    fputs("valid [", out);
    for (int i = 0; i < t->type.rank; i++)
        fprintf(out, "%s%lld", i ? ", " : "", (long long)t->valid[i]);
    fputs("] order [", out);
    for (int i = 0; i < t->type.rank - t->stacked; i++)
        fprintf(out, "%s%d", i ? ", " : "", t->order[i]);
    fputs("] merge [", out);
    for (int i = 0; i < t->external_rank; i++)
        fprintf(out, "%s%d", i ? ", " : "", t->merge[i]);
    if (t->part_of)
        fprintf(out, "] part %d at %lld of %lld init %s ", t->part_dim, (long long)t->part_at,
                (long long)t->part_of, inits[t->init]);
    else
        fprintf(out, "] init %s ", inits[t->init]);
    if (t->formula)
        text_put_string(out, name_str(m->names, t->formula));
    else
        text_put_real(out, t->a), fputc(' ', out), text_put_real(out, t->b);
    fputs(" decay ", out);
    text_put_real(out, t->decay);
    fputs(" rate ", out);
    text_put_real(out, t->rate);
    if (t->goal)
        fprintf(out, " goal %d", t->goal);
    if (t->follows) {
        fprintf(out, " follows %u every %lld beta ", t->follows - 1, (long long)t->every);
        text_put_string(out, name_str(m->names, t->beta));
    }
    fputs(t->absmax ? " absmax" : "", out);
    if (t->adapter)
        fprintf(out, " adapter %d %d %.17g", t->adapter, t->turned, t->scale);
    fputs(t->frozen ? " frozen" : "", out);
    if (t->base)
        fprintf(out, " base %d", t->base);
    fputs(t->master ? " master" : "", out);
    fputs(t->ahead ? " ahead" : "", out);
    for (int k = 0; k < 3 && t->at; k++)
        fprintf(out, "%s%s%s", k ? "" : " at", t->at >> k & 1 ? " " : "",
                t->at >> k & 1 ? stage_names[k] : "");
    text_print_place(m, t->span, out);
    fputc('\n', out);
}

static void print_pipeline(const Module *m, FILE *out)
{
    const Pipeline *p = &m->layout.pipeline;
    if (!p->axis)
        return;
    fputs("pipeline ", out);
    text_put_name(out, name_str(m->names, p->dim));
    fputs(" on ", out);
    text_print_axes(m, p->axis, out);
    print_text(" schedule", name_str(m->names, p->schedule), out);
    if (p->table)
        print_text(" table", p->table, out);
    fprintf(out, " chunks %d group %d", p->chunks, p->group);
    if (p->pairs)
        fputs(p->pairs == PAIRS_all ? " pairs all" : " pairs none", out);
    for (size_t s = 0; s < p->layers.n; s++)
        fprintf(out, "%s%lld",
                s               ? ", "
                : p->max_layers ? " layers ["
                                : " stages [",
                (long long)p->layers.data[s]);
    fputs(p->layers.n ? "]" : "", out);
    text_print_place(m, p->span, out);
    fputc('\n', out);
}

static void print_mesh(const Module *m, FILE *out)
{
    const Layout *l = &m->layout;
    for (size_t i = 0; i < l->mesh.n; i++) {
        fprintf(out, "axis %s %lld%s", name_str(m->names, l->mesh.data[i].name),
                (long long)l->mesh.data[i].size, l->mesh.data[i].apart ? " apart" : "");
        text_print_place(m, l->mesh.data[i].span, out);
        fputc('\n', out);
    }
    for (size_t i = 0; i < l->rules.n; i++) {
        const LayoutRule *r = &l->rules.data[i];
        fputs(r->of ? "rule class " : "rule ", out);
        text_put_name(out, r->of ? class_names[r->of] : name_str(m->names, r->dim));
        for (int k = 0; k < r->n; k++)
            fprintf(out, " on %s%s%s%s%s%s%s", name_str(m->names, l->mesh.data[r->axis[k]].name),
                    r->zigzag >> r->axis[k] & 1 ? " zigzag" : "",
                    r->heads >> r->axis[k] & 1 ? " heads" : "",
                    r->ring >> r->axis[k] & 1 ? " ring" : "",
                    r->rows >> r->axis[k] & 1 ? " rows" : "",
                    r->gather >> r->axis[k] & 1 ? " gather" : "",
                    r->once >> r->axis[k] & 1 ? " once" : "");
        if (r->bound > 0) {
            fputs(" bound ", out);
            text_put_real(out, r->bound);
        }
        if (r->blocks)
            fprintf(out, " blocks %lld", (long long)r->blocks);
        text_print_place(m, r->span, out);
        fputc('\n', out);
    }
    print_pipeline(m, out);
    if (m->local)
        fputs("local\n", out);
}

static void print_setting(const char *name, double value, FILE *out)
{
    fprintf(out, " %s ", name);
    text_put_real(out, value);
}

static void print_goal(const Module *m, const Goal *t, FILE *out)
{
    if (optimizer_find(t->optimizer->name))
        fprintf(out, " %s", t->optimizer->name);
    else
        print_text(" declared", t->optimizer->name, out);
    for (int i = 0; i < OWN_MAX && t->optimizer->own[i].name; i++) {
        print_text(" own", t->optimizer->own[i].name, out);
        fputc(' ', out);
        text_put_real(out, t->own[i]);
    }
#define NUMBER(name, ...) print_setting(#name, t->name, out);
#include "ir/optimizers.def"
    print_setting("clip", t->clip, out);
    print_setting("peak", t->peak, out);
    print_setting("floor", t->floor, out);
#define FLAG(name) fputs(t->name != 0 ? " " #name : "", out);
#include "ir/optimizers.def"
    fprintf(out, " lr %s warmup %lld steps %lld last %lld %s%s", schedule_names[t->schedule],
            (long long)t->warmup, (long long)t->steps, (long long)t->last,
            descent_names[t->descent], t->log ? " log" : "");
    if (t->average) {
        fputs(" average ", out);
        text_put_string(out, name_str(m->names, t->average));
    }
    if (t->state)
        fprintf(out, " state %s%s", dtype_name(t->state), t->nearest ? " nearest" : "");
    if (dtype_is_dynamic(t->state))
        fprintf(out, " least %lld", (long long)t->state_least);
}

/* Nothing, where nobody said anything. */
static void print_offload(const Layout *l, FILE *out)
{
    bool any = false;
    if (l->offloads == OFFLOADS_auto)
        fputs(" offload_auto", out);
    for (int k = 0; k < OFFLOAD_count; k++) {
        if (l->offload[k])
            fprintf(out, " offload %s %s", offload_names[k], level_names[l->offload[k]]);
        any |= l->offload[k] != LEVEL_device;
    }
    if (l->offloads == OFFLOADS_as_given && !any)
        fputs(" offload_none", out);
    if (l->optimizer)
        fprintf(out, " optimizer %s", optimizer_at_names[l->optimizer]);
}

static void print_assert(const Module *m, const char *name, double limit, Span at, FILE *out)
{
    if (limit == 0)
        return;
    print_setting(name, limit, out);
    text_print_place(m, at, out);
}

void text_print_header(const Module *m, FILE *out)
{
    const Train *t = &m->train;
    print_text("mgir 1\nmodel", name_str(m->names, m->name), out);
    print_text(" source", m->source ? m->source : "", out);
    fputs("\nbatch ", out);
    text_print_dim(m, m->batch, out);
    fputs(" seq ", out);
    text_print_dim(m, m->seq, out);
    fprintf(out, " vocab %lld\ntrain", (long long)m->vocab);
    print_goal(m, &t->goal[0], out);
    fprintf(out, " compute %s%s%s%s", dtype_name(t->compute), t->tf32 ? " tf32" : "",
            t->tree ? " tree" : "", t->as_ready ? " as_ready" : "");
    if (t->half)
        fprintf(out, " half %s", dtype_name(t->half));
    if (t->fp8)
        fprintf(out, " fp8 %s %s", dtype_name(t->fp8), dtype_name(t->fp8_gradients));
    if (t->fp8_scales != SCALES_tensor)
        fprintf(out, " %s", scales_names[t->fp8_scales]);
    if (t->fp8_products)
        fputs(" products", out);
    if (t->master)
        fprintf(out, " master %s", dtype_name(t->master));
    if (t->base)
        fprintf(out, " base %s", base_names[t->base]);
    if (t->sums)
        fprintf(out, " sums %s%s", dtype_name(t->sums), t->sums_nearest ? " nearest" : "");
    if (t->wide_partials)
        fputs(" wide_partials", out);
    if (t->scale != 0) {
        print_setting("scale", t->scale, out);
        print_setting("least", t->scale_least, out);
        fprintf(out, " window %lld hysteresis %lld", (long long)t->scale_window,
                (long long)t->scale_hysteresis);
    }
    if (t->rollout.size) {
        fprintf(out, " rollout %lld tokens %lld updates %lld texts %lld %s",
                (long long)t->rollout.size, (long long)t->rollout.tokens,
                (long long)t->rollout.updates, (long long)t->rollout.texts,
                reward_scale_names[t->rollout.scale]);
        print_setting("temperature", t->rollout.temperature, out);
    }
    for (int i = 1; i < t->goals; i++) {
        print_text("\ngoal", name_str(m->names, t->goal[i].loss), out);
        print_goal(m, &t->goal[i], out);
    }
    print_text("\nlayout", name_str(m->names, m->layout.name), out);
    print_text(" device", name_str(m->names, m->layout.device), out);
    fprintf(out, " microbatch %lld recompute %s", (long long)m->layout.microbatch,
            recompute_names[m->layout.recompute]);
    for (size_t i = 0; i < m->layout.keep.n; i++) {
        fputc(' ', out);
        text_put_string(out, name_str(m->names, m->layout.keep.data[i].name));
    }
    if (m->layout.chunk)
        fprintf(out, " chunk %lld", (long long)m->layout.chunk);
    for (int k = 0; k < 2; k++)
        if (m->layout.pieces[k].n)
            fprintf(out, " %s %lld%s", k ? "back" : "pieces", (long long)m->layout.pieces[k].n,
                    m->layout.pieces[k].turns ? " turns" : "");
    fputs(m->layout.once ? " once" : "", out);
    fputs(m->layout.overlap ? " overlap" : "", out);
    fputs(m->layout.one_line ? " one_line" : "", out);
    if (m->layout.send_flops > 0)
        print_setting("send_flops", m->layout.send_flops, out);
    print_offload(&m->layout, out);
    print_setting("assert_peak", m->layout.assert_peak, out);
    text_print_place(m, m->layout.assert_span, out);
    print_assert(m, "assert_step", m->layout.assert_step, m->layout.assert_step_span, out);
    print_assert(m, "assert_exposed", m->layout.assert_exposed, m->layout.assert_exposed_span, out);
    print_assert(m, "assert_host", m->layout.assert_level[LEVEL_host],
                 m->layout.assert_level_span[LEVEL_host], out);
    print_assert(m, "assert_disk", m->layout.assert_level[LEVEL_disk],
                 m->layout.assert_level_span[LEVEL_disk], out);
    fputc('\n', out);
    print_mesh(m, out);
    for (size_t i = 0; i < m->inputs.n; i++) {
        print_text("input", name_str(m->names, m->inputs.data[i].name), out);
        fprintf(out, " limit %lld\n", (long long)m->inputs.data[i].limit);
    }
    for (size_t i = 0; i < m->metrics.n; i++) {
        print_text("metric", name_str(m->names, m->metrics.data[i]), out);
        fputc('\n', out);
    }
    if (m->config) {
        print_text("config", m->config, out);
        fputc('\n', out);
    }
    if (m->adapter) {
        print_text("adapter", m->adapter, out);
        fputc('\n', out);
    }
    for (size_t i = 0; i < m->tensors.n; i++)
        print_tensor(m, &m->tensors.data[i], out);
}
