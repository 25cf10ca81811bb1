/* eval.c - expressions. */
#include "text/jinja/parts.h"

#include <math.h>

enum { STEPS = 50000000 };

JinValue *jin_lookup(Render *r, int name, bool *found)
{
    *found = true;
    for (const Frame *f = r->frame; f; f = f->outer)
        for (size_t i = 0; i < f->bound.n; i++)
            if (f->bound.data[i].name == name)
                return f->bound.data[i].value;
    *found = false;
    return NULL;
}

static JinValue *function(Render *r, const char *name)
{
    static const char *const functions[] = {"namespace", "dict", "range", "strftime_now",
                                            "raise_exception"};
    static const char *const absent[] = {"lipsum", "cycler", "joiner"};
    for (size_t i = 0; i < 5; i++)
        if (strcmp(functions[i], name) == 0) {
            JinValue *v = jin_value_new(r, JIN_function);
            v->text = name;
            v->n = strlen(name);
            return v;
        }
    for (size_t i = 0; i < 3; i++)
        if (strcmp(absent[i], name) == 0)
            jin_render_fail(r, "the function '%s' is not built", name);
    return jin_undefined_of(r, name, strlen(name));
}

static JinValue *variable(Render *r, const Node *n)
{
    bool found;
    JinValue *v = jin_lookup(r, n->name, &found);
    return found ? v : function(r, r->t->names.data[n->name]);
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

static bool row(const JinValue *v)
{
    return v->kind == JIN_list || v->kind == JIN_tuple;
}

static void not_safe(Render *r, const JinValue *a, const JinValue *b)
{
    if (a->safe || b->safe)
        jin_render_fail(r, "an operator beside a string after 'safe' is not built");
}

static const JinValue *escaped(Render *r, const JinValue *v)
{
    size_t from = r->n;
    if (v->safe)
        return v;
    for (size_t i = 0; i < v->n; i++) {
        char c = v->text[i];
        const char *as = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '\'' ? "&#39;"
                         : c == '"'  ? "&#34;"
                                     : NULL;
        jin_write_out(r, as ? as : &c, as ? strlen(as) : 1);
    }
    return jin_take_output(r, from);
}

static JinValue *joined(Render *r, const JinValue *a, const JinValue *b)
{
    char *both = jin_render_alloc(r, a->n + b->n + 1, 1);
    if (a->n)
        memcpy(both, a->text, a->n);
    if (b->n)
        memcpy(both + a->n, b->text, b->n);
    return jin_string_of(r, both, a->n + b->n);
}

static JinValue *appended(Render *r, const JinValue *a, const JinValue *b)
{
    JinValue *v = jin_list_of(r, a->kind, a->items + b->items);
    memcpy(v->item, a->item, a->items * sizeof *v->item);
    memcpy(v->item + a->items, b->item, b->items * sizeof *v->item);
    return v;
}

static JinValue *repeated(Render *r, const JinValue *a, int64_t times)
{
    size_t n = a->kind == JIN_string ? a->n : a->items, k = times > 0 ? (size_t)times : 0;
    if (n && k > 100000000 / n)
        jin_render_fail(r, "a repetition of more than 100000000");
    if (a->kind == JIN_string) {
        char *out = jin_render_alloc(r, n * k + 1, 1);
        for (size_t i = 0; n && i < k; i++)
            memcpy(out + i * n, a->text, n);
        return jin_string_of(r, out, n * k);
    }
    JinValue *v = jin_list_of(r, a->kind, n * k);
    for (size_t i = 0; n && i < n * k; i++)
        v->item[i] = a->item[i % n];
    return v;
}

static JinValue *real_result(Render *r, char op, double a, double b)
{
    JinValue *v = jin_value_new(r, JIN_float);
    if (!b && (op == '/' || op == 'd' || op == '%'))
        jin_render_fail(r, "a division by 0");
    double rest = op == '%' || op == 'd' ? fmod(a, b) : 0;
    if (rest && (rest < 0) != (b < 0))
        rest += b;
    v->real = op == '+'   ? a + b
              : op == '-' ? a - b
              : op == '*' ? a * b
              : op == '/' ? a / b
              : op == '%' ? rest
                          : floor((a - rest) / b + 0.5);
    return v;
}

static JinValue *whole_result(Render *r, char op, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool over = false;
    if (op == '+')
        over = __builtin_add_overflow(a, b, &out);
    else if (op == '-')
        over = __builtin_sub_overflow(a, b, &out);
    else if (op == '*')
        over = __builtin_mul_overflow(a, b, &out);
    else if (!b)
        jin_render_fail(r, "a division by 0");
    else if (b == -1) {
        over = op == 'd' && __builtin_sub_overflow((int64_t)0, a, &out);
    } else {
        int64_t rest = a % b;
        rest += rest && (rest < 0) != (b < 0) ? b : 0;
        out = op == '%' ? rest : (a - rest) / b;
    }
    if (over)
        jin_render_fail(r, "an integer that does not fit into 64 bits");
    return jin_integer_of(r, out);
}

static JinValue *arithmetic(Render *r, const Node *n, const JinValue *a, const JinValue *b)
{
    char op = n->text[1] ? 'd' : *n->text;
    if (op == '+' && a->kind == JIN_string && b->kind == JIN_string && a->safe != b->safe) {
        JinValue *both = joined(r, escaped(r, a), escaped(r, b)); /* as a safe string does */
        both->safe = true;
        return both;
    }
    not_safe(r, a, b);
    if (jin_is_number(a) && jin_is_number(b)) {
        if (op == '/' || a->kind == JIN_float || b->kind == JIN_float)
            return real_result(r, op, jin_real_of(a), jin_real_of(b));
        return whole_result(r, op, jin_whole_of(a), jin_whole_of(b));
    }
    if (op == '+' && a->kind == b->kind && a->kind == JIN_string)
        return joined(r, a, b);
    if (op == '+' && a->kind == b->kind && row(a))
        return appended(r, a, b);
    if (op == '*' && (a->kind == JIN_string || row(a)) && b->kind == JIN_int)
        return repeated(r, a, b->integer);
    if (op == '*' && (b->kind == JIN_string || row(b)) && a->kind == JIN_int)
        return repeated(r, b, a->integer);
    if (op == '%' && a->kind == JIN_string)
        jin_render_fail(r, "formatting a string by '%%' is not built");
    if (a->kind == JIN_undefined || b->kind == JIN_undefined) {
        const JinValue *u = a->kind == JIN_undefined ? a : b;
        jin_render_fail(r, "'%.*s' is undefined", (int)(u->n > 80 ? 80 : u->n), u->text);
    }
    jin_render_fail(r, "'%s' between %s and %s", n->text, jin_kind_name(a), jin_kind_name(b));
}

static JinValue *negated(Render *r, const JinValue *v, bool minus)
{
    if (v->kind == JIN_float) {
        JinValue *x = jin_value_new(r, JIN_float);
        x->real = minus ? -v->real : v->real;
        return x;
    }
    if (!jin_is_number(v))
        jin_render_fail(r, "the sign of %s", jin_kind_name(v));
    return whole_result(r, minus ? '-' : '+', 0, jin_whole_of(v));
}

/* ---- comparisons --------------------------------------------------------------------------- */

static bool holds(Render *r, const char *op, JinValue *a, JinValue *b)
{
    if (strcmp(op, "==") == 0)
        return jin_equal(r, a, b);
    if (strcmp(op, "!=") == 0)
        return !jin_equal(r, a, b);
    if (strcmp(op, "in") == 0)
        return jin_contains(r, b, a);
    if (strcmp(op, "not in") == 0)
        return !jin_contains(r, b, a);
    int order = jin_compare(r, a, b);
    if (op[0] == '<')
        return op[1] ? order <= 0 : order < 0;
    return op[1] ? order >= 0 : order > 0;
}

static JinValue *comparisons(Render *r, const Node *n)
{
    JinValue *left = jin_eval(r, n->a);
    for (size_t i = 0; i < n->list.n; i++) {
        JinValue *right = jin_eval(r, n->list.data[i]->a);
        if (!holds(r, n->list.data[i]->text, left, right))
            return jin_truth_of(r, false);
        left = right;
    }
    return jin_truth_of(r, true);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static Args arguments(Render *r, const Node *n)
{
    size_t k = n->list.n;
    Args args = {.n = k};
    if (!k)
        return args;
    args.value = jin_render_alloc(r, k, sizeof *args.value);
    args.name = jin_render_alloc(r, k, sizeof *args.name);
    args.taken = jin_render_alloc(r, k, sizeof *args.taken);
    for (size_t i = 0; i < k; i++) {
        args.value[i] = jin_eval(r, n->list.data[i]->a);
        args.name[i] = n->list.data[i]->name;
    }
    return args;
}

static int64_t bound_of(Render *r, const Node *n, int64_t otherwise, bool *given)
{
    JinValue *v = n ? jin_eval(r, n) : NULL;
    *given = v && v->kind != JIN_none;
    if (!*given)
        return otherwise;
    return jin_whole_argument(r, v, "a slice");
}

static JinValue *slice(Render *r, const Node *n)
{
    JinValue *of = jin_eval(r, n->a);
    bool has_from, has_to, has_step;
    int64_t from = bound_of(r, n->b, 0, &has_from), to = bound_of(r, n->c, 0, &has_to),
            step = bound_of(r, n->d, 1, &has_step);
    bool text = of->kind == JIN_string;
    r->here = n;
    if ((!text && !row(of)) || of->safe)
        jin_render_fail(r, "a slice of %s%s", jin_kind_name(of), of->safe ? " after 'safe'" : "");
    if (step != 1 && step != -1)
        jin_render_fail(r, "a slice with the step %lld is not built", (long long)step);
    int64_t size = (int64_t)(text ? jin_text_chars((Text){of->text, of->n}) : of->items);
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    from = !has_from ? (step < 0 ? high : low) : from < 0 ? from + size : from;
    to = !has_to ? (step < 0 ? low : high) : to < 0 ? to + size : to;
    from = from < low ? low : from > high ? high : from;
    to = to < low ? low : to > high ? high : to;
    int64_t count = step < 0 ? from - to : to - from;
    size_t k = count > 0 ? (size_t)count : 0;
    if (text && step < 0)
        jin_render_fail(r, "a string backwards by a slice is not built: '| reverse' is");
    if (text) {
        Text t = jin_text_slice((Text){of->text, of->n}, (size_t)from, (size_t)from + k);
        return jin_string_of(r, t.p, t.n);
    }
    JinValue *v = jin_list_of(r, of->kind, k);
    for (size_t i = 0; i < k; i++)
        v->item[i] = of->item[from + (int64_t)i * step];
    return v;
}

static JinValue *row_of(Render *r, const Node *n)
{
    JinValue *v = jin_list_of(r, n->kind == NODE_list ? JIN_list : JIN_tuple, n->list.n);
    for (size_t i = 0; i < n->list.n; i++)
        v->item[i] = jin_eval(r, n->list.data[i]);
    return v;
}

static JinValue *dict_of(Render *r, const Node *n)
{
    JinValue *v = jin_value_new(r, JIN_dict);
    for (size_t i = 0; i < n->list.n; i += 2) {
        JinValue *key = jin_eval(r, n->list.data[i]), *value = jin_eval(r, n->list.data[i + 1]);
        jin_dict_put(r, v, key, value);
    }
    return v;
}

static JinValue *member_of(Render *r, const Node *n)
{
    JinValue *of = jin_eval(r, n->a);
    r->here = n;
    if (of->kind == JIN_namespace && r->loop_filters)
        jin_render_fail(r, "a namespace in the condition of a loop is not built");
    return jin_member(r, of, n->text, n->n);
}

static JinValue *both_as_text(Render *r, const Node *n)
{
    JinValue *a = jin_eval(r, n->a), *b = jin_eval(r, n->b);
    r->here = n;
    a = jin_as_string(r, a);
    b = jin_as_string(r, b);
    return joined(r, a, b);
}

static JinValue *pair(Render *r, const Node *n)
{
    JinValue *a = jin_eval(r, n->a), *b = jin_eval(r, n->b);
    r->here = n;
    return n->kind == NODE_item ? jin_item(r, a, b) : arithmetic(r, n, a, b);
}

static JinValue *called(Render *r, const Node *n)
{
    JinValue *f = jin_eval(r, n->a);
    Args args = arguments(r, n);
    r->here = n;
    return jin_call(r, f, &args);
}

static JinValue *filtered(Render *r, const Node *n)
{
    JinValue *of = jin_eval(r, n->a);
    Args args = arguments(r, n);
    r->here = n;
    if (n->kind == NODE_test)
        return jin_truth_of(r, jin_test(r, n->text, of, &args));
    return jin_filter(r, n->text, of, &args);
}

static JinValue *either(Render *r, const Node *n)
{
    JinValue *a = jin_eval(r, n->a);
    return jin_truthy(a) == (n->kind == NODE_or) ? a : jin_eval(r, n->b);
}

static JinValue *choice(Render *r, const Node *n)
{
    if (jin_truthy(jin_eval(r, n->b)))
        return jin_eval(r, n->a);
    return n->c ? jin_eval(r, n->c) : jin_undefined_of(r, "an 'if' without 'else'", 22);
}

static JinValue *eval_kind(Render *r, const Node *n)
{
    switch (n->kind) {
    case NODE_constant:
        return n->value;
    case NODE_name:
        return variable(r, n);
    case NODE_list:
    case NODE_tuple:
        return row_of(r, n);
    case NODE_dict:
        return dict_of(r, n);
    case NODE_member:
        return member_of(r, n);
    case NODE_slice:
        return slice(r, n);
    case NODE_call:
        return called(r, n);
    case NODE_filter:
    case NODE_test:
        return filtered(r, n);
    case NODE_not:
        return jin_truth_of(r, !jin_truthy(jin_eval(r, n->a)));
    case NODE_and:
    case NODE_or:
        return either(r, n);
    case NODE_choice:
        return choice(r, n);
    case NODE_compare:
        return comparisons(r, n);
    case NODE_item:
    case NODE_binary:
        return pair(r, n);
    case NODE_negative:
    case NODE_positive:
        return negated(r, jin_eval(r, n->a), n->kind == NODE_negative);
    case NODE_concat:
        return both_as_text(r, n);
    case NODE_body:
    case NODE_data:
    case NODE_output:
    case NODE_for:
    case NODE_if:
    case NODE_set:
    case NODE_set_block:
    case NODE_macro:
    case NODE_break:
    case NODE_continue:
    case NODE_generation:
        break;
    }
    jin_render_fail(r, "no expression");
}

JinValue *jin_eval(Render *r, const Node *n)
{
    const Node *before = r->here;
    r->here = n;
    jin_deeper(r);
    if (++r->steps > STEPS)
        jin_render_fail(r, "the template takes more than %d steps", STEPS);
    JinValue *v = eval_kind(r, n);
    r->depth--;
    r->here = before;
    return v;
}
