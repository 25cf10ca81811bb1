/* method.c - methods of strings, lists and dicts. Those that Python has and that are not here are
 * refused; those that change a value are not allowed in a template. */
#include "text/jinja/parts.h"

static const char *const string_methods[] = {
    "strip",        "lstrip",     "rstrip",    "split",       "rsplit",       "splitlines",
    "startswith",   "endswith",   "replace",   "lower",       "upper",        "title",
    "capitalize",   "find",       "count",     "join",        "removeprefix", "removesuffix",
    "casefold",     "center",     "encode",    "expandtabs",  "format",       "format_map",
    "index",        "isalnum",    "isalpha",   "isascii",     "isdecimal",    "isdigit",
    "isidentifier", "islower",    "isnumeric", "isprintable", "isspace",      "istitle",
    "isupper",      "ljust",      "maketrans", "partition",   "rfind",        "rindex",
    "rjust",        "rpartition", "swapcase",  "translate",   "zfill",        NULL};
static const char *const list_methods[] = {"append", "clear",   "copy",   "count",
                                           "extend", "index",   "insert", "pop",
                                           "remove", "reverse", "sort",   NULL};
static const char *const dict_methods[] = {"get",     "items",      "keys",   "values",
                                           "clear",   "copy",       "pop",    "fromkeys",
                                           "popitem", "setdefault", "update", NULL};

static bool listed(const char *const *names, const char *name, size_t n)
{
    for (; *names; names++)
        if (strlen(*names) == n && memcmp(*names, name, n) == 0)
            return true;
    return false;
}

bool jin_method_known(const JinValue *of, const char *name, size_t n)
{
    const char *const *names = of->kind == JIN_string ? string_methods
                               : of->kind == JIN_dict ? dict_methods
                                                      : list_methods;
    return listed(names, name, n);
}

static bool is(const JinValue *m, const char *name)
{
    return strcmp(m->text, name) == 0;
}

/* ---- dicts --------------------------------------------------------------------------------- */

static JinValue *view(Render *r, const JinValue *dict, char which)
{
    JinValue *v = jin_list_of(r, JIN_view, dict->pairs);
    for (size_t i = 0; i < dict->pairs; i++) {
        const JinPair *p = &dict->pair[i];
        if (which == 'i') {
            v->item[i] = jin_list_of(r, JIN_tuple, 2);
            v->item[i]->item[0] = p->key;
            v->item[i]->item[1] = p->value;
        } else {
            v->item[i] = which == 'k' ? p->key : p->value;
        }
    }
    return v;
}

static JinValue *dict_method(Render *r, const JinValue *m, Args *args)
{
    if (is(m, "get")) {
        JinValue *key = jin_argument(r, args, 0, ""), *other = jin_argument(r, args, 1, "");
        if (!key || key->kind > JIN_string)
            jin_render_fail(r, "'get' needs a key, not %s", key ? jin_kind_name(key) : "nothing");
        JinValue *found = jin_dict_get(r, m->self, key);
        return found ? found : other ? other : jin_none_of(r);
    }
    if (is(m, "items") || is(m, "keys") || is(m, "values"))
        return view(r, m->self, *m->text);
    jin_render_fail(r, "the method '%s' of a dict is not built", m->text);
}

/* ---- strings ------------------------------------------------------------------------------- */

static bool begins(Text t, Text with)
{
    return with.n <= t.n && (!with.n || memcmp(t.p, with.p, with.n) == 0);
}

static bool ends(Text t, Text with)
{
    return with.n <= t.n && (!with.n || memcmp(t.p + t.n - with.n, with.p, with.n) == 0);
}

/* startswith and endswith: of a string, or of any in a tuple. */
static JinValue *has_end(Render *r, const JinValue *m, Text t, Args *args)
{
    JinValue *with = jin_argument(r, args, 0, "");
    bool first = is(m, "startswith"), found = false;
    if (with && with->kind == JIN_tuple) {
        for (size_t i = 0; i < with->items; i++) {
            Text one = jin_text_argument(r, with->item[i], m->text);
            found |= first ? begins(t, one) : ends(t, one);
        }
        return jin_truth_of(r, found);
    }
    Text one = jin_text_argument(r, with, m->text);
    return jin_truth_of(r, first ? begins(t, one) : ends(t, one));
}

static JinValue *joined(Render *r, Text by, Args *args)
{
    size_t n, from = r->n;
    JinValue *list = jin_argument(r, args, 0, "");
    if (!list)
        jin_render_fail(r, "'join' needs a list");
    JinValue **of = jin_items_of(r, list, &n);
    for (size_t i = 0; i < n; i++) {
        Text t = jin_text_argument(r, of[i], "join");
        jin_write_out(r, by.p, i ? by.n : 0);
        jin_write_out(r, t.p, t.n);
    }
    return jin_take_output(r, from);
}

static int64_t occurrences(Text t, Text what)
{
    int64_t n = 0;
    if (!what.n)
        return (int64_t)jin_text_chars(t) + 1;
    for (int64_t at = 0; (at = jin_text_find(t, what, (size_t)at)) >= 0; at += (int64_t)what.n)
        n++;
    return n;
}

static JinValue *stripped(Render *r, const JinValue *m, Text t, Args *args)
{
    JinValue *chars = jin_argument(r, args, 0, "");
    Text set, *some = NULL;
    if (chars && chars->kind != JIN_none) {
        set = jin_text_argument(r, chars, m->text);
        some = &set;
    }
    t = jin_text_strip(t, some, !is(m, "rstrip"), !is(m, "lstrip"));
    return jin_string_of(r, t.p, t.n);
}

