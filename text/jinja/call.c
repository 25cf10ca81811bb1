/* call.c - members, items, functions and what they are called with. */
#include "text/jinja/parts.h"

#include <stdio.h>

/* ---- arguments ----------------------------------------------------------------------------- */

JinValue *jin_argument(Render *r, Args *args, size_t i, const char *name)
{
    JinValue *found = NULL;
    for (size_t k = 0; k < args->n; k++) {
        bool here = args->name[k] < 0 ? k == i : strcmp(r->t->names.data[args->name[k]], name) == 0;
        if (here && found)
            jin_render_fail(r, "'%s' is given twice", name);
        if (here) {
            found = args->value[k];
            args->taken[k] = true;
        }
    }
    return found;
}

void jin_no_more_arguments(Render *r, const Args *args, const char *what)
{
    for (size_t k = 0; k < args->n; k++)
        if (!args->taken[k])
            jin_render_fail(r, "'%s' with an argument %s%s that is not built", what,
                            args->name[k] < 0 ? "" : "named ",
                            args->name[k] < 0 ? "more" : r->t->names.data[args->name[k]]);
}

Text jin_text_argument(Render *r, JinValue *v, const char *what)
{
    if (!v || v->kind != JIN_string || v->safe)
        jin_render_fail(r, "'%s' needs a string, not %s", what, v ? jin_kind_name(v) : "nothing");
    return (Text){v->text, v->n};
}

int64_t jin_whole_argument(Render *r, JinValue *v, const char *what)
{
    if (!v || (v->kind != JIN_int && v->kind != JIN_bool))
        jin_render_fail(r, "'%s' needs an integer, not %s", what, v ? jin_kind_name(v) : "nothing");
    return jin_whole_of(v);
}

/* ---- members and items --------------------------------------------------------------------- */

static JinValue *loop_member(Render *r, const LoopState *l, const char *name)
{
    size_t i = l->index;
    if (strcmp(name, "index") == 0)
        return jin_integer_of(r, (int64_t)i + 1);
    if (strcmp(name, "index0") == 0)
        return jin_integer_of(r, (int64_t)i);
    if (strcmp(name, "first") == 0)
        return jin_truth_of(r, i == 0);
    if (strcmp(name, "last") == 0)
        return jin_truth_of(r, i + 1 == l->n);
    if (strcmp(name, "length") == 0)
        return jin_integer_of(r, (int64_t)l->n);
    if (strcmp(name, "revindex") == 0)
        return jin_integer_of(r, (int64_t)(l->n - i));
    if (strcmp(name, "revindex0") == 0)
        return jin_integer_of(r, (int64_t)(l->n - i) - 1);
    if (strcmp(name, "previtem") == 0)
        return i ? l->item[i - 1] : jin_undefined_of(r, "there is no previous item", 25);
    if (strcmp(name, "nextitem") == 0)
        return i + 1 < l->n ? l->item[i + 1] : jin_undefined_of(r, "there is no next item", 21);
    jin_render_fail(r, "'loop.%s' is not built", name);
}

static JinValue *method_of(Render *r, JinValue *self, const char *name, size_t n)
{
    JinValue *v = jin_value_new(r, JIN_method);
    v->text = name;
    v->n = n;
    v->self = self;
    return v;
}

static void must_be_defined(Render *r, const JinValue *of)
{
    if (of->kind == JIN_undefined)
        jin_render_fail(r, "'%.*s' is undefined", (int)(of->n > 80 ? 80 : of->n), of->text);
}

