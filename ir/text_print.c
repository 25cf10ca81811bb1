/* text_print.c - a module as text. text_parse.c reads it back: print(parse(print(m))) == print(m).
 *
 * The form is described in ir/README.md. Value names are made unique per function, in order of
 * definition, so that a change to one instruction does not rename the others. */
#include "ir/optimizers.h"
#include "ir/text.h"

#include <ctype.h>
#include <string.h>

typedef struct Printer {
    const Module *m;
    FILE *out;
    Arena *tmp;
    Names *used;    /* names given in this function */
    uint32_t *next; /* per used name: the next suffix to try */
    size_t nnext;
    const char **label; /* per value, NULL until named */
} Printer;

void text_print_axes(const Module *m, Axes axes, FILE *out)
{
    const char *dot = "";
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if (axes >> i & 1) {
            fprintf(out, "%s%s", dot, name_str(m->names, m->layout.mesh.data[i].name));
            dot = ".";
        }
}

/* "seq=64@cp~.tp/4": in zigzag order on cp, in 4 blocks on tp. "heads=2@tp.cp": of what tp leaves a
 * part on cp, though the mesh has cp before tp. */
void text_print_dim(const Module *m, Dim d, FILE *out)
{
    text_put_name(out, name_str(m->names, d.name));
    fprintf(out, "=%lld", (long long)d.size);
    const char *before = "@";
    int axis[MAX_AXES];
    for (int i = 0, n = mesh_nested(m, d, axis); i < n; i++) {
        fprintf(out, "%s%s%s", before, name_str(m->names, m->layout.mesh.data[axis[i]].name),
                d.zigzag >> axis[i] & 1 ? "~" : "");
        before = ".";
    }
    if (d.blocks)
        fprintf(out, "/%lld", (long long)d.blocks);
}

static void print_partial(const Module *m, const char *what, Axes axes, FILE *out)
{
    if (!axes)
        return;
    fprintf(out, "{%s: ", what);
    text_print_axes(m, axes, out);
    fputc('}', out);
}

void text_print_type(const Module *m, const Type *t, FILE *out)
{
    fprintf(out, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->rank && i < MAX_RANK; i++) { /* messages show types that are none */
        if (i)
            fputs(", ", out);
        text_print_dim(m, t->dims[i], out);
    }
    fputc(']', out);
    if (t->indexes) {
        fputs("(", out);
        text_put_name(out, name_str(m->names, t->indexes));
        fputs(")", out);
    }
    print_partial(m, "partial", t->partial, out);
    print_partial(m, "max", t->max, out);
    if (t->level)
        fprintf(out, " on %s", level_names[t->level]);
}

/* ---- names of values ----------------------------------------------------------------------- */

size_t label_stem(const char *s, size_t n)
{
    size_t digits = n;
    while (digits > 0 && isdigit((unsigned char)s[digits - 1]))
        digits--;
    return digits < n && digits > 1 && s[digits - 1] == '.' ? digits - 1 : n;
}

static bool name_is_free(Printer *p, const char *s, Name *n)
{
    uint32_t before = name_count(p->used);
    *n = name_intern(p->used, s);
    if (*n >= p->nnext) {
        size_t grown = (size_t)*n * 2 + 16;
        uint32_t *next = NEW_ARRAY(p->tmp, uint32_t, grown);
        if (p->nnext)
            memcpy(next, p->next, p->nnext * sizeof *next);
        p->next = next;
        p->nnext = grown;
    }
    return *n > before;
}

/* The hint, without the numbers that the parser would take for ours: labels end in ".N" where a
 * name comes again, and reading one gives the hint back. */
static const char *label_base(Printer *p, Value v, const char *otherwise)
{
    Name hint = p->m->values.data[v].name;
    const char *s = hint ? name_str(p->m->names, hint) : otherwise;
    size_t n = strlen(s), stem;
    while ((stem = label_stem(s, n)) < n)
        n = stem;
    return s[n] ? arena_strndup(p->tmp, s, n) : s;
}

static void give_label(Printer *p, Value v, const char *otherwise)
{
    const char *base = label_base(p, v, otherwise);
    Name n;
    if (name_is_free(p, base, &n)) {
        p->label[v] = name_str(p->used, n);
        return;
    }
    for (;;) {
        Name with;
        const char *s = arena_printf(p->tmp, "%s.%u", base, ++p->next[n]);
        if (name_is_free(p, s, &with)) {
            p->label[v] = name_str(p->used, with);
            return;
        }
    }
}

static void name_region(Printer *p, const Region *r, const char *arg)
{
    for (size_t i = 0; i < r->args.n; i++)
        give_label(p, r->args.data[i], arg);
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        if (ins->body)
            name_region(p, ins->body, "a");
        for (uint32_t k = 0; k < ins->nout; k++)
            give_label(p, ins->out[k], op_info[ins->op].name);
    }
}

