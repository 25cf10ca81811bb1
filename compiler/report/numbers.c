/* numbers.c - see numbers.h.
 *
 * A prediction is a claim, so it stands beside what it rests on. The time rests on the device's
 * description, whose `known` says how its numbers came about, and on parts of mgc that a card has
 * run or has not; the memory rests on the proof of the plan (plan/check). */
#include "compiler/report/numbers.h"

#include "base/quantity.h"
#include "plan/outside.h"
#include "plan/place/place.h"
#include "plan/show.h"
#include "plan/volume.h"
#include "plan/whole.h"

/* Parts of a GPU's program that no card has run: "fp8, updates on the host"; "" if there are none.
 */
static const char *never_run(const Plan *p, Arena *a)
{
    const char *all = "";
    if (p->device->target != TARGET_cuda)
        return all;
    if (p->module->train.fp8)
        all = "products of fp8";
    if (plan_host_kernels(p))
        all = arena_printf(a, "%s%supdates on the host", all, *all ? ", " : "");
    if (p->level_bytes[LEVEL_disk])
        all = arena_printf(a, "%s%soffload to a disk", all, *all ? ", " : "");
    return all;
}

Sure sure_time(const Plan *p, Arena *a)
{
    const Device *d = p->device;
    const char *never = never_run(p, a);
    Sure s = {d->known, d->known_by};
    if (!s.word)
        s = (Sure){"guessed", arena_printf(a,
                                           "the description of '%s' does not say (`known`) how its "
                                           "numbers came about",
                                           d->name)};
    if (d->measured)
        s.why = arena_printf(a, "%s; %s", s.why, d->measured);
    if (d->target == TARGET_cuda && mesh_ranks(p->module) > 1)
        s.why = arena_printf(a,
                             "%s; no program of mgc has run on several GPUs: communication is "
                             "compared with published throughputs (docs/predictions.md)",
                             s.why);
    if (*never)
        s = (Sure){"guessed", arena_printf(a, "%s; no card has run %s", s.why, never)};
    return s;
}

static json_t *number(const char *name, const char *value, const char *more, Sure s)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", name, "value", value, "more", more,
                     "sure", s.word, "why", s.why);
}

static json_t *memory_json(const Plan *p, Arena *a)
{
    const double bytes = (double)plan_bytes(p), all = (double)p->device->memory;
    const char *beside =
        outside_bytes(p)
            ? arena_printf(a, "; %s beside it, of CUDA and NCCL, is counted by formulas",
                           text_bytes(a, (double)outside_bytes(p)))
            : "; stacks and buffers of messages come beside it";
    const Sure s = {"proved", arena_printf(a, "the arena of %s is checked to the byte%s",
                                           text_bytes(a, (double)p->arena_bytes), beside)};
    return number("peak memory", text_bytes(a, bytes),
                  arena_printf(a, "of %s, %.0f%%", text_bytes(a, all), 100 * bytes / all), s);
}

/* "waits for links 9.5% of it, bubble 2.0%" */
static const char *waits_text(const Plan *p, Arena *a)
{
    const double step = p->train->seconds;
    const Whole w = plan_parts(p);
    const char *text = "";
    double exposed = plan_volumes(p->module, p->train).exposed, transfers = 0;
    plan_transfers(p->train, &transfers);
    if (mesh_ranks(p->module) > 1)
        text = arena_printf(a, "%.1f%% of it exposed communication", 100 * exposed / step);
    if (transfers > 0)
        text = arena_printf(a, "%s%s%.1f%% of it exposed transfers", text, *text ? ", " : "",
                            100 * transfers / step);
    if (w.bubble > 0)
        text = arena_printf(a, "%s%s%.1f%% bubble", text, *text ? ", " : "", 100 * w.bubble);
    return *text ? text : "nothing waits for communication";
}

json_t *numbers_json(const Plan *p, Arena *a)
{
    const Module *m = p->module;
    const double step = p->train->seconds, peak = peak_flops(p->device, &m->train);
    const Sure time = sure_time(p, a);
    json_t *all = json_array();
    json_array_append_new(
        all, number("step", text_seconds(a, step),
                    arena_printf(a, "%s tokens/s",
                                 text_rate(a, (double)m->batch.size * (double)m->seq.size / step)),
                    time));
    json_array_append_new(all, memory_json(p, a));
    json_array_append_new(
        all,
        number("of the peak FLOP/s", arena_printf(a, "%.1f%%", 100 * p->train->flops / step / peak),
               waits_text(p, a),
               (Sure){time.word, "arithmetic is counted; the time is that of the step"}));
    return all;
}
