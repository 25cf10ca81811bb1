/* filter.c - `| NAME`. */
#include "text/jinja/parts.h"

#include <stdlib.h>

static const char *const filters[] = {
    "abs",     "capitalize", "count", "d",      "default",    "dictsort", "first",
    "float",   "indent",     "int",   "items",  "join",       "last",     "length",
    "list",    "lower",      "map",   "max",    "min",        "reject",   "rejectattr",
    "replace", "reverse",    "safe",  "select", "selectattr", "sort",     "string",
    "title",   "tojson",     "trim",  "unique", "upper",      NULL};

bool jin_filter_known(const char *name)
{
    for (size_t i = 0; filters[i]; i++)
        if (strcmp(filters[i], name) == 0)
            return true;
    return false;
}

static bool is(const char *name, const char *what)
{
    return strcmp(name, what) == 0;
}

/* Python's str() of what is no `safe` string: Jinja would escape what is put beside that. */
static Text soft(Render *r, JinValue *v)
{
    v = jin_as_string(r, v);
    if (v->safe)
        jin_render_fail(r, "a filter after 'safe' is not built");
    return (Text){v->text, v->n};
}

static JinValue *string_at(Render *r, Text t)
{
    return jin_string_of(r, t.p, t.n);
}

/* ---- of strings ---------------------------------------------------------------------------- */

static JinValue *indent(Render *r, Text t, Args *args)
{
    JinValue *width = jin_argument(r, args, 0, "width"), *first = jin_argument(r, args, 1, "first"),
             *blank = jin_argument(r, args, 2, "blank");
    size_t from = r->n;
    JinValue *by = width;
    if (!width || width->kind != JIN_string) {
        int64_t n = width ? jin_whole_argument(r, width, "indent") : 4;
        for (int64_t i = 0; i < n; i++)
            jin_write_out(r, " ", 1);
        by = jin_take_output(r, from);
    }
    jin_write_out(r, t.p, t.n);
    jin_write_out(r, "\n", 1);
    JinValue *whole = jin_take_output(r, from);
    JinValue *line = jin_text_split_lines(r, (Text){whole->text, whole->n});
    for (size_t i = 0; i < line->items; i++) {
        bool indented =
            i ? line->item[i]->n || (blank && jin_truthy(blank)) : first && jin_truthy(first);
        jin_write_out(r, "\n", i != 0);
        jin_write_out(r, by->text, indented ? by->n : 0);
        jin_write_out(r, line->item[i]->text, line->item[i]->n);
    }
    return jin_take_output(r, from);
}

static JinValue *replaced(Render *r, Text t, Args *args)
{
    JinValue *old = jin_argument(r, args, 0, "old"), *by = jin_argument(r, args, 1, "new"),
             *count = jin_argument(r, args, 2, "count");
    if (!old || !by)
        jin_render_fail(r, "'replace' needs two strings");
    int64_t n = count && count->kind != JIN_none ? jin_whole_argument(r, count, "replace") : -1;
    return jin_text_replace(r, t, soft(r, old), soft(r, by), n);
}

static JinValue *trimmed(Render *r, Text t, Args *args)
{
    JinValue *chars = jin_argument(r, args, 0, "chars");
    if (!chars || chars->kind == JIN_none)
        return string_at(r, jin_text_strip(t, NULL, true, true));
    Text set = jin_text_argument(r, chars, "trim");
    return string_at(r, jin_text_strip(t, &set, true, true));
}

static JinValue *to_json(Render *r, const JinValue *of, Args *args)
{
    JinValue *ascii = jin_argument(r, args, 0, "ensure_ascii"),
             *indent = jin_argument(r, args, 1, "indent"),
             *parts = jin_argument(r, args, 2, "separators"),
             *sort = jin_argument(r, args, 3, "sort_keys");
    size_t from = r->n;
    int64_t by = -1;
    if (indent && indent->kind != JIN_none)
        by = jin_whole_argument(r, indent, "tojson");
    if (indent && indent->kind != JIN_none && (by < 0 || by > 64))
        jin_render_fail(r, "'tojson' with this indent is not built");
    const char *between = by < 0 ? ", " : ",", *colon = ": ";
    if (parts && parts->kind != JIN_none) {
        if ((parts->kind != JIN_list && parts->kind != JIN_tuple) || parts->items != 2)
            jin_render_fail(r, "'tojson' needs two separators");
        Text a = jin_text_argument(r, parts->item[0], "tojson"),
             b = jin_text_argument(r, parts->item[1], "tojson");
        between = arena_strndup(r->a, a.p, a.n);
        colon = arena_strndup(r->a, b.p, b.n);
    }
    jin_write_json(r, of, by, between, colon, ascii && jin_truthy(ascii), sort && jin_truthy(sort));
    return jin_take_output(r, from);
}

