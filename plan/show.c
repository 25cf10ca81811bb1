/* show.c - the plan for people (--plan), for programs (--plan=json), and the schedule as text. */
#include "plan/plan.h"

#include "base/quantity.h"

#include "plan/volume.h"
#include "plan/whole.h"
#include "plan/asserts.h"
#include "plan/copies.h"
#include "plan/levels.h"
#include "plan/outside.h"
#include "plan/place/place.h"
#include "plan/saving.h"
#include "plan/show.h"
#include "runtime/sizes.h"

#include <jansson.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

static const char *const owners[OWN_count] = {
    [OWN_params] = "params",       [OWN_grads] = "grads",
    [OWN_optimizer] = "optimizer", [OWN_activations] = "activations",
    [OWN_comm] = "comm",           [OWN_workspace] = "workspace",
    [OWN_cache] = "caches",        [OWN_io] = "io"};

const char *plan_owner(Owner o)
{
    return owners[o];
}

/* Share of the device's peak that the step's arithmetic makes of its predicted time. */
static double mfu(const Plan *p)
{
    double peak = peak_flops(p->device, &p->module->train);
    return p->train->seconds > 0 ? p->train->flops / p->train->seconds / peak : 0;
}

/* The actions that take most of a step, loops multiplied out. */
static void print_biggest(const Plan *p, FILE *out)
{
    enum { BIGGEST = 8 };
    Costly top[BIGGEST];
    int n = plan_costliest(p->train, top, BIGGEST);
    fputs("biggest actions\n", out);
    for (int k = 0; k < n; k++) {
        int line = 0, column;
        diag_locate(p->module->diag, top[k].a->span, &line, &column);
        fprintf(out, "  %-34s %-18s line %-4d %5.0f x %9.2f us %5.1f%%\n",
                name_str(p->module->names, top[k].a->name), action_info[top[k].a->kind].name, line,
                top[k].times, top[k].a->seconds * 1e6, 100 * top[k].seconds / p->train->seconds);
    }
}

/* The values that the backward pass keeps, by ranges of iterations where those were chosen. */
static void print_recompute(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    const KeepPlan *kept = m->layout.plan;
    fprintf(out, "recompute    %s; %s a step for what is computed again\n",
            recompute_names[m->layout.recompute],
            p->train->again > 0 ? text_seconds(m->arena, p->train->again) : "nothing");
    for (size_t l = 0; kept && l < kept->loops.n; l++) {
        int64_t at = 0;
        for (size_t r = 0; r < kept->loops.data[l].n; r++) {
            const KeepRange *range = &kept->loops.data[l].data[r];
            fprintf(out, "  %s %lld..%lld", name_str(m->names, kept->dims.data[l]), (long long)at,
                    (long long)(at + range->iterations - 1));
            if (range->segment > 1)
                fprintf(out, ", %lld at a time", (long long)range->segment);
            fprintf(out, " keep %s\n", range->says);
            at += range->iterations;
        }
    }
}

/* How the scans of the source go along their dims. */
static void print_scans(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    for (size_t k = 0; k < m->layout.scans.n; k++) {
        const ScanForm *s = &m->layout.scans.data[k];
        const char *dim = name_str(m->names, s->dim.name);
        int line = 0, column;
        diag_locate(m->diag, s->span, &line, &column);
        fprintf(out, "%-12s line %d, %lld of %s: ", k ? "" : "scans", line, (long long)s->dim.size,
                dim);
        if (s->chunk > 1)
            fprintf(out, "%lld chunks of %lld\n", (long long)(s->dim.size / s->chunk),
                    (long long)s->chunk);
        else
            fprintf(out, "one after the other%s%s\n", s->why ? ", for " : "", s->why ? s->why : "");
    }
}

static json_t *scans_json(const Plan *p)
{
    const Module *m = p->module;
    json_t *all = json_array();
    for (size_t k = 0; k < m->layout.scans.n; k++) {
        const ScanForm *s = &m->layout.scans.data[k];
        int line = 0, column;
        diag_locate(m->diag, s->span, &line, &column);
        json_array_append_new(all, json_pack("{s:i, s:s, s:I, s:I, s:s*}", "line", line, "dim",
                                             name_str(m->names, s->dim.name), "size",
                                             (json_int_t)s->dim.size, "chunk", (json_int_t)s->chunk,
                                             "why", s->why));
    }
    return all;
}

