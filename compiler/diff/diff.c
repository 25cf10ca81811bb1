/* diff.c - mgc diff A B. */
#include "compiler/diff/diff.h"

#include <string.h>

#include "compiler/diff/show.h"

/* Options of a model where neither side is one. */
static Exit check_options(Session *s)
{
    const Options *o = s->o;
    const bool front = o->define.n || o->layout || o->device || o->precision || o->adapter ||
                       o->microbatch || o->recompute || o->offload || o->optimizer || o->overlap ||
                       o->pieces || o->collectives || o->cpu;
    if (o->generate || o->sequences || o->prefill || o->choices) {
        diag_error(s->diag, (Span){0}, 662,
                   "mgc diff compares steps, and a program that generates "
                   "has none: leave out --generate and its options");
        return EXIT_usage;
    }
    if (!front || side_is_model(s, o->words.data[0]) || side_is_model(s, o->words.data[1]))
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 662, "both sides are plans in files, which take no options");
    diag_help(s->diag, "options are for models: mgc diff plan.json 'F.mg --recompute all'");
    return EXIT_usage;
}

static Exit same_model(Session *s, const Diff *d)
{
    const char *name[2];
    for (int k = 0; k < 2; k++)
        name[k] = json_string_value(json_object_get(d->side[k].plan, "model"));
    if (!strcmp(name[0], name[1]))
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 661, "A is a plan of model '%s', and B of model '%s'", name[0],
               name[1]);
    return EXIT_source;
}

Exit command_diff(Session *s)
{
    static const char *const names[2] = {"A", "B"};
    Diff d = {.a = s->arena};
    Exit wrong = check_options(s);
    if (!wrong && s->o->report)
        wrong = output_replaceable(s, s->o->report);
    for (int k = 0; k < 2 && !wrong; k++)
        wrong = side_read(s, names[k], s->o->words.data[k], &d.side[k]);
    if (!wrong)
        wrong = same_model(s, &d);
    if (!wrong) {
        diff_rows(&d);
        diff_print(&d, stdout);
        if (s->o->report)
            wrong = diff_page(s, &d, s->o->report);
    }
    for (int k = 0; k < 2; k++)
        json_decref(d.side[k].plan);
    return wrong;
}