/* ---- of numbers ---------------------------------------------------------------------------- */

static JinValue *to_number(Render *r, JinValue *of, Args *args, bool whole)
{
    JinValue *other = jin_argument(r, args, 0, "default");
    char text[64], *end;
    JinValue *v = jin_value_new(r, whole ? JIN_int : JIN_float);
    double x;
    if (of->kind == JIN_int || of->kind == JIN_bool) {
        if (whole)
            v->integer = jin_whole_of(of);
        else
            v->real = jin_real_of(of);
        return v;
    }
    if (of->kind == JIN_float) {
        x = of->real;
    } else if (of->kind == JIN_string && !of->safe) {
        Text t = jin_text_strip((Text){of->text, of->n}, NULL, true, true);
        bool plain = t.n && t.n < sizeof text;
        for (size_t i = 0; plain && i < t.n; i++)
            plain = strchr("0123456789", t.p[i]) || (!i && t.n > 1 && strchr("+-", t.p[i]));
        bool numeric = t.n && strpbrk(of->text, "0123456789nN_") && !plain;
        if (numeric)
            jin_render_fail(r, "numbers out of strings are built for plain digits only");
        if (!plain)
            return other ? other : v;
        memcpy(text, t.p, t.n);
        text[t.n] = 0;
        if (t.n > 17)
            jin_render_fail(r, "an integer of more than 17 digits is not built");
        if (whole) {
            v->integer = strtoll(text, &end, 10);
            return v;
        }
        x = strtod(text, &end);
    } else {
        return other ? other : v; /* Python's TypeError */
    }
    if (whole && !(x > -9e18 && x < 9e18))
        return other ? other : v;
    if (whole)
        v->integer = (int64_t)x;
    else
        v->real = x;
    return v;
}

static JinValue *absolute(Render *r, const JinValue *of)
{
    JinValue *v = jin_value_new(r, of->kind == JIN_float ? JIN_float : JIN_int);
    if (!jin_is_number(of))
        jin_render_fail(r, "%s has no absolute value", jin_kind_name(of));
    if (of->kind == JIN_float)
        v->real = of->real < 0 ? -of->real : of->real;
    else
        v->integer = jin_whole_of(of) < 0 ? -jin_whole_of(of) : jin_whole_of(of);
    return v;
}

/* ---- of lists ------------------------------------------------------------------------------ */

/* The member a.b.0 of a value, as map(attribute=...) has it. */
static JinValue *by_path(Render *r, JinValue *of, const JinValue *path)
{
    if (path->kind == JIN_int)
        return jin_item(r, of, (JinValue *)path);
    Text t = jin_text_argument(r, (JinValue *)path, "attribute");
    while (true) {
        int64_t dot = jin_text_find(t, (Text){".", 1}, 0);
        Text name = {t.p, dot < 0 ? t.n : (size_t)dot};
        bool digits = name.n > 0;
        int64_t number = 0;
        for (size_t i = 0; i < name.n && i < 9; i++) {
            digits &= name.p[i] >= '0' && name.p[i] <= '9';
            number = digits ? number * 10 + (name.p[i] - '0') : number;
        }
        of = jin_item(r, of, digits ? jin_integer_of(r, number) : string_at(r, name));
        if (dot < 0)
            return of;
        t = (Text){t.p + dot + 1, t.n - (size_t)dot - 1};
    }
}

/* The arguments from number `from` on. */
static Args rest(const Args *args, size_t from)
{
    from = from < args->n ? from : args->n;
    return (Args){args->value + from, args->name + from, args->n - from, args->taken + from};
}

static void take_all(const Args *args)
{
    for (size_t k = 0; k < args->n; k++)
        args->taken[k] = true;
}

static void take_none(const Args *args)
{
    for (size_t k = 0; k < args->n; k++)
        args->taken[k] = false;
}

