/* offload_text.c - ways to offload, and what they need, in words; see offload.h. */
#include "base/quantity.h"
#include "decide/offload.h"
#include "passes/levels/levels.h"

/* "state -> disk; masters, kept -> host" */
static const char *text_of(const Level level[OFFLOAD_count], Arena *a)
{
    const char *all = "";
    for (int l = LEVEL_count - 1; l > LEVEL_device; l--) {
        const char *classes = "";
        for (int k = 0; k < OFFLOAD_count; k++)
            if ((int)level[k] == l)
                classes =
                    arena_printf(a, "%s%s%s", classes, *classes ? ", " : "", offload_names[k]);
        if (*classes)
            all = arena_printf(a, "%s%s%s -> %s", all, *all ? "; " : "", classes, level_names[l]);
    }
    return all;
}

const char *offload_needs_text(const int64_t needs[LEVEL_count], const int64_t there[LEVEL_count],
                               Arena *a)
{
    const char *text = "offloaded it needs at least";
    for (int l = 0; l < LEVEL_count; l++)
        if (needs[l])
            text =
                arena_printf(a, "%s%s %lld bytes (%s) of the %s's %lld (%s)", text, l ? "," : "",
                             (long long)needs[l], text_bytes(a, (double)needs[l]), level_names[l],
                             (long long)there[l], text_bytes(a, (double)there[l]));
    return text;
}

void offload_tell(const Module *m, const Device *d, const Level level[OFFLOAD_count], int64_t bytes)
{
    Arena *tmp = arena_new();
    diag_notice(m->diag,
                "offload %s: without, the plan needs %lld bytes (%s) and the device '%s' has %lld "
                "(%s)",
                text_of(level, tmp), (long long)bytes, text_bytes(tmp, (double)bytes), d->name,
                (long long)d->memory, text_bytes(tmp, (double)d->memory));
    arena_free(tmp);
}

/* Why a program has nothing of a class; NULL: it has. */
static const char *nothing_of(const Module *m, OffloadClass class)
{
    bool has[OFFLOAD_count] = {false}, layers = false;
    for (size_t t = 0; t < m->tensors.n; t++) {
        const OffloadClass its = levels_class(&m->tensors.data[t]);
        if (its < OFFLOAD_count)
            has[its] = true;
        layers |= m->tensors.data[t].stacked;
    }
    if (class == OFFLOAD_state)
        return has[class] ? NULL : "the optimizer has none";
    if (class == OFFLOAD_masters)
        return has[class] ? NULL : "parameters are stored as products read them";
    return layers ? NULL : "the model has no layers, which a 'repeat' makes";
}

void offload_tell_empty(const Plan *p)
{
    const Module *m = p->module;
    for (int k = 0; k < OFFLOAD_count && p->train; k++) {
        const Span at = m->layout.offload_to[k];
        const char *why =
            m->layout.offload[k] != LEVEL_device && at.file ? nothing_of(m, (OffloadClass)k) : NULL;
        if (!why)
            continue;
        diag_warning(m->diag, at, 559, "'%s' has nothing to offload: %s", offload_names[k], why);
        diag_help(m->diag, "leave '%s' out of the line: 0 bytes of it go there", offload_names[k]);
    }
}
