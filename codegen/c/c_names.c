/* c_names.c - names in a kernel: the names of its formula and of dims, made safe for C. At each
 * place a name means one thing. */
#include "codegen/c/c_gen.h"

#include <ctype.h>
#include <string.h>

/* Words of C and of its library that a kernel may use. */
static const char words[] =
    "args begin end "
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while bool true false "
    "int32_t int64_t uint8_t uint16_t INT64_C NULL INFINITY NAN linux unix "
    "exp expf log logf sqrt sqrtf tanh tanhf erf erff sin sinf cos cosf pow powf fabs fabsf "
    "larger largerf mg_from_bf16 mg_to_bf16 mg_from_f16 mg_to_f16 "
    "mg_from_e4m3 mg_to_e4m3 mg_from_e5m2 mg_to_e5m2 mg_from_e8m0 mg_to_e8m0 "
    "mg_from_dynamic8 mg_to_dynamic8 mg_from_udynamic8 mg_to_udynamic8 mg_nf4 mg_nf4f ";

Names *c_taken(const Emitter *e, Arena *a)
{
    Names *taken = names_new(a);
    for (const char *w = words, *blank; (blank = strchr(w, ' ')); w = blank + 1)
        name_intern_n(taken, w, (size_t)(blank - w));
    for (Name n = 1; n <= name_count(e->names.used); n++)
        name_intern(taken, name_str(e->names.used, n));
    return taken;
}

/* A name of letters, digits and '_'. It is no macro of a header, because macros have only capitals.
 */
static const char *safe(CGen *g, const char *base)
{
    bool capitals = strlen(base) > 2;
    char *s = arena_strdup(g->c.a, base);
    for (char *at = s; *at; at++) {
        if (!isalnum((unsigned char)*at))
            *at = '_';
        capitals &= !islower((unsigned char)*at);
    }
    return capitals || !isalpha((unsigned char)*s) ? arena_printf(g->c.a, "the_%s", s) : s;
}

static bool means(const CGen *g, const char *name)
{
    for (size_t i = 0; i < g->live.n; i++)
        if (!strcmp(g->live.data[i].name, name))
            return true;
    return name_find(g->taken, name) != 0;
}

static const char *enter(CGen *g, const char *base, int order)
{
    base = safe(g, base);
    const char *name = base;
    for (int k = 2; means(g, name); k++)
        name = arena_printf(g->c.a, "%s_%d", base, k);
    vec_push(g->c.a, &g->live, (CLive){name, order});
    return name;
}

const char *c_fresh(CGen *g, const char *base)
{
    return enter(g, base, -1);
}

/* A new number under which uses are counted; it has no use yet. */
static int new_order(CGen *g)
{
    if (g->c.counting)
        vec_push(g->c.a, &g->c.uses, 0);
    return g->c.order++;
}

const char *c_index(CGen *g, const char *base, bool *is_read)
{
    const int order = new_order(g);
    *is_read = g->c.counting || g->c.uses.data[order] > 0;
    return enter(g, base, order);
}

/* Is the text that of an element, "x[sum]"? */
static bool found_by(const char *text, const char *sum)
{
    const size_t n = strlen(sum);
    while (isalnum((unsigned char)*text) || *text == '_')
        text++;
    return *text == '[' && !strncmp(text + 1, sum, n) && !strcmp(text + 1 + n, "]");
}

void c_read(Code *c, const char *text)
{
    CGen *g = (CGen *)c;
    for (size_t i = 0; c->counting && i < g->live.n; i++)
        if (g->live.data[i].order >= 0 && !strcmp(g->live.data[i].name, text))
            c->uses.data[g->live.data[i].order]++;
    for (size_t i = 0; c->counting && i < g->offset.n; i++)
        if (found_by(text, g->offset.data[i].sum))
            c->uses.data[g->offset.data[i].order]++;
}

/* ---- braces ------------------------------------------------------------------------------- */

void c_open(CGen *g)
{
    g->live_at[g->braces] = g->live.n;
    g->offset_at[g->braces++] = g->offset.n;
    g->c.depth++;
    code_forget(&g->c);
}

void c_close(CGen *g)
{
    g->live.n = g->live_at[--g->braces];
    g->offset.n = g->offset_at[g->braces];
    g->c.depth--;
    code_line(&g->c, "}");
    code_forget(&g->c);
}

void c_close_to(CGen *g, int braces)
{
    while (g->braces > braces)
        c_close(g);
}

/* ---- operands and values ------------------------------------------------------------------ */

/* "p" of "p'". */
static const char *plain(const CGen *g, const char *name)
{
    return arena_strndup(g->c.a, name, strcspn(name, "'"));
}

void c_name_operands(CGen *g)
{
    const Kernel *k = g->c.k;
    for (int o = 0; o < k->noperands; o++)
        if (code_place(k, o) == o) {
            g->read[o] = new_order(g);
            g->pointer[o] = enter(g, plain(g, g->text.operand[o]), g->read[o]);
        }
}

const char *c_value_name(const CGen *g, Value v)
{
    const Region *body = g->c.body;
    const Kernel *k = g->c.k;
    for (size_t r = 0; r < body->results.n; r++)
        if (body->results.data[r] == v && k->phase == PHASE_whole)
            return arena_printf(g->c.a, "new_%s", g->pointer[code_place(k, k->nin + (int)r)]);
    for (size_t i = 0; i < body->args.n; i++)
        if (body->args.data[i] == v)
            return arena_printf(g->c.a, "this_%s", g->pointer[i]);
    return g->text.value[v] ? plain(g, g->text.value[v]) : "t";
}