/* Items for `map` and `select`, to whom an empty value, or none, has none. */
static JinValue **run_through(Render *r, JinValue *of, size_t *n)
{
    *n = 0;
    return jin_truthy(of) ? jin_items_of(r, of, n) : NULL;
}

static JinValue *mapped(Render *r, JinValue *of, Args *args)
{
    size_t n;
    JinValue *path = jin_argument(r, args, SIZE_MAX, "attribute"),
             *other = jin_argument(r, args, SIZE_MAX, "default");
    JinValue **from = run_through(r, of, &n), *v = jin_list_of(r, JIN_stream, n);
    if (path) {
        for (size_t i = 0; i < n; i++) {
            v->item[i] = by_path(r, from[i], path);
            if (other && v->item[i]->kind == JIN_undefined)
                v->item[i] = other;
        }
        return v;
    }
    Text name = jin_text_argument(r, jin_argument(r, args, 0, ""), "map");
    const char *what = arena_strndup(r->a, name.p, name.n);
    if (!jin_filter_known(what))
        jin_render_fail(r, "the filter '%s' is not built", what);
    Args more = rest(args, 1);
    for (size_t i = 0; i < n; i++) {
        take_none(&more);
        v->item[i] = jin_filter(r, what, from[i], &more);
    }
    take_all(args);
    return v;
}

/* select, reject, selectattr, rejectattr. */
static JinValue *selected(Render *r, const char *name, JinValue *of, Args *args)
{
    size_t n, at = 0;
    bool want = *name == 's', attribute = is(name, "selectattr") || is(name, "rejectattr");
    JinValue **from = run_through(r, of, &n), *v = jin_list_of(r, JIN_stream, n), *path = NULL;
    const char *what = NULL;
    v->items = 0;
    if (attribute) {
        path = jin_argument(r, args, at++, "attribute");
        if (!path)
            jin_render_fail(r, "'%s' needs the name of a member", name);
    }
    JinValue *test_name = jin_argument(r, args, at++, "");
    if (test_name) {
        Text t = jin_text_argument(r, test_name, name);
        what = arena_strndup(r->a, t.p, t.n);
        if (!jin_test_known(what))
            jin_render_fail(r, "the test '%s' is not built", what);
    }
    Args more = rest(args, at);
    for (size_t i = 0; i < n; i++) {
        JinValue *x = attribute ? by_path(r, from[i], path) : from[i];
        take_none(&more);
        if ((what ? jin_test(r, what, x, &more) : jin_truthy(x)) == want)
            v->item[v->items++] = from[i];
    }
    take_all(args);
    return v;
}

static JinValue *joined(Render *r, JinValue *of, Args *args)
{
    JinValue *by = jin_argument(r, args, 0, "d"), *path = jin_argument(r, args, 1, "attribute");
    size_t n, start = r->n;
    Text between = by ? soft(r, by) : (Text){"", 0};
    JinValue **from = jin_items_of(r, of, &n);
    for (size_t i = 0; i < n; i++) {
        Text t = soft(r, path ? by_path(r, from[i], path) : from[i]);
        jin_write_out(r, between.p, i ? between.n : 0);
        jin_write_out(r, t.p, t.n);
    }
    return jin_take_output(r, start);
}

static JinValue *as_list(Render *r, JinValue *of, JinKind kind, bool backwards)
{
    size_t n;
    JinValue **from = jin_items_of(r, of, &n), *v = jin_list_of(r, kind, n);
    for (size_t i = 0; i < n; i++)
        v->item[i] = from[backwards ? n - 1 - i : i];
    return v;
}

static JinValue *first_or_last(Render *r, JinValue *of, bool last)
{
    size_t n;
    if (last && of->kind == JIN_stream)
        jin_render_fail(r, "a generator has no last item; '| list' makes a list of it");
    JinValue **from = jin_items_of(r, of, &n);
    return n ? from[last ? n - 1 : 0] : jin_undefined_of(r, "no first or last item", 21);
}

static JinValue *length(Render *r, const JinValue *of)
{
    switch (of->kind) {
    case JIN_string:
        return jin_integer_of(r, (int64_t)jin_text_chars((Text){of->text, of->n}));
    case JIN_dict:
        return jin_integer_of(r, (int64_t)of->pairs);
    case JIN_undefined:
        return jin_integer_of(r, 0);
    case JIN_list:
    case JIN_tuple:
    case JIN_range:
    case JIN_view:
        return jin_integer_of(r, (int64_t)of->items);
    case JIN_none:
    case JIN_bool:
    case JIN_int:
    case JIN_float:
    case JIN_stream:
    case JIN_namespace:
    case JIN_loop:
    case JIN_macro:
    case JIN_function:
    case JIN_method:
        break;
    }
    jin_render_fail(r, "%s has no length", jin_kind_name(of));
}