static void print_value(const Printer *p, Value v)
{
    fputc('%', p->out);
    text_put_name(p->out, v < p->m->values.n && p->label[v] ? p->label[v] : "?");
}

/* ---- instructions -------------------------------------------------------------------------- */

static void print_attr_DIMS(const Module *m, const DimList *l, FILE *out)
{
    fputs("=[", out);
    for (int i = 0; i < l->n; i++) {
        if (i)
            fputs(", ", out);
        text_print_dim(m, l->dim[i], out);
    }
    fputc(']', out);
}

static void print_attr_DIM(const Module *m, const Dim *d, FILE *out)
{
    fputc('=', out);
    text_print_dim(m, *d, out);
}

static void print_attr_INT(const Module *m, const int64_t *v, FILE *out)
{
    (void)m;
    fprintf(out, "=%lld", (long long)*v);
}

static void print_attr_REAL(const Module *m, const double *v, FILE *out)
{
    (void)m;
    fputc('=', out);
    text_put_real(out, *v);
}

static void print_attr_FLAG(const Module *m, const bool *v, FILE *out)
{
    (void)m;
    fputs(*v ? "=yes" : "=no", out);
}

static void print_attr_NAME(const Module *m, const Name *v, FILE *out)
{
    fputc('=', out);
    text_put_string(out, name_str(m->names, *v));
}

static void print_attr_AXES(const Module *m, const Axes *v, FILE *out)
{
    fputc('=', out);
    text_print_axes(m, *v, out);
}

#define print_attr_MARK(m, v, out) ((void)0) /* its name says it */
#define print_attr_SHARE           print_attr_REAL
#define print_attr_COUNT           print_attr_INT
#define print_attr_OTHER           print_attr_DIM

static void print_attr_FACTORS(const Module *m, const Factors *f, FILE *out)
{
    (void)m;
    for (int i = 0; i < f->n; i++)
        fprintf(out, "%s%d", i ? ", " : "=[", (int)f->by[i]);
    fputc(']', out);
}

static void print_attr_TAPS(const Module *m, const Taps *const *t, FILE *out)
{
    text_print_taps(m, *t, out);
}

