/* offload.c - the classes of tensors that a layout keeps on another level of memory. */
#include "grammar/config.h"

#include <string.h>

static void offload_none(Layout *l)
{
    for (int k = 0; k < OFFLOAD_count; k++)
        l->offload[k] = LEVEL_device;
}

/* `offload state, masters -> host`, or `offload none`; a later line replaces what an earlier one
 * says of the same class. */
void layout_offload(Elab *e, const Node *n, Layout *l)
{
    static const char *const none[] = {"none", NULL}, *const to[] = {"host", "disk", NULL};
    const char *classes[OFFLOAD_count + 1] = {0};
    memcpy(classes, offload_names, sizeof offload_names);
    if (!n->more.n) {
        const Node *value = config_value(e, n);
        if (value && config_choice(e, value, "way to offload", none, 346) == 0)
            offload_none(l);
        return;
    }
    const Node *where = n->more.data[0];
    const int level = config_choice(
        e, &(Node){.kind = N_NAME, .name = where->name, .at = where->at, .span = where->span},
        "level of memory", to, 346);
    if (n->more.n > 1 || where->list.n)
        fail(e, n->more.data[n->more.n - 1]->span, 346,
             "a class lies on one level, which has no settings");
    for (size_t i = 0; i < n->list.n; i++) {
        const int what =
            config_choice(e, n->list.data[i], "class of what can be offloaded", classes, 346);
        if (what >= 0 && level >= 0)
            l->offload[what] = level ? LEVEL_disk : LEVEL_host;
    }
    l->offload_span = n->span;
    if (l->mesh.n)
        fail(e, n->span, 346,
             "offload is built for one rank, and this layout has a mesh of several");
}
