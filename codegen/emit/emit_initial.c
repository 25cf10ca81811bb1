/* emit_initial.c - initial values by formula (ir/initial.h), each a function of one element in
 * double.
 *
 *   static double mg_init_3(int64_t e, const uint32_t key[2]) { return log(1 + (double)(e / 24 %
 * 6)); }  */
#include "codegen/emit/emit.h"
#include "ir/initial.h"

#include <stdlib.h>

/* The C of an op; %1$s, %2$s, %3$s: its operands. */
static const char *form(Op op)
{
    static const char *const forms[OP_count] = {
        [OP_add] = "(%1$s + %2$s)",
        [OP_sub] = "(%1$s - %2$s)",
        [OP_mul] = "(%1$s * %2$s)",
        [OP_div] = "(%1$s / %2$s)",
        [OP_neg] = "(-%1$s)",
        [OP_max] = "fmax(%1$s, %2$s)",
        [OP_min] = "fmin(%1$s, %2$s)",
        [OP_pow] = "pow(%1$s, %2$s)",
        [OP_exp] = "exp(%1$s)",
        [OP_log] = "log(%1$s)",
        [OP_sqrt] = "sqrt(%1$s)",
        [OP_rsqrt] = "(1 / sqrt(%1$s))",
        [OP_tanh] = "tanh(%1$s)",
        [OP_erf] = "erf(%1$s)",
        [OP_sigmoid] = "(1 / (1 + exp(-%1$s)))",
        [OP_sin] = "sin(%1$s)",
        [OP_cos] = "cos(%1$s)",
        [OP_abs] = "fabs(%1$s)",
        [OP_sign] = "mg_sign(%1$s)",
        [OP_select] = "(%1$s != 0 ? %2$s : %3$s)",
        [OP_lt] = "(double)(%1$s < %2$s)",
        [OP_le] = "(double)(%1$s <= %2$s)",
        [OP_gt] = "(double)(%1$s > %2$s)",
        [OP_ge] = "(double)(%1$s >= %2$s)",
        [OP_eq] = "(double)(%1$s == %2$s)",
        [OP_ne] = "(double)(%1$s != %2$s)",
    };
    return forms[op];
}

static const char *real(const Emitter *e, double d)
{
    const char *s = arena_printf(e->a, "%.17g", d);
    return d < 0 ? arena_printf(e->a, "(%s)", s) : s;
}

static const char *leaf(const Emitter *e, const InitialTerm *t, uint32_t *drawn)
{
    if (t->kind == INITIAL_number)
        return real(e, t->a);
    if (t->kind == INITIAL_index)
        return arena_printf(e->a, "(double)(e / %lld %% %lld)", (long long)t->every,
                            (long long)t->size);
    if (t->kind == INITIAL_uniform)
        return arena_printf(e->a, "mg_uniform(e, key, %u, %s, %s)", (*drawn)++, real(e, t->a),
                            real(e, t->b));
    return arena_printf(e->a, "mg_normal(e, key, %u, %s)", (*drawn)++, real(e, t->a));
}

static const char *applied(const Emitter *e, const InitialTerm *t, const char *const *x)
{
    const char *f = form(t->op), *none = "";
    const int n = initial_operands(t);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    fprintf(out, f, x[0], n > 1 ? x[1] : none, n > 2 ? x[2] : none);
#pragma GCC diagnostic pop
    fclose(out);
    const char *kept = arena_strdup(e->a, text);
    free(text);
    return kept;
}

static const char *formula(const Emitter *e, const char *s)
{
    const char *stack[INITIAL_DEPTH + 1];
    InitialTerm t;
    uint32_t drawn = 0;
    int depth = 0;
    while (initial_next(&s, &t)) {
        depth -= initial_operands(&t);
        stack[depth] = t.kind == INITIAL_op ? applied(e, &t, &stack[depth]) : leaf(e, &t, &drawn);
        depth++;
    }
    return stack[0];
}

void emit_initial(const Emitter *e)
{
    bool any = false;
    for (size_t i = 0; i < e->m->tensors.n; i++) {
        const Tensor *t = &e->m->tensors.data[i];
        if (!t->formula || t->follows)
            continue;
        if (!any)
            fputs("/* Initial values by formula, of element e. */\n"
                  "#include <math.h>\n"
                  "static inline double mg_sign(double x) { return (x > 0) - (x < 0); }\n",
                  e->out);
        any = true;
        fprintf(e->out, "static double mg_init_%zu(int64_t e, const uint32_t key[2]) /* %s */\n{\n",
                i, name_str(e->m->names, t->name));
        fprintf(e->out, "    (void)e, (void)key;\n    return %s;\n}\n",
                formula(e, name_str(e->m->names, t->formula)));
    }
    if (any)
        fputs("#define FORMULA(t, at, f) {t, .slot = \"\", .role = MG_PARAM, .offset = at, "
              ".init = MG_INIT_CONST, .formula = f}\n",
              e->out);
}