static void print_attrs(const Module *m, const Ins *i, FILE *out)
{
    uint64_t have = op_info[i->op].attrs;
    const char *comma = "";
    if (!have)
        return;
    fputs(" {", out);
#define ATTR(name, kind)                                                                           \
    if (have >> ATTR_##name & 1 && !TEXT_UNSET_##kind(i->attrs.name)) {                            \
        fprintf(out, "%s" #name, comma);                                                           \
        print_attr_##kind(m, &i->attrs.name, out);                                                 \
        comma = ", ";                                                                              \
    }
#include "ir/attrs.def"
    fputc('}', out);
}

static void print_region(const Printer *p, const Region *r, int depth);

/* Of the model's source alone, whose path the header has: a layout may come from another file. */
void text_print_place(const Module *m, Span s, FILE *out)
{
    int line, column;
    if (!s.file || !m->source || strcmp(diag_path(m->diag, s.file), m->source) != 0)
        return;
    diag_locate(m->diag, s, &line, &column);
    fprintf(out, " @%d:%d", line, column);
}

/* All of an instruction but its region and the end of the line. */
static void print_head(const Printer *p, const Ins *i)
{
    FILE *out = p->out;
    for (uint32_t k = 0; k < i->nout; k++) {
        if (k)
            fputs(", ", out);
        print_value(p, i->out[k]);
        fputs(": ", out);
        text_print_type(p->m, type_of(p->m, i->out[k] < p->m->values.n ? i->out[k] : 0), out);
    }
    fprintf(out, "%s%s", i->nout ? " = " : "", op_info[i->op].name);
    for (uint32_t k = 0; k < i->nin; k++) {
        fputs(k ? ", " : " ", out);
        print_value(p, i->in[k]);
    }
    print_attrs(p->m, i, out);
    text_print_place(p->m, i->span, out);
    if (i->path) {
        fputs(" in ", out);
        text_put_string(out, name_str(p->m->names, i->path));
    }
    if (i->block) {
        fputs(" of ", out);
        text_put_string(out, name_str(p->m->names, i->block));
    }
    if (i->backward)
        fputs(i->again ? " again" : " backward", out);
    if (i->keep)
        fputs(" keep", out);
    if (i->exact)
        fputs(" exact", out);
}

static void print_ins(const Printer *p, const Ins *i, int depth)
{
    fprintf(p->out, "%*s", depth * 2, "");
    print_head(p, i);
    if (i->body) {
        fputs(" {\n", p->out);
        print_region(p, i->body, depth + 1);
        fprintf(p->out, "%*s}", depth * 2, "");
    }
    fputc('\n', p->out);
}

static void print_region(const Printer *p, const Region *r, int depth)
{
    for (size_t i = 0; i < r->args.n; i++) {
        fprintf(p->out, "%*sarg ", depth * 2, "");
        print_value(p, r->args.data[i]);
        fputs(": ", p->out);
        text_print_type(p->m, type_of(p->m, r->args.data[i]), p->out);
        fputc('\n', p->out);
    }
    for (size_t i = 0; i < r->ins.n; i++)
        print_ins(p, r->ins.data[i], depth);
    fprintf(p->out, "%*sgive", depth * 2, "");
    for (size_t i = 0; i < r->results.n; i++) {
        fputs(i ? ", " : " ", p->out);
        print_value(p, r->results.data[i]);
    }
    fputc('\n', p->out);
}

/* ---- the module ---------------------------------------------------------------------------- */

static void print_ref(const Printer *p, uint32_t tensor)
{
    fputc(' ', p->out);
    text_put_string(p->out, name_str(p->m->names, p->m->tensors.data[tensor].name));
}

static void print_fn(Printer *p, const Fn *f)
{
    fputs("\nfn @", p->out);
    text_put_name(p->out, name_str(p->m->names, f->name));
    fputs(" {\n", p->out);
    for (size_t i = 0; i < f->args.n; i++) {
        const FnArg a = f->args.data[i];
        fprintf(p->out, "  role %s%s", arg_role_names[a.role], a.role == ARG_place ? " " : "");
        if (a.role <= ARG_state)
            print_ref(p, a.tensor);
        if (a.role == ARG_input || a.role == ARG_total || a.role == ARG_cache ||
            (a.role == ARG_lr && a.tensor))
            fprintf(p->out, " %u", a.tensor);
        if (a.role == ARG_place)
            text_print_axes(p->m, a.tensor, p->out);
        fputs(a.role == ARG_total && f->totals.data[a.tensor] ? " max\n" : "\n", p->out);
    }
    if (f->prefill)
        fprintf(p->out, "  prefill %lld\n", (long long)f->prefill);
    if (f->group)
        fprintf(p->out, "  group %lld\n", (long long)f->group);
    if (f->head)
        fprintf(p->out, "  head %lld\n", (long long)f->head);
    if (f->whole)
        fputs("  whole\n", p->out);
    if (f->cuts)
        fprintf(p->out, "  cuts %lld\n", (long long)f->cuts);
    if (f->batch) {
        fputs("  batch ", p->out);
        text_print_axes(p->m, f->batch, p->out);
        fputc('\n', p->out);
    }
    print_region(p, f->body, 1);
    for (size_t i = 0; i < f->results.n; i++) {
        const FnResult r = f->results.data[i];
        fprintf(p->out, "  result %s", result_role_names[r.role]);
        if (r.role == RES_metric || r.role == RES_total || r.role == RES_cache ||
            (r.role <= RES_norm && r.tensor))
            fprintf(p->out, " %u", r.tensor);
        if (r.role >= RES_grad)
            print_ref(p, r.tensor);
        fputc('\n', p->out);
    }
    for (size_t i = 0; i < f->gradients.n; i++) {
        fputs("  gradient", p->out);
        print_ref(p, f->gradients.data[i].tensor);
        fputc(' ', p->out);
        print_value(p, f->gradients.data[i].v);
        fputc('\n', p->out);
    }
    fputs("}\n", p->out);
}

void ir_print(const Module *m, FILE *out)
{
    text_print_header(m, out);
    for (size_t i = 0; i < m->fns.n; i++) {
        Arena *tmp = arena_new();
        Printer p = {.m = m, .out = out, .tmp = tmp, .used = names_new(tmp)};
        p.label = NEW_ARRAY(tmp, const char *, m->values.n);
        name_region(&p, m->fns.data[i]->body, "arg");
        print_fn(&p, m->fns.data[i]);
        arena_free(tmp);
    }
}

/* A broken instruction may refer to a value that does not exist: it is printed as %?. */
void ir_print_ins(const Module *m, const Ins *i, FILE *out)
{
    Arena *tmp = arena_new();
    Printer p = {.m = m, .out = out, .tmp = tmp, .used = names_new(tmp)};
    p.label = NEW_ARRAY(tmp, const char *, m->values.n);
    for (uint32_t k = 0; k < i->nin; k++)
        if (i->in[k] < m->values.n && !p.label[i->in[k]])
            give_label(&p, i->in[k], "v");
    for (uint32_t k = 0; k < i->nout; k++)
        if (i->out[k] < m->values.n)
            give_label(&p, i->out[k], op_info[i->op].name);
    fputs("  ", out);
    print_head(&p, i);
    fputs(i->body ? " { ... }\n" : "\n", out);
    arena_free(tmp);
}