/* Members of Python's numbers, generators and views. */
static bool python_has(const char *name)
{
    static const char *const names[] = {
        "as_integer_ratio", "bit_count",    "bit_length",  "conjugate",
        "denominator",      "from_bytes",   "imag",        "is_integer",
        "numerator",        "real",         "to_bytes",    "hex",
        "fromhex",          "close",        "send",        "throw",
        "mapping",          "isdisjoint",   "gi_code",     "gi_frame",
        "gi_running",       "gi_yieldfrom", "gi_suspended"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

JinValue *jin_member(Render *r, JinValue *of, const char *name, size_t n)
{
    JinValue *found = NULL;
    must_be_defined(r, of);
    if (n > 1 && name[0] == '_' && name[1] == '_')
        jin_render_fail(r, "'%s' is not allowed in a template", name);
    switch (of->kind) {
    case JIN_loop:
        return loop_member(r, of->loop, name);
    case JIN_namespace:
        found = jin_dict_text(of, name, n);
        break;
    case JIN_dict:
    case JIN_string:
    case JIN_list:
    case JIN_tuple:
        if (jin_method_known(of, name, n))
            return method_of(r, of, name, n);
        found = of->kind == JIN_dict ? jin_dict_text(of, name, n) : NULL;
        break;
    case JIN_range:
    case JIN_macro:
    case JIN_function:
    case JIN_method:
        jin_render_fail(r, "'%s' of %s is not built", name, jin_kind_name(of));
    case JIN_bool:
    case JIN_int:
    case JIN_float:
    case JIN_view:
    case JIN_stream:
        if (python_has(name))
            jin_render_fail(r, "'%s' of %s is not built", name, jin_kind_name(of));
        break;
    case JIN_none:
    case JIN_undefined:
        break;
    }
    return found ? found : jin_undefined_of(r, name, n);
}

static JinValue *indexed(Render *r, const JinValue *of, int64_t i)
{
    bool text = of->kind == JIN_string;
    size_t n = text ? jin_text_chars((Text){of->text, of->n}) : of->items;
    if (i < 0)
        i += (int64_t)n;
    if (i < 0 || (size_t)i >= n)
        return jin_undefined_of(r, "an item behind the end", 22);
    if (!text)
        return of->item[i];
    Text t = jin_text_slice((Text){of->text, of->n}, (size_t)i, (size_t)i + 1);
    return jin_string_of(r, t.p, t.n);
}

JinValue *jin_item(Render *r, JinValue *of, JinValue *key)
{
    must_be_defined(r, of);
    if (of->safe)
        jin_render_fail(r, "an item of a string after 'safe' is not built");
    if (of->kind == JIN_dict) {
        JinValue *found = jin_dict_get(r, of, key);
        if (found)
            return found;
    }
    bool row = of->kind == JIN_string || of->kind == JIN_list || of->kind == JIN_tuple ||
               of->kind == JIN_range;
    if (row && (key->kind == JIN_int || key->kind == JIN_bool))
        return indexed(r, of, jin_whole_of(key));
    if (key->kind == JIN_string)
        return of->kind == JIN_loop || of->kind == JIN_namespace || of->kind == JIN_dict ||
                       of->kind == JIN_none || row
                   ? jin_member(r, of, arena_strndup(r->a, key->text, key->n), key->n)
                   : jin_undefined_of(r, key->text, key->n);
    return jin_undefined_of(r, "an item", 7);
}

/* ---- functions ----------------------------------------------------------------------------- */

static JinValue *call_range(Render *r, Args *args)
{
    int64_t from = 0, to, step = 1;
    JinValue *a = jin_argument(r, args, 0, "start"), *b = jin_argument(r, args, 1, "stop"),
             *c = jin_argument(r, args, 2, "step");
    to = jin_whole_argument(r, a, "range");
    if (b) {
        from = to;
        to = jin_whole_argument(r, b, "range");
    }
    if (c)
        step = jin_whole_argument(r, c, "range");
    if (!step || step > 1 << 30 || step < -(1 << 30))
        jin_render_fail(r, "a range with the step %lld", (long long)step);
    int64_t span = step > 0 ? to - from : from - to, by = step > 0 ? step : -step;
    size_t n = span > 0 ? (size_t)((span + by - 1) / by) : 0;
    if (n > 100000)
        jin_render_fail(r, "a range of more than 100000");
    JinValue *v = jin_list_of(r, JIN_range, n);
    for (size_t i = 0; i < n; i++)
        v->item[i] = jin_integer_of(r, from + (int64_t)i * step);
    return v;
}

/* namespace(a=1), dict(a=1), each perhaps with a dict before. */
static JinValue *call_dict(Render *r, JinKind kind, const Args *args)
{
    JinValue *v = jin_value_new(r, kind);
    for (size_t k = 0; k < args->n; k++) {
        JinValue *given = args->value[k];
        if (args->name[k] >= 0) {
            const char *name = r->t->names.data[args->name[k]];
            jin_dict_put(r, v, jin_string_of(r, name, strlen(name)), given);
            continue;
        }
        if (k || given->kind != JIN_dict)
            jin_render_fail(r, "a dict of %s is not built", jin_kind_name(given));
        for (size_t i = 0; i < given->pairs; i++)
            jin_dict_put(r, v, given->pair[i].key, given->pair[i].value);
    }
    return v;
}

_Noreturn static void raise_exception(Render *r, Args *args)
{
    JinValue *said = jin_argument(r, args, 0, "message");
    jin_no_more_arguments(r, args, "raise_exception");
    if (said)
        said = jin_as_string(r, said);
    size_t n = said ? said->n : 0;
    *r->e = (JinError){.at = r->here->at, .end = r->here->end, .raised = true};
    snprintf(r->e->text, sizeof r->e->text, "the template refuses it: %.*s",
             (int)(n > 200 ? 200 : n), n ? said->text : "");
    longjmp(r->fail, 1);
}

static JinValue *strftime_now(Render *r, Args *args)
{
    char form[256], out[512];
    struct tm tm;
    Text f = jin_text_argument(r, jin_argument(r, args, 0, "format"), "strftime_now");
    jin_no_more_arguments(r, args, "strftime_now");
    if (f.n >= sizeof form || memchr(f.p, 0, f.n))
        jin_render_fail(r, "a format of more than 255 characters");
    memcpy(form, f.p, f.n);
    form[f.n] = 0;
    localtime_r(&r->now, &tm);
    size_t n = strftime(out, sizeof out, form, &tm);
    return jin_string_copy(r, out, n);
}

JinValue *jin_call(Render *r, JinValue *f, Args *args)
{
    if (f->kind == JIN_macro)
        return jin_call_macro(r, f, args);
    if (f->kind == JIN_method)
        return jin_method_call(r, f, args);
    must_be_defined(r, f);
    if (f->kind != JIN_function)
        jin_render_fail(r, "%s cannot be called", jin_kind_name(f));
    if (strcmp(f->text, "namespace") == 0)
        return call_dict(r, JIN_namespace, args);
    if (strcmp(f->text, "dict") == 0)
        return call_dict(r, JIN_dict, args);
    if (strcmp(f->text, "range") == 0)
        return call_range(r, args);
    if (strcmp(f->text, "strftime_now") == 0)
        return strftime_now(r, args);
    if (strcmp(f->text, "raise_exception") == 0)
        raise_exception(r, args);
    jin_render_fail(r, "the function '%s' is not built", f->text);
}