static json_t *recompute_json(const Plan *p)
{
    const Module *m = p->module;
    const KeepPlan *kept = m->layout.plan;
    json_t *ranges = json_array();
    for (size_t l = 0; kept && l < kept->loops.n; l++) {
        int64_t at = 0;
        for (size_t r = 0; r < kept->loops.data[l].n; r++) {
            const KeepRange *range = &kept->loops.data[l].data[r];
            json_array_append_new(
                ranges, json_pack("{s:s, s:I, s:I, s:I, s:s}", "repeat",
                                  name_str(m->names, kept->dims.data[l]), "first", (json_int_t)at,
                                  "iterations", (json_int_t)range->iterations, "segment",
                                  (json_int_t)range->segment, "keep", range->says));
            at += range->iterations;
        }
    }
    return json_pack("{s:s, s:f, s:o}", "policy", recompute_names[m->layout.recompute], "again_ms",
                     p->train->again * 1e3, "ranges", ranges);
}

static void print_volumes(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    Volumes all = plan_volumes(p->module, p->train);
    if (!all.n)
        return;
    fprintf(out,
            "communication of a step: a rank sends %s in %s, %s of it while nothing else runs; B: "
            "bytes of the whole tensor\n",
            text_bytes(m->arena, all.bytes), text_seconds(m->arena, all.seconds),
            all.exposed > 0 ? text_seconds(m->arena, all.exposed) : "none");
    for (int i = 0; i < all.n; i++) {
        const Volume *v = &all.of[i];
        fprintf(out, "  %-10s %-14s %6.0f times %12s %12s %12s  %s, n = %lld%s%s%s\n",
                mesh_axes_text(m, v->axes), volume_name(v), v->count,
                text_bytes(m->arena, v->bytes), text_seconds(m->arena, v->seconds),
                v->exposed > 0 ? text_seconds(m->arena, v->exposed) : "0", volume_formula(v),
                (long long)v->ranks, v->scalar ? ", numbers" : "", v->tree ? ", in a tree" : "",
                v->copies ? ", by copies" : "");
    }
    if (p->device->collectives == COLLECTIVES_unordered)
        fputs(
            "  sums are in the order that NCCL finds the fastest: two runs need not have the same "
            "bits\n",
            out);
}

/* The padding that mgc chose. */
static void print_padding(const Module *m, FILE *out)
{
    for (size_t k = 0; k < m->layout.padded.n; k++) {
        const Padded *p = &m->layout.padded.data[k];
        fprintf(out, "%s%s of %lld %s stored as %lld", k ? "             " : "padding      ",
                name_str(m->names, p->dim), (long long)p->valid, p->ranks ? "are" : "is",
                (long long)p->size);
        if (p->ranks)
            fprintf(out, ", %lld on each of %lld ranks: %.1f%% more of what has them\n",
                    (long long)(p->size / p->ranks), (long long)p->ranks,
                    100.0 * (double)(p->size - p->valid) / (double)p->valid);
        else
            fputs(": rows of whole words of 16 bytes, for a GPU\n", out);
    }
    if (m->layout.padded.n)
        fputs("             `pad none` in the layout changes it\n", out);
}

/* The parts of a step of all ranks: seconds and bytes by class. */
static void print_whole(const Plan *p, FILE *out)
{
    Arena *a = p->module->arena;
    const Whole w = plan_whole(p);
    fprintf(out, "  microbatch %s\n", whole_microbatches_text(&w, a));
    fprintf(
        out,
        "  the mesh   bubble %.1f%%; a rank that computes a tenth slower makes it %.1f%% longer",
        100 * w.bubble, 100 * w.slower / w.step);
    for (int i = 0; i < w.naxes; i++)
        fprintf(out, "%s %s %.1f%%", i ? "," : "; waits for",
                mesh_axes_text(p->module, w.along[i].axes), 100 * w.along[i].exposed / w.step);
    fputc('\n', out);
    if (w.most > 0)
        fprintf(out, "  stragglers %s\n", whole_stragglers_text(p, &w, a));
}

/* Exposed milliseconds by the axes along which ranks wait. */
static json_t *waits_json(const Plan *p, const Whole *w)
{
    json_t *o = json_object();
    for (int i = 0; i < w->naxes; i++)
        json_object_set_new(o, mesh_axes_text(p->module, w->along[i].axes),
                            json_real(w->along[i].exposed * 1e3));
    return o;
}