static JinValue *split(Render *r, const JinValue *m, Text t, Args *args)
{
    JinValue *by = jin_argument(r, args, 0, "sep"), *most = jin_argument(r, args, 1, "maxsplit");
    int64_t limit = most ? jin_whole_argument(r, most, m->text) : -1;
    if (!by || by->kind == JIN_none)
        return jin_text_split(r, t, NULL, limit, is(m, "rsplit"));
    Text at = jin_text_argument(r, by, m->text);
    return jin_text_split(r, t, &at, limit, is(m, "rsplit"));
}

static JinValue *without_end(Render *r, const JinValue *m, Text t, Args *args)
{
    Text end = jin_text_argument(r, jin_argument(r, args, 0, ""), m->text);
    if (is(m, "removeprefix") && begins(t, end))
        return jin_string_of(r, t.p + end.n, t.n - end.n);
    if (is(m, "removesuffix") && ends(t, end))
        return jin_string_of(r, t.p, t.n - end.n);
    return jin_string_of(r, t.p, t.n);
}

static JinValue *find(Render *r, const JinValue *m, Text t, Args *args)
{
    Text what = jin_text_argument(r, jin_argument(r, args, 0, ""), m->text);
    if (is(m, "count"))
        return jin_integer_of(r, occurrences(t, what));
    int64_t at = jin_text_find(t, what, 0);
    return jin_integer_of(r, at < 0 ? at : (int64_t)jin_text_chars((Text){t.p, (size_t)at}));
}

/* `{}`, `{0}`, `{name}` and doubled braces; how to write a value is not built. */
static JinValue *formatted(Render *r, Text t, Args *args)
{
    size_t from = r->n, next = 0;
    for (size_t i = 0; i < t.n; i++) {
        bool brace = t.p[i] == '{' || t.p[i] == '}';
        if (brace && i + 1 < t.n && t.p[i + 1] == t.p[i])
            i++;
        else if (brace) {
            int64_t end = t.p[i] == '{' ? jin_text_find(t, (Text){"}", 1}, i) : -1;
            char name[64];
            size_t n = end < 0 ? sizeof name : (size_t)end - i - 1;
            if (n >= sizeof name)
                jin_render_fail(r, "a brace without another");
            memcpy(name, t.p + i + 1, n);
            name[n] = 0;
            bool digits = n && strspn(name, "0123456789") == n && n < 4;
            if (strpbrk(name, ".[]:!{") || (digits && next))
                jin_render_fail(r, "the format '{%s}' is not built", name);
            size_t number = digits ? (size_t)(name[0] - '0') : n ? SIZE_MAX : next++;
            JinValue *v = digits && n > 1 ? NULL : jin_argument(r, args, number, name);
            if (!v || v->safe)
                jin_render_fail(r, "the format '{%s}' has no value", name);
            jin_write_value(r, v);
            i = (size_t)end;
            continue;
        }
        jin_write_out(r, t.p + i, 1);
    }
    for (size_t k = 0; k < args->n; k++)
        args->taken[k] = true; /* what is not asked for is not written */
    return jin_take_output(r, from);
}

static JinValue *string_method(Render *r, const JinValue *m, Args *args)
{
    Text t = {m->self->text, m->self->n};
    if (m->self->safe)
        jin_render_fail(r, "a method of a string after 'safe' is not built");
    if (is(m, "strip") || is(m, "lstrip") || is(m, "rstrip"))
        return stripped(r, m, t, args);
    if (is(m, "split") || is(m, "rsplit"))
        return split(r, m, t, args);
    if (is(m, "splitlines"))
        return jin_text_split_lines(r, t);
    if (is(m, "startswith") || is(m, "endswith"))
        return has_end(r, m, t, args);
    if (is(m, "replace")) {
        Text old = jin_text_argument(r, jin_argument(r, args, 0, ""), m->text);
        Text by = jin_text_argument(r, jin_argument(r, args, 1, ""), m->text);
        JinValue *count = jin_argument(r, args, 2, "count");
        return jin_text_replace(r, t, old, by, count ? jin_whole_argument(r, count, m->text) : -1);
    }
    if (is(m, "format"))
        return formatted(r, t, args);
    if (is(m, "lower"))
        return jin_text_lower(r, t);
    if (is(m, "upper"))
        return jin_text_upper(r, t);
    if (is(m, "title"))
        return jin_text_title(r, t, false);
    if (is(m, "capitalize"))
        return jin_text_capital(r, t);
    if (is(m, "find") || is(m, "count"))
        return find(r, m, t, args);
    if (is(m, "join"))
        return joined(r, t, args);
    if (is(m, "removeprefix") || is(m, "removesuffix"))
        return without_end(r, m, t, args);
    jin_render_fail(r, "the method '%s' of a string is not built", m->text);
}

static JinValue *list_method(Render *r, const JinValue *m, Args *args)
{
    int64_t count = 0;
    JinValue *what = jin_argument(r, args, 0, "");
    if (!what || (!is(m, "count") && !is(m, "index")))
        jin_render_fail(r, "the method '%s' of a list is not built", m->text);
    for (size_t i = 0; i < m->self->items; i++)
        if (jin_equal(r, m->self->item[i], what)) {
            if (is(m, "index"))
                return jin_integer_of(r, (int64_t)i);
            count++;
        }
    if (is(m, "index"))
        jin_render_fail(r, "'index' of what is not in the list");
    return jin_integer_of(r, count);
}

JinValue *jin_method_call(Render *r, const JinValue *m, Args *args)
{
    JinValue *v = m->self->kind == JIN_string ? string_method(r, m, args)
                  : m->self->kind == JIN_dict ? dict_method(r, m, args)
                                              : list_method(r, m, args);
    jin_no_more_arguments(r, args, m->text);
    return v;
}