static JinValue *pairs(Render *r, const JinValue *of, JinKind kind)
{
    if (of->kind != JIN_dict && of->kind != JIN_undefined)
        jin_render_fail(r, "%s has no items", jin_kind_name(of));
    size_t n = of->kind == JIN_dict ? of->pairs : 0;
    JinValue *v = jin_list_of(r, kind, n);
    for (size_t i = 0; i < n; i++) {
        v->item[i] = jin_list_of(r, JIN_tuple, 2);
        v->item[i]->item[0] = of->pair[i].key;
        v->item[i]->item[1] = of->pair[i].value;
    }
    return v;
}

/* ---- sorting ------------------------------------------------------------------------------- */

static JinValue *folded(Render *r, JinValue *v, bool cased)
{
    return v->kind == JIN_string && !cased ? jin_text_lower(r, soft(r, v)) : v;
}

/* Stable: few items, and an order that may fail. */
static void sort(Render *r, JinValue **of, JinValue **key, size_t n, bool reverse)
{
    r->steps += (int64_t)(n * n / 4);
    if (n > 4096)
        jin_render_fail(r, "sorting more than 4096 items is not built");
    for (size_t i = 1; i < n; i++) {
        JinValue *x = of[i], *k = key[i];
        size_t j = i;
        for (;
             j && (reverse ? jin_compare(r, key[j - 1], k) < 0 : jin_compare(r, key[j - 1], k) > 0);
             j--) {
            of[j] = of[j - 1];
            key[j] = key[j - 1];
        }
        of[j] = x;
        key[j] = k;
    }
}

static JinValue *sorted(Render *r, JinValue *of, Args *args)
{
    JinValue *reverse = jin_argument(r, args, 0, "reverse"),
             *cased = jin_argument(r, args, 1, "case_sensitive"),
             *path = jin_argument(r, args, 2, "attribute");
    JinValue *v = as_list(r, of, JIN_list, false), *keys = jin_list_of(r, JIN_list, v->items);
    for (size_t i = 0; i < v->items; i++)
        keys->item[i] =
            folded(r, path ? by_path(r, v->item[i], path) : v->item[i], cased && jin_truthy(cased));
    sort(r, v->item, keys->item, v->items, reverse && jin_truthy(reverse));
    return v;
}

static JinValue *dict_sorted(Render *r, const JinValue *of, Args *args)
{
    JinValue *cased = jin_argument(r, args, 0, "case_sensitive"),
             *by = jin_argument(r, args, 1, "by"), *reverse = jin_argument(r, args, 2, "reverse");
    if (of->kind != JIN_dict)
        jin_render_fail(r, "%s is no dict to be sorted", jin_kind_name(of));
    if (by && !jin_is_text(by, "key") && !jin_is_text(by, "value"))
        jin_render_fail(r, "'dictsort' sorts by 'key' or by 'value'");
    size_t at = by && jin_is_text(by, "value");
    JinValue *v = pairs(r, of, JIN_list), *keys = jin_list_of(r, JIN_list, v->items);
    for (size_t i = 0; i < v->items; i++)
        keys->item[i] = folded(r, v->item[i]->item[at], cased && jin_truthy(cased));
    sort(r, v->item, keys->item, v->items, reverse && jin_truthy(reverse));
    return v;
}

static JinValue *extreme(Render *r, JinValue *of, Args *args, bool least)
{
    size_t n;
    JinValue *cased = jin_argument(r, args, 0, "case_sensitive"),
             *path = jin_argument(r, args, 1, "attribute"), *best = NULL, *best_key = NULL;
    JinValue **from = jin_items_of(r, of, &n);
    for (size_t i = 0; i < n; i++) {
        JinValue *key =
            folded(r, path ? by_path(r, from[i], path) : from[i], cased && jin_truthy(cased));
        int order = best ? jin_compare(r, key, best_key) : 0;
        if (!best || (least ? order < 0 : order > 0)) {
            best = from[i];
            best_key = key;
        }
    }
    return best ? best : jin_undefined_of(r, "no least or greatest item", 25);
}