static json_t *microbatch_json(const Whole *w)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "microbatches", (json_int_t)w->microbatches,
                     "forward_ms", w->forward * 1e3, "backward_ms", w->backward * 1e3, "before_ms",
                     w->before * 1e3, "after_ms", w->after * 1e3);
}

static json_t *volumes_json(const Plan *p, const Volumes *all)
{
    json_t *list = json_array();
    for (int i = 0; i < all->n; i++) {
        const Volume *v = &all->of[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:I, s:I, s:b, s:b, s:b, s:f, s:f, s:s}", "axis",
                            mesh_axes_text(p->module, v->axes), "kind", volume_name(v), "ranks",
                            (int)v->ranks, "bytes", (json_int_t)llround(v->bytes), "count",
                            (json_int_t)v->count, "scalars", v->scalar, "tree", v->tree, "copies",
                            v->copies, "ms", v->seconds * 1e3, "exposed_ms", v->exposed * 1e3,
                            "formula", volume_formula(v)));
    }
    return list;
}

void plan_print_layout(const Plan *p, FILE *out)
{
    print_volumes(p, out);
    plan_print_tensors(p, out);
}

static json_t *splits_json(const Module *m, const Tensor *t)
{
    TensorSplit all[MAX_AXES];
    json_t *list = json_array();
    for (int i = 0, n = tensor_splits(m, t, all); i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s}", "dim", name_str(m->names, all[i].dim), "axis",
                            name_str(m->names, all[i].axis), "rule", split_rule(m, &all[i])));
    return list;
}

/* The part of each tensor that a rank has. */
static json_t *tensors_json(const Module *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        json_t *tensor = json_pack("{s:s, s:s, s:I, s:o}", "name", name_str(m->names, t->external),
                                   "slot", name_str(m->names, t->slot), "bytes",
                                   (json_int_t)type_bytes(&t->type), "split", splits_json(m, t));
        if (t->part_of)
            json_object_set_new(tensor, "at", json_integer(t->part_at));
        json_array_append_new(list, tensor);
    }
    return list;
}

/* Of a program's graphs, by place along the axis of stages: nodes before the guard, and after it.
 */
static json_t *nodes_json(const Outside *o, int number)
{
    json_t *list = json_array();
    for (int place = 0; o->nodes[number] && place < o->places; place++)
        json_array_append_new(list, json_pack("[I, I]", (json_int_t)o->nodes[number][place].before,
                                              (json_int_t)o->nodes[number][place].after));
    return list;
}

/* Bytes beside the arena by what takes them, and the nodes of graphs. */
static json_t *outside_json(const Plan *p)
{
    json_t *bytes = json_object();
    for (int i = 0; i < OUT_count; i++)
        if (p->outside.bytes[i])
            json_object_set_new(bytes, outside_name((OutsideItem)i),
                                json_integer(p->outside.bytes[i]));
    return json_pack("{s:I, s:o, s:{s:o, s:o, s:o, s:o}}", "bytes", (json_int_t)outside_bytes(p),
                     "items", bytes, "nodes", "step", nodes_json(&p->outside, 0), "eval",
                     nodes_json(&p->outside, 1), "sample", nodes_json(&p->outside, 2), "round",
                     nodes_json(&p->outside, 3));
}

static void print_levels(const Plan *p, FILE *out)
{
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++) {
        const char *text = plan_level_text(p, (Level)l);
        if (text)
            fprintf(out, "  %-12s %s\n", level_names[l], text);
    }
    if (plan_transfers_text(p))
        fprintf(out, "  transfers    %s\n", plan_transfers_text(p));
    if (plan_on_host_text(p))
        fprintf(out, "  optimizer    %s\n", plan_on_host_text(p));
    if (copies_text(p))
        fprintf(out, "  copies       %s\n", copies_text(p));
    fprintf(out, "  checkpoint   %s\n", plan_saving_text(p));
}

