/* plan_check.c - is a JSON text a plan that can be compared and drawn? What is read of it without
 * asking (rows.c, and the script of a page) is asked for here: fields that are there, of the right
 * types, numbers that are no less than they may be, indices that point at something. */
#include "compiler/diff/plan_file.h"

#include <stdlib.h>

typedef struct Wanted {
    const char *name;
    char
        type; /* s text, n number from 0, p number above 0, o object, O object of numbers, a list */
} Wanted;

static const Wanted of_plan[] = {{"model", 's'},
                                 {"layout", 's'},
                                 {"device", 's'},
                                 {"ranks", 'p'},
                                 {"mesh", 'O'},
                                 {"params", 'n'},
                                 {"flops_per_step", 'n'},
                                 {"arena_bytes", 'n'},
                                 {"memory", 'O'},
                                 {"scratch_bytes", 'n'},
                                 {"capacity_bytes", 'p'},
                                 {"step_ms", 'p'},
                                 {"mfu", 'n'},
                                 {"recompute", 'o'},
                                 {"bubble", 'n'},
                                 {"exposed_ms", 'O'},
                                 {"parts", 'O'},
                                 {"exposed_comm_ms", 'n'},
                                 {"collectives", 'a'},
                                 {"tensors", 'a'},
                                 {"precision", 's'},
                                 {"outside", 'o'},
                                 {"kept", 'o'},
                                 {"levels", 'o'},
                                 {"step", 'O'},
                                 {"kinds_ms", 'O'},
                                 {"offloaded", 'o'},
                                 {"numbers", 'a'},
                                 {"timeline", 'o'},
                                 {"known", 'o'}};
static const Wanted of_timeline[] = {{"seconds", 'p'}, {"kinds", 'a'},  {"lanes", 'a'},
                                     {"actions", 'a'}, {"slices", 'a'}, {"loops", 'a'},
                                     {"shown", 'p'},   {"depth", 'n'},  {"typical", 'n'}};

enum { DEEPEST = 32, RANKS = 1 << 20 }; /* of loops: a page has a row for each */

static bool numbers_alone(const json_t *o)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)o, key, value) {
        if (!json_is_number(value))
            return false;
    }
    return true;
}

/* Why a value is not of a type, or NULL. */
static const char *not_of(const json_t *v, char type)
{
    switch (type) {
    case 's':
        return json_is_string(v) ? NULL : "is no text";
    case 'n':
        return json_is_number(v) && json_number_value(v) >= 0 ? NULL : "is no number from 0";
    case 'p':
        return json_is_number(v) && json_number_value(v) > 0 ? NULL : "is no number above 0";
    case 'a':
        return json_is_array(v) ? NULL : "is no list";
    case 'O':
        return json_is_object(v) && numbers_alone(v) ? NULL : "is no object of numbers";
    default:
        return json_is_object(v) ? NULL : "is no object";
    }
}

static const char *lacks(const json_t *o, const Wanted *want, size_t n, const char *where, Arena *a)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(o, want[i].name);
        const char *why = v ? not_of(v, want[i].type) : "is missing";
        if (why)
            return arena_printf(a, "'%s%s' %s", where, want[i].name, why);
    }
    return NULL;
}

static bool index_of(const json_t *v, size_t n)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && (size_t)json_integer_value(v) < n;
}

/* A row of numbers from 0 on, so many; those from `from` on. */
static bool row_of(const json_t *row, size_t from, size_t n)
{
    if (!json_is_array(row) || json_array_size(row) != n)
        return false;
    for (size_t i = from; i < n; i++)
        if (!json_is_number(json_array_get(row, i)))
            return false;
    return true;
}

static bool is_action(const json_t *v, size_t kinds)
{
    static const Wanted want[] = {{"name", 's'}, {"flops", 'n'}, {"bytes", 'n'}, {"exposed", 'n'}};
    Arena *tmp = arena_new();
    const bool good = json_is_object(v) && !lacks(v, want, 4, "", tmp) &&
                      index_of(json_object_get(v, "kind"), kinds) &&
                      index_of(json_object_get(v, "class"), 3) &&
                      json_is_boolean(json_object_get(v, "backward")) &&
                      json_is_boolean(json_object_get(v, "again"));
    arena_free(tmp);
    return good;
}

static bool texts_alone(const json_t *list)
{
    size_t i;
    json_t *v;
    json_array_foreach((json_t *)list, i, v) {
        if (!json_is_string(v))
            return false;
    }
    return true;
}

