/* offload.c - the classes of tensors that a layout keeps on another level of memory. */
#include "grammar/config.h"
#include "grammar/tokens.h"

#include <string.h>

/* `none`, or `auto`. */
static void offload_way(Layout *l, bool chosen_later)
{
    for (int k = 0; k < OFFLOAD_count; k++)
        l->offload[k] = LEVEL_device;
    l->offloads = chosen_later ? OFFLOADS_auto : OFFLOADS_as_given;
}

const char *const mg_levels[] = {"host", "disk", NULL};

/* `offload state, masters -> host`, `offload auto` or `offload none`; a later line replaces what an
 * earlier one says of the same class. */
void layout_offload(Elab *e, const Node *n, Layout *l)
{
    const char *classes[OFFLOAD_count + 1] = {0};
    memcpy(classes, offload_names, sizeof offload_names);
    if (!n->more.n) {
        const Node *value = config_value(e, n);
        const int which = value ? config_choice(e, value, "way to offload", offload_ways, 346) : -1;
        if (which >= 0)
            offload_way(l, which == OFFLOAD_WAY_auto);
        l->offload_span = n->span;
        return;
    }
    const Node *where = n->more.data[0];
    const int level = config_choice(
        e, &(Node){.kind = N_NAME, .name = where->name, .at = where->at, .span = where->span},
        "level of memory", mg_levels, 346);
    if (n->more.n > 1 || where->list.n)
        fail(e, n->more.data[n->more.n - 1]->span, 346,
             "a class lies on one level, which has no settings");
    for (size_t i = 0; i < n->list.n; i++) {
        const int what =
            config_choice(e, n->list.data[i], "class of what can be offloaded", classes, 346);
        if (what >= 0 && level >= 0) {
            l->offload[what] = level ? LEVEL_disk : LEVEL_host;
            l->offload_to[what] = where->span;
        }
    }
    l->offloads = OFFLOADS_as_given;
    l->offload_span = n->span;
}

const char *const mg_optimizer_places[] = {"auto", "device", "host", NULL};

/* `optimizer auto`, `device` or `host`. */
void layout_optimizer(Elab *e, const Node *value, bool chosen, Layout *l)
{
    const char *given = chosen ? e->options->optimizer : NULL;
    const int which =
        value ? config_choice(e, value, "place of the optimizer", mg_optimizer_places, 346) : -1;
    if (which >= 0)
        l->optimizer = (OptimizerAt)which;
    for (int k = 0; given && k < OPTIMIZER_count; k++)
        if (!strcmp(given, optimizer_at_names[k]))
            l->optimizer = (OptimizerAt)k;
    l->optimizer_span = value && !given ? value->span : (Span){0};
    if (l->optimizer != OPTIMIZER_host || l->offloads != OFFLOADS_as_given ||
        l->offload[OFFLOAD_state] == LEVEL_host || l->offload[OFFLOAD_masters] == LEVEL_host)
        return;
    fail(e, l->optimizer_span, 346,
         "the optimizer is to run on the host, where it has neither state nor masters");
    help(e, "add `offload state, masters -> host`, or leave the place out: mgc chooses the faster");
}

void override_offload(const Elab *e, Layout *l)
{
    offload_way(l, strcmp(e->options->offload, offload_ways[OFFLOAD_WAY_auto]) == 0);
}
