/* import_eval.c - expressions of templates, computed as they are read.
 *
 *   choice   EITHER ? THEN : ELSE        only the one that is chosen is computed
 *   logic    a or b, a and b, not a      b only where it counts
 *   compare  == != < <= > >= , in        `in` a list
 *   numbers  + - * / // %                whole numbers stay whole; + joins texts and lists
 *   values   1 2.5 "text" true false null [1, 2] [l % 2 for l < 32] {"a": 1} name name(...) x[0]
 *
 * Values are those of JSON. */
#include "compiler/import/import.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 60, LIST_MAX = 100000, NUMBER_MAX = 1 << 30 };

json_t *import_own(Import *h, json_t *v)
{
    json_array_append_new(h->owned, v);
    return v;
}

bool import_true(const json_t *v)
{
    return v && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_number(v) && json_number_value(v) == 0);
}

bool import_refuse(Cursor *c, uint32_t begin, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    char *text = arena_alloc(c->h->s->arena, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    if (!c->failed)
        diag_error(c->h->s->diag, (Span){c->file, begin, c->at > begin ? c->at : begin + 1}, 575,
                   "%s", text);
    c->failed = true;
    return false;
}

/* ---- words and marks ------------------------------------------------------------------------- */

static void blanks(Cursor *c)
{
    while (c->at < c->end && (c->text[c->at] == ' ' || c->text[c->at] == '\t'))
        c->at++;
}

static bool of_name(char x)
{
    return isalnum((unsigned char)x) || x == '_';
}

bool import_ends(Cursor *c)
{
    blanks(c);
    return c->at == c->end;
}

bool import_accept(Cursor *c, const char *token)
{
    const uint32_t n = (uint32_t)strlen(token);
    blanks(c);
    if (c->end - c->at < n || strncmp(c->text + c->at, token, n) != 0)
        return false;
    if (of_name(token[0]) && c->at + n < c->end && of_name(c->text[c->at + n]))
        return false;
    c->at += n;
    return true;
}

bool import_expect(Cursor *c, const char *token)
{
    if (import_accept(c, token))
        return true;
    return import_refuse(c, c->at, "'%s' is expected here", token);
}

const char *import_name(Cursor *c, bool dots)
{
    blanks(c);
    const uint32_t begin = c->at;
    while (c->at < c->end &&
           (of_name(c->text[c->at]) || (dots && c->at > begin && c->text[c->at] == '.')))
        c->at++;
    if (c->at > begin && !isdigit((unsigned char)c->text[begin]))
        return arena_printf(c->h->s->arena, "%.*s", (int)(c->at - begin), c->text + begin);
    c->at = begin;
    import_refuse(c, begin, "a name is expected here");
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static json_t *expression(Cursor *c);

static json_t *number(Cursor *c)
{
    const char *begin = c->text + c->at;
    char *end;
    const double x = strtod(begin, &end);
    const bool whole = (size_t)(end - begin) == strspn(begin, "0123456789");
    if (end > c->text + c->end || (whole && x > NUMBER_MAX * 1e6)) {
        import_refuse(c, c->at, "this number cannot be read");
        return NULL;
    }
    c->at += (uint32_t)(end - begin);
    return import_own(c->h, whole ? json_integer((json_int_t)x) : json_real(x));
}

static json_t *string(Cursor *c)
{
    const uint32_t begin = c->at++;
    while (c->at < c->end && c->text[c->at] != '"')
        c->at++;
    if (c->at == c->end) {
        import_refuse(c, begin, "this text has no end");
        return NULL;
    }
    c->at++;
    return import_own(c->h, json_stringn(c->text + begin + 1, c->at - begin - 2));
}

/* [EXPRESSION for NAME < SIZE]: the expression is read again for each index. */
static json_t *listed_for(Cursor *c, uint32_t body)
{
    const uint32_t begin = c->at;
    const char *name = import_name(c, false);
    json_t *size = name && import_expect(c, "<") ? expression(c) : NULL;
    if (!size || !import_expect(c, "]"))
        return NULL;
    if (c->dead)
        return size;
    if (!json_is_integer(size) || json_integer_value(size) < 0 ||
        json_integer_value(size) > LIST_MAX) {
        import_refuse(c, begin, "the size of a list is a whole number up to %d", LIST_MAX);
        return NULL;
    }
    json_t *list = import_own(c->h, json_array());
    json_t *was = json_object_get(c->h->values, name);
    if (was)
        import_own(c->h, json_incref(was));
    Cursor again = *c;
    for (json_int_t i = 0; i < json_integer_value(size) && !again.failed; i++) {
        json_object_set_new(c->h->values, name, json_integer(i));
        again.at = body;
        json_array_append(list, expression(&again));
    }
    if (was)
        json_object_set(c->h->values, name, was);
    else
        json_object_del(c->h->values, name);
    c->failed = again.failed;
    return c->failed ? NULL : list;
}

static json_t *list(Cursor *c)
{
    json_t *all = import_own(c->h, json_array()), *one;
    if (import_accept(c, "]"))
        return all;
    for (uint32_t body = c->at;; body = c->at) {
        /* An element that needs the index is not computed before the index is there. */
        Cursor ahead = *c;
        ahead.dead++;
        if (!c->dead && !json_array_size(all) && expression(&ahead) &&
            import_accept(&ahead, "for")) {
            ahead.dead--;
            *c = ahead;
            return listed_for(c, body);
        }
        if (!(one = expression(c)))
            return NULL;
        if (c->dead && import_accept(c, "for"))
            return listed_for(c, body);
        json_array_append(all, one);
        if (import_accept(c, "]"))
            return all;
        if (!import_expect(c, ","))
            return NULL;
    }
}

static json_t *object(Cursor *c)
{
    json_t *all = import_own(c->h, json_object());
    while (!import_accept(c, "}")) {
        json_t *key = expression(c);
        json_t *v = key && import_expect(c, ":") ? expression(c) : NULL;
        if (!v || (!import_accept(c, ",") && (c->at == c->end || c->text[c->at] != '}'))) {
            import_refuse(c, c->at, "'}' is expected here");
            return NULL;
        }
        if (json_is_string(key))
            json_object_set(all, json_string_value(key), v);
    }
    return all;
}

static json_t *called(Cursor *c, uint32_t begin, const char *name)
{
    json_t *args = import_own(c->h, json_array()), *v;
    while (!import_accept(c, ")")) {
        if (!(v = expression(c)))
            return NULL;
        json_array_append(args, v);
        if (!import_accept(c, ",") && (c->at == c->end || c->text[c->at] != ')')) {
            import_refuse(c, c->at, "')' is expected here");
            return NULL;
        }
    }
    return c->dead ? args : import_call(c, begin, name, args);
}

static json_t *named(Cursor *c)
{
    const uint32_t begin = c->at;
    const char *name = import_name(c, false);
    if (!name)
        return NULL;
    if (!strcmp(name, "true") || !strcmp(name, "false"))
        return import_own(c->h, json_boolean(*name == 't'));
    if (!strcmp(name, "null"))
        return import_own(c->h, json_null());
    if (import_accept(c, "("))
        return called(c, begin, name);
    json_t *v = json_object_get(c->h->values, name);
    if (!v && c->dead)
        return import_own(c->h, json_null());
    if (!v)
        import_refuse(c, begin, "there is no key and no value '%s' before this line", name);
    return v;
}

static json_t *primary(Cursor *c)
{
    blanks(c);
    const char x = c->at < c->end ? c->text[c->at] : 0;
    if (isdigit((unsigned char)x))
        return number(c);
    if (x == '"')
        return string(c);
    if (import_accept(c, "["))
        return list(c);
    if (import_accept(c, "{"))
        return object(c);
    if (!import_accept(c, "("))
        return named(c);
    json_t *v = expression(c);
    return v && import_expect(c, ")") ? v : NULL;
}

/* x[0] of a list, x["key"] of an object: null where there is none. */
static json_t *postfix(Cursor *c)
{
    json_t *v = primary(c), *i;
    while (v && import_accept(c, "[")) {
        if (!(i = expression(c)) || !import_expect(c, "]"))
            return NULL;
        json_t *found = json_is_string(i)    ? json_object_get(v, json_string_value(i))
                        : json_is_integer(i) ? json_array_get(v, (size_t)json_integer_value(i))
                                             : NULL;
        v = found ? found : import_own(c->h, json_null());
    }
    return v;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static json_t *of_reals(Cursor *c, uint32_t begin, char op, double a, double b)
{
    double x = op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b;
    if (op == 'f')
        x = floor(a / b);
    if (op == '%')
        x = a - b * floor(a / b);
    if (isfinite(x))
        return import_own(c->h, json_real(x));
    import_refuse(c, begin, "%g %c %g is no number", a, op == 'f' ? '/' : op, b);
    return NULL;
}

static json_t *of_wholes(Cursor *c, uint32_t begin, char op, int64_t a, int64_t b)
{
    int64_t x = 0;
    if ((op == 'f' || op == '%') && b > 0)
        x = op == 'f' ? a / b - (a % b < 0) : (a % b + b) % b;
    else if (op == '/' && b && a % b == 0)
        x = a / b;
    else if (op == '/' || op == 'f' || op == '%')
        return of_reals(c, begin, op, (double)a, (double)b);
    else if (op == '+'   ? __builtin_add_overflow(a, b, &x)
             : op == '-' ? __builtin_sub_overflow(a, b, &x)
                         : __builtin_mul_overflow(a, b, &x)) {
        import_refuse(c, begin, "%lld %c %lld is too large", (long long)a, op, (long long)b);
        return NULL;
    }
    return import_own(c->h, json_integer(x));
}

static json_t *joined(Import *h, json_t *a, json_t *b)
{
    if (json_is_array(a)) {
        json_t *all = import_own(h, json_copy(a));
        json_array_extend(all, b);
        return all;
    }
    const char *left = json_is_string(a) ? json_string_value(a) : import_number(h, a);
    const char *right = json_is_string(b) ? json_string_value(b) : import_number(h, b);
    return import_own(h, json_string(arena_printf(h->s->arena, "%s%s", left, right)));
}

static json_t *compute(Cursor *c, uint32_t begin, char op, json_t *a, json_t *b)
{
    if (!a || !b || c->dead)
        return a && b ? a : NULL;
    if (json_is_integer(a) && json_is_integer(b))
        return of_wholes(c, begin, op, json_integer_value(a), json_integer_value(b));
    if (json_is_number(a) && json_is_number(b))
        return of_reals(c, begin, op, json_number_value(a), json_number_value(b));
    const bool texts =
        (json_is_string(a) || json_is_number(a)) && (json_is_string(b) || json_is_number(b));
    if (op == '+' && (texts || (json_is_array(a) && json_is_array(b))))
        return joined(c->h, a, b);
    import_refuse(c, begin, "%s and %s are no numbers", import_shown(c->h, a),
                  import_shown(c->h, b));
    return NULL;
}

static json_t *unary(Cursor *c)
{
    blanks(c);
    const uint32_t begin = c->at;
    if (!import_accept(c, "-"))
        return postfix(c);
    return compute(c, begin, '-', import_own(c->h, json_integer(0)), unary(c));
}

static json_t *term(Cursor *c)
{
    blanks(c);
    const uint32_t begin = c->at;
    json_t *v = unary(c);
    while (v) {
        const char op = import_accept(c, "*")    ? '*'
                        : import_accept(c, "//") ? 'f'
                        : import_accept(c, "/")  ? '/'
                        : import_accept(c, "%")  ? '%'
                                                 : 0;
        if (!op)
            break;
        v = compute(c, begin, op, v, unary(c));
    }
    return v;
}

static json_t *sum(Cursor *c)
{
    blanks(c);
    const uint32_t begin = c->at;
    json_t *v = term(c);
    while (v) {
        const char op = import_accept(c, "+") ? '+' : import_accept(c, "-") ? '-' : 0;
        if (!op)
            break;
        v = compute(c, begin, op, v, term(c));
    }
    return v;
}

/* ---- logic ----------------------------------------------------------------------------------- */

static bool contains(const json_t *list, const json_t *v)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
        if (import_same(one, v))
            return true;
    return false;
}

static json_t *compare(Cursor *c)
{
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">", "in"};
    blanks(c);
    const uint32_t begin = c->at;
    size_t op = 0;
    json_t *a = sum(c), *b;
    while (a && op < 7 && !import_accept(c, ops[op]))
        op++;
    if (!a || op == 7)
        return a;
    if (!(b = sum(c)) || c->dead)
        return b;
    const bool ordered = json_is_number(a) && json_is_number(b);
    if ((op >= 2 && op < 6 && !ordered) || (op == 6 && !json_is_array(b))) {
        import_refuse(c, begin, "%s and %s are not compared by '%s'", import_shown(c->h, a),
                      import_shown(c->h, b), ops[op]);
        return NULL;
    }
    const double x = json_number_value(a), y = json_number_value(b);
    const bool is[] = {import_same(a, b), !import_same(a, b), x <= y, x >= y,
                       x<y, x> y,         contains(b, a)};
    return import_own(c->h, json_boolean(is[op]));
}

static json_t *negation(Cursor *c)
{
    if (!import_accept(c, "not"))
        return compare(c);
    json_t *v = negation(c);
    return v ? import_own(c->h, json_boolean(!import_true(v))) : NULL;
}

/* Both sides are read; the second is computed unless the first decides. */
static json_t *logic(Cursor *c, bool any)
{
    json_t *v = any ? logic(c, false) : negation(c);
    while (v && import_accept(c, any ? "or" : "and")) {
        const bool decided = import_true(v) == any;
        c->dead += decided;
        json_t *other = any ? logic(c, false) : negation(c);
        c->dead -= decided;
        v = !other ? NULL : decided ? v : other;
    }
    return v;
}

static json_t *expression(Cursor *c)
{
    if (++c->depth > DEPTH_MAX) {
        import_refuse(c, c->at, "this is too deep");
        return NULL;
    }
    json_t *v = logic(c, true);
    if (v && import_accept(c, "?")) {
        const bool chosen = import_true(v);
        c->dead += !chosen;
        json_t *then = expression(c);
        c->dead += chosen - !chosen;
        json_t *otherwise = then && import_expect(c, ":") ? expression(c) : NULL;
        c->dead -= chosen;
        v = !otherwise ? NULL : chosen ? then : otherwise;
    }
    c->depth--;
    return v;
}

json_t *import_eval(Cursor *c)
{
    return expression(c);
}