/* Types of the tensors that last from step to step. */
static json_t *kept_json(const Module *m)
{
    const Train *t = &m->train;
    json_t *o = json_object();
    const char *state = dtype_name(t->goal[0].state ? t->goal[0].state : t->compute);
    for (int i = 1; i < t->goals; i++) {
        const char *other = dtype_name(t->goal[i].state ? t->goal[i].state : t->compute);
        state = strstr(state, other) ? state : arena_printf(m->arena, "%s and %s", state, other);
    }
    json_object_set_new(o, "parameters",
                        json_string(dtype_name(t->master ? t->master : t->compute)));
    json_object_set_new(
        o, "sums of gradients",
        json_string(t->sums_nearest ? "bf16_nearest" : dtype_name(t->sums ? t->sums : t->compute)));
    json_object_set_new(o, "state", json_string(state));
    return o;
}

static void print_kept(const Module *m, FILE *out)
{
    json_t *o = kept_json(m), *value;
    const char *key, *text = "";
    bool other = false;
    json_object_foreach(o, key, value) {
        text = arena_printf(m->arena, "%s%s%s in %s", text, *text ? ", " : "", key,
                            json_string_value(value));
        other |= strcmp(json_string_value(value), dtype_name(m->train.compute)) != 0;
    }
    if (other)
        fprintf(out, "kept         %s\n", text);
    json_decref(o);
}

static void print_model(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    const int64_t ranks = mesh_ranks(m);
    fprintf(out, "model        %s, layout %s, device %s, %lld rank%s\n",
            name_str(m->names, m->name), name_str(m->names, m->layout.name), p->device->name,
            (long long)ranks, ranks > 1 ? "s" : "");
    if (p->device->measured)
        fprintf(out, "measured     %s\n", p->device->measured);
    fprintf(out, "precision    %s: %s\n", precision_name(&m->train), precision_reason(&m->train));
}

static void print_generation(const Plan *p, FILE *out)
{
    print_model(p, out);
    fprintf(out, "parameters   %lld\n", (long long)plan_parameters(p, false));
    plan_print_bytes(p, out);
    plan_print_generation(p, out);
}

void plan_print(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    double by_kind[ACT_count] = {0};
    if (!p->train) {
        print_generation(p, out);
        return;
    }
    print_model(p, out);
    print_kept(m, out);
    fprintf(out, "parameters   %lld\n", (long long)plan_parameters(p, false));
    plan_print_adapter(p, out);
    print_padding(m, out);
    fprintf(out, "step         %lld sequences of %lld, %lld at once; %.4g GFLOP\n",
            (long long)m->batch.size, (long long)m->seq.size, (long long)m->layout.microbatch,
            p->train->flops * 1e-9);
    fprintf(out, "predicted    %s, %s tokens/s, MFU %.1f%%\n",
            text_seconds(m->arena, p->train->seconds),
            text_rate(m->arena, (double)m->batch.size * (double)m->seq.size / p->train->seconds),
            100 * mfu(p));
    plan_print_rollout(p, out);
    print_whole(p, out);
    plan_print_bytes(p, out);
    print_levels(p, out);
    fprintf(out, "  live bound   %s, arena over it %.2f%%\n",
            text_bytes(m->arena, (double)p->live_bound_bytes),
            100 * ((double)p->arena_bytes / (double)p->live_bound_bytes - 1));
    print_scans(p, out);
    plan_print_pieces(p, out);
    plan_print_context(p, out);
    plan_print_experts(p, out);
    plan_print_stages(p, out);
    print_recompute(p, out);
    plan_seconds_by_kind(p->train, by_kind);
    fputs("step time by kind\n", out);
    for (int i = 0; i < ACT_count; i++)
        if (by_kind[i] > 0)
            fprintf(out, "  %-18s %8.3f ms %5.1f%%\n", action_info[i].name, by_kind[i] * 1e3,
                    100 * by_kind[i] / p->train->busy);
    print_biggest(p, out);
    plan_print_layout(p, out);
    fprintf(out, "kernels      %zu generated; %u actions in all programs\n", p->kernels.n,
            p->nactions);
}