static JinValue *unique(Render *r, JinValue *of, Args *args)
{
    size_t n;
    JinValue *cased = jin_argument(r, args, 0, "case_sensitive"),
             *path = jin_argument(r, args, 1, "attribute");
    JinValue **from = jin_items_of(r, of, &n), *v = jin_list_of(r, JIN_stream, n),
             *seen = jin_list_of(r, JIN_list, n);
    v->items = seen->items = 0;
    for (size_t i = 0; i < n; i++) {
        JinValue *key =
            folded(r, path ? by_path(r, from[i], path) : from[i], cased && jin_truthy(cased));
        if (jin_contains(r, seen, key))
            continue;
        seen->item[seen->items++] = key;
        v->item[v->items++] = from[i];
    }
    return v;
}

/* ---- all of them --------------------------------------------------------------------------- */

static JinValue *otherwise(Render *r, JinValue *of, Args *args)
{
    JinValue *other = jin_argument(r, args, 0, "default_value"),
             *empty = jin_argument(r, args, 1, "boolean");
    bool absent = of->kind == JIN_undefined || (empty && jin_truthy(empty) && !jin_truthy(of));
    return !absent ? of : other ? other : jin_string_of(r, "", 0);
}

static JinValue *reversed(Render *r, JinValue *of)
{
    if (of->kind != JIN_string)
        return as_list(r, of, JIN_stream, true);
    size_t n, start = r->n;
    JinValue **from = jin_items_of(r, of, &n);
    while (n-- > 0)
        jin_write_out(r, from[n]->text, from[n]->n);
    return jin_take_output(r, start);
}

static JinValue *made_safe(Render *r, JinValue *of)
{
    Text t = soft(r, of);
    JinValue *v = string_at(r, t);
    v->safe = true;
    return v;
}

static JinValue *string_filter(Render *r, const char *name, JinValue *of, Args *args)
{
    Text t = soft(r, of);
    return is(name, "trim")         ? trimmed(r, t, args)
           : is(name, "lower")      ? jin_text_lower(r, t)
           : is(name, "upper")      ? jin_text_upper(r, t)
           : is(name, "title")      ? jin_text_title(r, t, true)
           : is(name, "capitalize") ? jin_text_capital(r, t)
           : is(name, "replace")    ? replaced(r, t, args)
           : is(name, "indent")     ? indent(r, t, args)
                                    : string_at(r, t);
}

JinValue *jin_filter(Render *r, const char *name, JinValue *of, Args *args)
{
    JinValue *v;
    if (!jin_filter_known(name)) /* in a branch that is not taken it does no harm */
        jin_render_fail(r, "the filter '%s' is not built", name);
    if (is(name, "default") || is(name, "d"))
        v = otherwise(r, of, args);
    else if (is(name, "tojson"))
        v = to_json(r, of, args);
    else if (is(name, "length") || is(name, "count"))
        v = length(r, of);
    else if (is(name, "map"))
        v = mapped(r, of, args);
    else if (is(name, "select") || is(name, "reject") || is(name, "selectattr") ||
             is(name, "rejectattr"))
        v = selected(r, name, of, args);
    else if (is(name, "join"))
        v = joined(r, of, args);
    else if (is(name, "list"))
        v = as_list(r, of, JIN_list, false);
    else if (is(name, "first") || is(name, "last"))
        v = first_or_last(r, of, is(name, "last"));
    else if (is(name, "items"))
        v = pairs(r, of, JIN_stream);
    else if (is(name, "dictsort"))
        v = dict_sorted(r, of, args);
    else if (is(name, "sort"))
        v = sorted(r, of, args);
    else if (is(name, "unique"))
        v = unique(r, of, args);
    else if (is(name, "min") || is(name, "max"))
        v = extreme(r, of, args, is(name, "min"));
    else if (is(name, "reverse"))
        v = reversed(r, of);
    else if (is(name, "safe"))
        v = made_safe(r, of);
    else if (is(name, "int") || is(name, "float"))
        v = to_number(r, of, args, is(name, "int"));
    else if (is(name, "abs"))
        v = absolute(r, of);
    else
        v = string_filter(r, name, of, args);
    jin_no_more_arguments(r, args, name);
    return v;
}
