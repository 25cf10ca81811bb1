/* scale.c - adapts the loss scale of an f16 program, by DeepSpeed's rule.
 *
 * The step multiplies the loss by the scale before differentiation, and divides the gradients by it
 * before their use. A step whose gradients are not finite changes nothing: the guard ends it, its
 * batch is not read again, and neither the schedule of the learning rate nor the optimizer's count
 * of steps includes it. The first `hysteresis` - 1 overflows leave the scale unchanged; each later
 * one halves it. Whenever the number of steps since the last overflow is one more than a multiple
 * of `window`, the scale doubles and the hysteresis is reset. An overflow at the least scale cannot
 * be cured by scaling: the run ends there, as for any value that is not finite. */
#include "runtime/run.h"

#include <inttypes.h>

void rt_scale_start(mg_run *r)
{
    const mg_scale *rule = &r->program->scale;
    r->state.scale = (rt_scale){.value = rule->initial, .hysteresis = rule->hysteresis, .last = -1};
}

bool rt_scale_forgives(mg_run *r)
{
    const mg_scale *rule = &r->program->scale;
    rt_scale *s = &r->state.scale;
    if (rule->initial == 0 || (s->hysteresis == 1 && s->value <= rule->least))
        return false;
    if (s->hysteresis > 1)
        s->hysteresis--;
    else
        s->value = s->value / 2 > rule->least ? s->value / 2 : rule->least;
    s->last = s->steps++;
    s->overflows++;
    r->overflow = true;
    return true;
}

void rt_scale_good(mg_run *r)
{
    const mg_scale *rule = &r->program->scale;
    rt_scale *s = &r->state.scale;
    if (rule->initial == 0)
        return;
    const int64_t since = s->steps++ - s->last - 1;
    if (since > 0 && since % rule->window == 0) {
        s->hysteresis = rule->hysteresis;
        s->value *= 2;
    }
}

int64_t rt_updates(const mg_run *r)
{
    return r->state.step - r->state.scale.overflows;
}