static json_t *levels_json(const Plan *p)
{
    json_t *all = json_object();
    double exposed, seconds = plan_transfers(p->train, &exposed);
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++)
        if (p->level_bytes[l])
            json_object_set_new(all, level_names[l],
                                json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)p->level_bytes[l],
                                          "ranks", (json_int_t)levels_ranks(p->module, p->device),
                                          "capacity_bytes",
                                          (json_int_t)p->device->level[l].memory));
    if (seconds > 0) {
        json_object_set_new(all, "transfer_ms", json_real(seconds * 1e3));
        json_object_set_new(all, "exposed_ms", json_real(exposed * 1e3));
    }
    if (plan_host_kernels(p))
        json_object_set_new(all, "host_kernels_ms", json_real(plan_on_host(p->train) * 1e3));
    if (p->outside.piece)
        json_object_set_new(all, "copies",
                            json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)copies_bytes(p),
                                      "ranks", (json_int_t)levels_ranks(p->module, p->device),
                                      "piece", (json_int_t)p->outside.piece));
    return all;
}

json_t *plan_json(const Plan *p)
{
    const Module *m = p->module;
    json_t *memory = json_object(), *mesh = json_object();
    static const char *const axes[] = {"pp", "dp", "cp", "tp"};
    for (int i = 0; i < OWN_count; i++)
        json_object_set_new(memory, owners[i], json_integer(p->memory[i]));
    for (int i = 0; i < 4; i++)
        json_object_set_new(mesh, axes[i], json_integer(1));
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        json_object_set_new(mesh, name_str(m->names, m->layout.mesh.data[i].name),
                            json_integer(m->layout.mesh.data[i].size));
    const int64_t ranks = mesh_ranks(m);
    const Volumes all = plan_volumes(p->module, p->train);
    const Whole whole = plan_whole(p);
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:i, s:o, s:I, s:f, s:I, s:I, s:I, s:o, s:I, s:f, s:f, s:o, s:f, s:f, "
        "s:o, s:f, s:o, s:o, s:o, s:s, s:s, s:o}",
        "model", name_str(m->names, m->name), "layout", name_str(m->names, m->layout.name),
        "device", p->device->name, "ranks", (int)ranks, "mesh", mesh, "params",
        (json_int_t)plan_parameters(p, false), "flops_per_step", p->train->flops * (double)ranks,
        "arena_bytes", (json_int_t)p->arena_bytes, "live_bound_bytes",
        (json_int_t)p->live_bound_bytes, "scratch_bytes",
        (json_int_t)(p->scratch_bytes * p->device->threads), "memory", memory, "capacity_bytes",
        (json_int_t)p->device->memory, "step_ms", p->train->seconds * 1e3, "mfu", mfu(p),
        "recompute", recompute_json(p), "bubble", whole.bubble, "exposed_comm_ms",
        all.exposed * 1e3, "exposed_ms", waits_json(p, &whole), "slower_rank",
        whole.slower / whole.step, "parts", microbatch_json(&whole), "collectives",
        volumes_json(p, &all), "tensors", tensors_json(m), "precision", precision_name(&m->train),
        "precision_reason", precision_reason(&m->train), "outside", outside_json(p));
    plan_adapter_json(p, o);
    if (m->layout.scans.n)
        json_object_set_new(o, "scans", scans_json(p));
    if (mesh_ranks(m) > 1)
        json_object_set_new(o, "pieces", plan_pieces_json(m));
    if (whole.most > 0)
        json_object_set_new(o, "stragglers",
                            json_pack("{s:f, s:f, s:f}", "spread", p->device->rank_spread,
                                      "half_ms", whole.half * 1e3, "most_ms", whole.most * 1e3));
    plan_context_json(m, o);
    plan_experts_json(m, o);
    plan_stages_json(p, o);
    json_object_set_new(o, "kept", kept_json(m));
    json_object_set_new(o, "levels", levels_json(p));
    json_object_set_new(o, "checkpoint", plan_saving_json(p));
    return o;
}

/* Of the step, program 0. Persistent buffers live throughout. A name may occur twice, so its number
 * follows it. */
void plan_print_memory(const Plan *p, Level level, FILE *out)
{
    int end = (int)p->train->actions.n;
    fputs("id,lower,upper,size,offset\n", out);
    for (size_t i = 0; i < p->buffers.n; i++) {
        const Buffer *b = &p->buffers.data[i];
        if (!plan_has_buffer(b, level))
            continue;
        fprintf(out, "%s#%zu,%d,%d,%lld,%lld\n", name_str(p->module->names, b->name), i,
                b->persistent ? 0 : b->first, b->persistent ? end : b->last + 1,
                (long long)b->bytes, (long long)b->offset);
    }
}

/* ---- schedule -------------------------------------------------------------------------------- */