/* Those of a pipeline, if there are any: they begin with rank 0, and none is left out. */
static bool are_ranks(const json_t *ranks, const json_t *typical)
{
    static const Wanted want[] = {
        {"name", 's'}, {"first", 'n'}, {"last", 'n'}, {"rank", 'n'}, {"computes", 'n'}};
    Arena *tmp = arena_new();
    json_int_t next = 0;
    bool good = !ranks || json_array_size(ranks) > 0, has = !ranks;
    size_t i;
    json_t *v;
    json_array_foreach((json_t *)ranks, i, v) {
        const json_t *first = json_object_get(v, "first"), *last = json_object_get(v, "last");
        const json_t *rank = json_object_get(v, "rank");
        good = good && json_is_object(v) && !lacks(v, want, 5, "", tmp) && json_is_integer(first) &&
               json_is_integer(last) && json_is_integer(rank) &&
               json_integer_value(first) == next &&
               json_integer_value(first) <= json_integer_value(rank) &&
               json_integer_value(rank) <= json_integer_value(last) &&
               json_integer_value(last) < RANKS;
        next = json_integer_value(last) + 1;
        has |= json_integer_value(rank) == json_integer_value(typical);
    }
    arena_free(tmp);
    return good && has;
}

static const char *timeline_wrong(const json_t *t, Arena *a)
{
    const json_t *kinds = json_object_get(t, "kinds"), *lanes = json_object_get(t, "lanes");
    const json_t *actions = json_object_get(t, "actions");
    size_t i;
    json_t *v;
    const char *why =
        lacks(t, of_timeline, sizeof of_timeline / sizeof *of_timeline, "timeline.", a);
    if (why)
        return why;
    if (!texts_alone(kinds) || !texts_alone(lanes))
        return "'timeline.kinds' and 'timeline.lanes' are lists of names";
    if (json_number_value(json_object_get(t, "depth")) > DEEPEST)
        return arena_printf(a, "'timeline.depth' is above %d", DEEPEST);
    if (!are_ranks(json_object_get(t, "ranks"), json_object_get(t, "typical")))
        return "'timeline.ranks' are none";
    json_array_foreach((json_t *)actions, i, v) {
        if (!is_action(v, json_array_size(kinds)))
            return arena_printf(a, "action %zu of 'timeline.actions' is none", i);
    }
    json_array_foreach(json_object_get(t, "slices"), i, v) {
        if (!row_of(v, 0, 5) || !index_of(json_array_get(v, 0), json_array_size(actions)) ||
            !index_of(json_array_get(v, 3), json_array_size(lanes)))
            return arena_printf(a, "row %zu of 'timeline.slices' is none", i);
    }
    json_array_foreach(json_object_get(t, "loops"), i, v) {
        if (!row_of(v, 1, 8) || !json_is_string(json_array_get(v, 0)) ||
            !index_of(json_array_get(v, 3), DEEPEST) || json_number_value(json_array_get(v, 4)) < 1)
            return arena_printf(a, "row %zu of 'timeline.loops' is none", i);
    }
    return NULL;
}

static const char *list_wrong(const json_t *plan, const char *name, const Wanted *want, size_t n,
                              Arena *a)
{
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(plan, name), i, v) {
        const char *why = json_is_object(v) ? lacks(v, want, n, "", a) : "it is no object";
        if (why)
            return arena_printf(a, "row %zu of '%s': %s", i, name, why);
    }
    return NULL;
}

const char *plan_file_wrong(const json_t *plan, Arena *a)
{
    static const Wanted collective[] = {{"axis", 's'},  {"kind", 's'}, {"bytes", 'n'},
                                        {"count", 'n'}, {"ms", 'n'},   {"exposed_ms", 'n'}};
    static const Wanted tensor[] = {{"name", 's'}, {"bytes", 'n'}, {"split", 'a'}};
    static const Wanted number[] = {
        {"name", 's'}, {"value", 's'}, {"more", 's'}, {"sure", 's'}, {"why", 's'}};
    const json_t *format = json_object_get(plan, "plan");
    if (!json_is_object(plan))
        return "it is no object";
    if (!format && json_object_get(plan, "step_ms"))
        return "it says no format (`plan`): an older mgc wrote it; make it again";
    if (!format)
        return "it says no format (`plan`)";
    if (!json_is_integer(format) || json_integer_value(format) != PLAN_FORMAT) {
        char *text = json_dumps(format, JSON_ENCODE_ANY | JSON_COMPACT);
        const char *by = json_string_value(json_object_get(plan, "mgc"));
        const char *why = arena_printf(
            a, "it has the format %.40s%s%s, and this is mgc %s, whose plans have the format %d",
            text ? text : "", by ? ", of mgc " : "", by ? by : "", MGC_VERSION, PLAN_FORMAT);
        free(text);
        return why;
    }
    const char *why = lacks(plan, of_plan, sizeof of_plan / sizeof *of_plan, "", a);
    if (!why)
        why = list_wrong(plan, "collectives", collective, 6, a);
    if (!why)
        why = list_wrong(plan, "tensors", tensor, 3, a);
    if (!why)
        why = list_wrong(plan, "numbers", number, 5, a);
    return why ? why : timeline_wrong(json_object_get(plan, "timeline"), a);
}
