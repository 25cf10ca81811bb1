/* show_generate.c - --plan of programs that generate: what they add to each text, in which time;
 * and lines that it has in common with that of a step. */
#include "base/quantity.h"

#include "plan/outside.h"
#include "plan/place/place.h"
#include "plan/show.h"

void plan_seconds_by_kind(const Program *p, double out[ACT_count])
{
    for (size_t i = 0; i < p->actions.n; i++)
        out[p->actions.data[i].kind] += p->actions.data[i].seconds * p->actions.data[i].times;
}

/* The memory of all programs, by owner. */
void plan_print_bytes(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    fprintf(out, "memory       %s of %s (arena %lld bytes, %d threads x %lld scratch)\n",
            text_bytes(m->arena, (double)plan_bytes(p)),
            text_bytes(m->arena, (double)p->device->memory), (long long)p->arena_bytes,
            p->device->threads, (long long)p->scratch_bytes);
    for (int i = 0; i < OWN_count; i++)
        if (p->memory[i])
            fprintf(out, "  %-12s %s\n", plan_owner((Owner)i),
                    text_bytes(m->arena, (double)p->memory[i]));
    for (int i = 0; i < OUT_count; i++)
        if (p->outside.bytes[i])
            fprintf(out, "  %-30s %s, beside the arena\n", outside_name((OutsideItem)i),
                    text_bytes(m->arena, (double)p->outside.bytes[i]));
}

/* One program that generates: what it adds to each text, in which time, by kinds of actions. */
static void print_generating(const Plan *p, const Program *g, const char *name, FILE *out)
{
    const Module *m = p->module;
    const int64_t texts = g->batch * mesh_size(m, g->batch_axes);
    double by_kind[ACT_count] = {0};
    fprintf(out, "%-12s %lld token%s of each of %lld: %s, %s tokens/s, %.4g GFLOP\n", name,
            (long long)g->window, g->window > 1 ? "s" : "", (long long)texts,
            text_seconds(m->arena, g->seconds),
            text_rate(m->arena, (double)(g->window * texts) / g->seconds), g->flops * 1e-9);
    plan_seconds_by_kind(g, by_kind);
    for (int i = 0; i < ACT_count; i++)
        if (by_kind[i] > 0)
            fprintf(out, "  %-18s %8.3f ms %5.1f%%\n", action_info[i].name, by_kind[i] * 1e3,
                    100 * by_kind[i] / g->busy);
}

static void print_spread(const Plan *p, const char *name, FILE *out)
{
    if (p->spread)
        fprintf(out, "%-12s what prompts left, to %lld texts each: %s\n", name,
                (long long)(p->decode->batch / p->prefill->batch),
                text_seconds(p->module->arena, p->spread->seconds));
}

void plan_print_generation(const Plan *p, FILE *out)
{
    const int64_t each = p->decode->batch, ranks = mesh_size(p->module, p->decode->batch_axes);
    fprintf(out, "texts        %lld of at most %lld tokens at once", (long long)(each * ranks),
            (long long)p->module->seq.size);
    if (ranks > 1)
        fprintf(out, ", %lld on each of %lld ranks of %s", (long long)each, (long long)ranks,
                mesh_axes_text(p->module, p->decode->batch_axes));
    fputs("\n", out);
    print_generating(p, p->prefill, "prefill", out);
    print_generating(p, p->decode, "decode", out);
    print_spread(p, "spread", out);
    fprintf(out, "kernels      %zu generated; %u actions in all programs\n", p->kernels.n,
            p->nactions);
}

/* Seconds in which answers to prompts of the longest length are generated, all of a step. */
static double rollout_seconds(const Plan *p)
{
    const Rollout *o = &p->module->train.rollout;
    const int64_t prompt = p->module->seq.size + 1 - o->tokens,
                  calls = (prompt + p->prefill->window - 1) / p->prefill->window;
    const double turns = (double)p->module->batch.size / (double)o->texts;
    return turns * ((double)calls * p->prefill->seconds + (p->spread ? p->spread->seconds : 0) +
                    (double)(o->tokens - 1) * p->decode->seconds);
}

void plan_print_rollout(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    const Rollout *o = &m->train.rollout;
    if (!o->size || !p->decode)
        return;
    const double rollout = rollout_seconds(p), updates = (double)o->updates;
    const int64_t ranks = mesh_size(m, p->decode->batch_axes),
                  seen = p->eval->batch * mesh_size(m, p->eval->batch_axes);
    const double looks = m->metrics.n ? (double)m->batch.size / (double)seen : 0;
    const double beside = looks * p->eval->seconds * (updates + (o->updates > 1)) / updates;
    fprintf(out, "rollouts     %lld answers of at most %lld tokens, %lld at once",
            (long long)m->batch.size, (long long)o->tokens, (long long)o->texts);
    if (ranks > 1)
        fprintf(out, ", %lld on each of %lld ranks of %s", (long long)(o->texts / ranks),
                (long long)ranks, mesh_axes_text(m, p->decode->batch_axes));
    fprintf(out, ": %s; caches %s\n", text_seconds(m->arena, rollout),
            text_bytes(m->arena, (double)p->cache_bytes));
    print_generating(p, p->prefill, "  prefill", out);
    print_generating(p, p->decode, "  decode", out);
    print_spread(p, "  spread", out);
    fprintf(out,
            "whole step   %s: %s of the rollout for each of %lld update%s, %s beside it, and "
            "rewards\n",
            text_seconds(m->arena, rollout / updates + p->train->seconds + beside),
            text_seconds(m->arena, rollout / updates), (long long)o->updates,
            o->updates > 1 ? "s" : "", text_seconds(m->arena, beside));
}
