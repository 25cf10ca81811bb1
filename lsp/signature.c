/* signature.c - the parameters of the call around the cursor: of a block, a function or an
 * optimizer of the text or of the language, and which of them is being given. */
#include "lsp/context.h"
#include "lsp/server.h"

#include <string.h>

enum { PARAMETERS_MAX = 64 };

/* A call as it is written where it is declared: "rmsnorm(x, gain, over d, eps =)". */
typedef struct Form {
    const char *text;
    size_t begin[PARAMETERS_MAX], end[PARAMETERS_MAX]; /* of its parameters, bytes */
    int n;
} Form;

/* ---- forms --------------------------------------------------------------------------------- */

/* Of a declaration its name and what is in the parentheses behind it, on one line and without
 * comments. */
static const char *head_text(const Index *x, Span name)
{
    const char *from = x->ast->text + name.begin;
    char *out = arena_alloc(x->arena, strlen(from) + 1), *to = out;
    int depth = 0;
    for (const char *c = from; *c; c++) {
        if (*c == '#')
            c += strcspn(c, "\n");
        if (!*c)
            break;
        const bool blank = *c == ' ' || *c == '\t' || *c == '\n' || *c == '\r';
        if (blank && (to == out || to[-1] == ' ' || to[-1] == '('))
            continue;
        *to++ = (char)(blank ? ' ' : *c & 0x80 ? '?' : *c); /* as UTF-16 counts it */
        depth += (*c == '(' || *c == '[') - (*c == ')' || *c == ']');
        if (*c == ')' && depth <= 0)
            break;
    }
    *to = 0;
    return out;
}

/* The parameters: what stands between the commas of the outermost parentheses. */
static void find_parameters(Form *f)
{
    const char *open = strchr(f->text, '(');
    int depth = 0;
    f->n = 0;
    for (const char *c = open ? open + 1 : "", *from = c; open && f->n < PARAMETERS_MAX; c++) {
        if (!*c || (!depth && (*c == ',' || *c == ')'))) {
            const char *end = c;
            while (from < end && *from == ' ')
                from++;
            while (end > from && end[-1] == ' ')
                end--;
            if (end > from) {
                f->begin[f->n] = (size_t)(from - f->text);
                f->end[f->n++] = (size_t)(end - f->text);
            }
            from = c + 1;
            if (!*c || *c == ')')
                return;
        }
        depth += (*c == '(' || *c == '[') - (*c == ')' || *c == ']');
    }
}

static const char *schedule_text(const Index *x, const char *name)
{
    for (size_t k = 0; mg_schedule(k); k++) {
        if (strcmp(mg_schedule(k), name) != 0)
            continue;
        const char *text = arena_printf(x->arena, "%s(", name), *between = "";
        for (size_t i = 0; mg_schedule_option(k, i); i++, between = ", ")
            text = arena_printf(x->arena, "%s%s%s =", text, between, mg_schedule_option(k, i));
        return arena_printf(x->arena, "%s)", text);
    }
    return NULL;
}

/* A form of what is called by a name in a train block, or in a body; NULL: nothing is known. */
static const char *form_of(Server *s, const Index *x, const Node *owner, const char *name,
                           bool train)
{
    const Name n = name_intern(x->names, name);
    int k = index_find(x, train ? DECL_optimizer : DECL_block, NULL, n);
    const int instance = train ? -1 : index_find(x, DECL_instance, owner, n);
    const Node *of = instance >= 0 ? x->decls.data[instance].node : NULL;
    if (of && x->decls.data[instance].kind == DECL_instance && of->a) {
        k = index_find(x, DECL_block, NULL, of->a->name);
        name = index_text(x, of->a->name);
    }
    if (k >= 0)
        return head_text(x, x->decls.data[k].at);
    const Node *p = prelude_find(s, name, train);
    if (p)
        return head_text(server_prelude(s), p->at);
    return train ? schedule_text(x, name) : mg_function_usage(name, x->arena);
}

/* ---- the call ------------------------------------------------------------------------------ */

/* The innermost parenthesis that is open behind a name; -1: none. */
static int called_at(const Context *c)
{
    for (int k = c->nopen - 1; k >= 0; k--) {
        const size_t at = c->open[k];
        const MgToken *head = at ? context_token(c, at - 1) : NULL;
        if (context_is(c, at, "{"))
            return -1;
        if (context_is(c, at, "(") && head && head->kind == TOKEN_name)
            return k;
    }
    return -1;
}

/* The number of commas before the cursor in a call, and the first token of the argument there. */
static int argument_at(const Context *c, int call, size_t *first)
{
    int depth = 0, n = 0;
    *first = c->open[call] + 1;
    for (size_t i = *first; i < c->n; i++) {
        depth += context_is(c, i, "(") || context_is(c, i, "[");
        depth -= context_is(c, i, ")") || context_is(c, i, "]");
        if (!depth && context_is(c, i, ",")) {
            n++;
            *first = i + 1;
        }
    }
    return n;
}

/* The parameter that is given: by its name where the argument begins with one, else by its number.
 */
static int active_parameter(const Context *c, const Form *f, int call)
{
    size_t first;
    const int n = argument_at(c, call, &first);
    const MgToken *t = context_token(c, first);
    const bool named = t && (context_is(c, first + 1, "=") || context_is(c, first, "over") ||
                             context_is(c, first, "along"));
    for (int i = 0; named && i < f->n; i++) {
        const size_t size = t->at.end - t->at.begin;
        const char *p = f->text + f->begin[i];
        if (f->end[i] - f->begin[i] >= size && !memcmp(p, c->x->ast->text + t->at.begin, size) &&
            (p[size] == ' ' || p[size] == '=' || p + size == f->text + f->end[i]))
            return i;
    }
    return n < f->n ? n : f->n ? f->n - 1 : 0;
}

json_t *signature(Server *s, Document *d, const json_t *params, Refusal *r)
{
    size_t byte;
    const Index *x = document_index(d);
    Context c;
    Form f = {0};
    if (!position_byte(d, params, &byte, r))
        return NULL;
    if (!x || !context_read(&c, x, byte))
        return json_null();
    const int call = called_at(&c);
    const MgToken *head = call >= 0 ? context_token(&c, c.open[call] - 1) : NULL;
    if (head)
        f.text = form_of(s, x, context_owner(&c, byte), index_text(x, head->name),
                         context_is(&c, c.item, "train"));
    if (!f.text)
        return json_null();
    find_parameters(&f);
    json_t *all = json_array();
    for (int i = 0; i < f.n; i++)
        json_array_append_new(
            all, json_pack("{s:[I, I]}", "label", (json_int_t)f.begin[i], (json_int_t)f.end[i]));
    return json_pack("{s:[{s:s, s:o}], s:i, s:i}", "signatures", "label", f.text, "parameters", all,
                     "activeSignature", 0, "activeParameter", active_parameter(&c, &f, call));
}