static void print_place(const Plan *p, const Program *prog, const Operand *o, FILE *out)
{
    const Buffer *b = &p->buffers.data[o->at.buffer];
    fprintf(out, " %s%s", o->write ? (o->read ? "+" : "=") : "",
            name_str(p->module->names, b->name));
    if (o->at.offset)
        fprintf(out, "+%lld", (long long)o->at.offset);
    for (int i = 0; i < o->at.nloops; i++)
        fprintf(out, "[%s*%lld]",
                name_str(p->module->names, prog->loops.data[o->at.loop[i].loop].dim.name),
                (long long)o->at.loop[i].stride);
}

static const char *phase_name(const Pipe *p, int action)
{
    static const char *const names[2][PIPE_PHASES] = {{"F", "B"}, {"F", "I", "W"}};
    int k = 0;
    while (p->begin[k] != action)
        k++;
    return names[p->phases == 3][k];
}

/* Stages that do an action, or, outside of a pipeline, ranks along its axis. */
static const char *stage_set_name(StageSet at)
{
    static const char *const names[AT_ALL + 1] = {[AT_FIRST] = "first",
                                                  [AT_MIDDLE] = "between",
                                                  [AT_LAST] = "last",
                                                  [AT_FIRST | AT_LAST] = "first, last",
                                                  [AT_FIRST | AT_MIDDLE] = "not last",
                                                  [AT_MIDDLE | AT_LAST] = "not first"};
    return names[at] ? names[at] : "";
}

/* A wait for what meets all streams says nothing: those begin there. */
static void print_wait(const Action *by, FILE *out)
{
    if (by->id != UINT32_MAX)
        fprintf(out, " | after %u", by->id);
}

static void print_program(const Plan *p, const Program *prog, const char *name, FILE *out)
{
    const Names *names = p->module->names;
    int depth = 1;
    fprintf(out, "%s: %.4g ms predicted, peak %lld of transient bytes (bound %lld)\n", name,
            prog->seconds * 1e3, (long long)prog->peak, (long long)prog->live_bound);
    for (size_t i = 0; i < prog->actions.n; i++) {
        const Action *a = &prog->actions.data[i];
        int line = 0, column;
        if (a->kind == ACT_loop) {
            const Loop *l = &prog->loops.data[a->loop];
            fprintf(out, "%*sloop %s x %lld%s\n", depth++ * 2, "", name_str(names, l->dim.name),
                    (long long)l->dim.size, l->reverse ? " reverse" : "");
            continue;
        }
        if (a->kind == ACT_end) {
            fprintf(out, "%*send\n", --depth * 2, "");
            continue;
        }
        if (a->kind == ACT_phase) {
            fprintf(out, "%*sphase %s\n", depth * 2 - 2, "", phase_name(prog->pipe, (int)i));
            continue;
        }
        diag_locate(p->module->diag, a->span, &line, &column);
        fprintf(out, "%*s%3u s%d %-14s %-34s %9.2f us %4d |", depth * 2, "", a->id, a->stream,
                action_info[a->kind].name, name_str(names, a->name), a->seconds * 1e6, line);
        for (int k = 0; k < a->noperands; k++)
            print_place(p, prog, &a->operand[k], out);
        for (int n = 0; n < a->nbegins; n++)
            fprintf(out, "%s%s", n ? ", " : " | writes in the first ",
                    name_str(names, prog->loops.data[a->begins[n]].dim.name));
        for (int s = 0; s < MAX_STREAMS; s++)
            if (a->wait[s])
                print_wait(&prog->actions.data[a->wait[s] - 1], out);
        if (a->on != AT_ALL && p->module->layout.pipeline.axis)
            fprintf(out, " | %s", stage_set_name(a->on));
        if (a->kind == ACT_comm && a->comm.piece)
            fprintf(out, " | by copies of %s",
                    text_bytes(p->module->arena, (double)mg_piece_most(&a->comm)));
        if (a->exposed > 0)
            fprintf(out, " | exposed %.2f us", a->exposed * 1e6);
        fputc('\n', out);
    }
}

void plan_print_schedule(const Plan *p, FILE *out)
{
    static const char *const names[PLAN_PROGRAMS] = {"step",    "eval",   "sample", "round",
                                                     "prefill", "decode", "spread"};
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        if (p->programs[k])
            print_program(p, p->programs[k], names[k], out);
}
