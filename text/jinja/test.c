/* test.c - `is NAME`. */
#include "text/jinja/parts.h"

static const char *const tests[] = {
    "defined", "undefined", "none",        "string",  "mapping",     "iterable", "sequence",
    "number",  "integer",   "float",       "boolean", "true",        "false",    "in",
    "odd",     "even",      "divisibleby", "eq",      "equalto",     "==",       "ne",
    "!=",      "lt",        "lessthan",    "gt",      "greaterthan", "le",       "ge",
    "sameas",  "lower",     "upper",       NULL};

bool jin_test_known(const char *name)
{
    for (size_t i = 0; tests[i]; i++)
        if (strcmp(tests[i], name) == 0)
            return true;
    return false;
}

static bool is(const char *name, const char *a, const char *b)
{
    return strcmp(name, a) == 0 || strcmp(name, b) == 0;
}

bool jin_contains(Render *r, JinValue *in, const JinValue *what)
{
    size_t n;
    if (in->kind == JIN_string) {
        if (what->kind != JIN_string || what->safe || in->safe)
            jin_render_fail(r, "%s cannot be in a string", jin_kind_name(what));
        return jin_text_find((Text){in->text, in->n}, (Text){what->text, what->n}, 0) >= 0;
    }
    if (in->kind == JIN_dict) {
        if (what->kind == JIN_list || what->kind == JIN_dict)
            jin_render_fail(r, "%s is no key of a dict", jin_kind_name(what));
        return jin_dict_get(r, in, what) != NULL;
    }
    JinValue **of = jin_items_of(r, in, &n);
    for (size_t i = 0; i < n; i++)
        if (of[i] == what || jin_equal(r, of[i], what))
            return true;
    return false;
}

static bool has_case(Render *r, const JinValue *of, bool upper)
{
    bool any = false;
    JinValue *text = jin_as_string(r, (JinValue *)of);
    for (size_t i = 0; i < text->n; i++) {
        char c = text->text[i];
        if (c & 0x80)
            jin_render_fail(r, "case beyond ASCII is not built");
        if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
            return false;
        any |= upper ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z';
    }
    return any;
}

static bool by_kind(const char *name, const JinValue *of)
{
    JinKind k = of->kind;
    if (is(name, "defined", "undefined"))
        return (k == JIN_undefined) == (*name == 'u');
    if (is(name, "none", ""))
        return k == JIN_none;
    if (is(name, "string", ""))
        return k == JIN_string;
    if (is(name, "mapping", ""))
        return k == JIN_dict;
    if (is(name, "number", ""))
        return jin_is_number(of);
    if (is(name, "integer", ""))
        return k == JIN_int;
    if (is(name, "float", ""))
        return k == JIN_float;
    if (is(name, "boolean", ""))
        return k == JIN_bool;
    if (is(name, "true", "false"))
        return k == JIN_bool && of->truth == (*name == 't');
    bool sequence = k == JIN_undefined || k == JIN_string || k == JIN_list || k == JIN_tuple ||
                    k == JIN_range || k == JIN_dict;
    return sequence || (is(name, "iterable", "") && (k == JIN_view || k == JIN_stream));
}

static bool ordered(Render *r, const char *name, const JinValue *a, const JinValue *b)
{
    int order = jin_compare(r, a, b);
    if (is(name, "lt", "lessthan"))
        return order < 0;
    if (is(name, "gt", "greaterthan"))
        return order > 0;
    return is(name, "le", "") ? order <= 0 : order >= 0;
}

static bool remainder_is(Render *r, const JinValue *of, int64_t by, int64_t what)
{
    if (of->kind != JIN_int && of->kind != JIN_bool)
        jin_render_fail(r, "%s has no remainder", jin_kind_name(of));
    if (!by)
        jin_render_fail(r, "a division by 0");
    return by == -1 ? !what : jin_whole_of(of) % by == what || jin_whole_of(of) % by + by == what;
}

bool jin_test(Render *r, const char *name, JinValue *of, Args *args)
{
    JinValue *other = jin_argument(r, args, 0, "");
    bool taken = true, found;
    if (is(name, "in", "sameas") || is(name, "eq", "equalto") || is(name, "==", "ne") ||
        is(name, "!=", "lt") || is(name, "lessthan", "gt") || is(name, "greaterthan", "le") ||
        is(name, "ge", "divisibleby")) {
        if (!other)
            jin_render_fail(r, "the test '%s' needs something to test with", name);
    } else if (other) {
        taken = false;
    }
    if (!taken)
        jin_render_fail(r, "the test '%s' takes no argument", name);
    if (is(name, "in", ""))
        found = jin_contains(r, other, of);
    else if (is(name, "sameas", ""))
        found = of->kind == other->kind && (of == other || of->kind == JIN_none ||
                                            (of->kind == JIN_bool && of->truth == other->truth));
    else if (is(name, "eq", "equalto") || is(name, "==", ""))
        found = jin_equal(r, of, other);
    else if (is(name, "ne", "!="))
        found = !jin_equal(r, of, other);
    else if (is(name, "lt", "lessthan") || is(name, "gt", "greaterthan") || is(name, "le", "ge"))
        found = ordered(r, name, of, other);
    else if (is(name, "odd", "even"))
        found = remainder_is(r, of, 2, *name == 'o');
    else if (is(name, "divisibleby", ""))
        found = remainder_is(r, of, jin_whole_argument(r, other, name), 0);
    else if (is(name, "lower", "upper"))
        found = has_case(r, of, *name == 'u');
    else
        found = by_kind(name, of);
    jin_no_more_arguments(r, args, name);
    return found;
}
