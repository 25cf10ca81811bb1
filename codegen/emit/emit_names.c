/* emit_names.c - names and texts of a source, made safe for C. */
#include "codegen/emit/emit.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

CNames cnames_new(Arena *a)
{
    return (CNames){a, names_new(a)};
}

const char *cname(CNames *n, const char *prefix, const char *s)
{
    enum { LONGEST = 80 };
    char *base = arena_printf(n->a, "%s%.*s", prefix, LONGEST, s);
    for (char *c = base; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    const char *name = base;
    for (int k = 2;; k++) {
        uint32_t before = name_count(n->used);
        if (name_intern(n->used, name) > before)
            return name;
        name = arena_printf(n->a, "%s_%d", base, k);
    }
}

void emit_string(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 32 || c > 126 || c == '?') /* '?': no trigraphs */
            fprintf(out, "\\%03o", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

void emit_comment_text(FILE *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n && s[i]; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 32 || c > 126 || c == '\\')
            fputc(c == '\t' ? ' ' : '?', out);
        else
            fputc(c, out);
        if ((c == '*' || c == '/') && i + 1 < n && (s[i + 1] == '/' || s[i + 1] == '*'))
            fputc(' ', out);
    }
}

const char *emit_dtype(DType t)
{
    static const char *const names[DT_count] = {
        [DT_f32] = "MG_F32",   [DT_f64] = "MG_F64",           [DT_bf16] = "MG_BF16",
        [DT_f16] = "MG_F16",   [DT_e4m3] = "MG_E4M3",         [DT_e5m2] = "MG_E5M2",
        [DT_e8m0] = "MG_E8M0", [DT_i32] = "MG_I32",           [DT_i64] = "MG_I64",
        [DT_bool] = "MG_BOOL", [DT_dynamic8] = "MG_DYNAMIC8", [DT_udynamic8] = "MG_UDYNAMIC8",
        [DT_u8] = "MG_U8"};
    return names[t];
}

/* 5.25926e+06 as 5.25926e6. */
static const char *without_plus(char *s)
{
    char *e = strchr(s, 'e'), *to = e;
    if (!e || e[1] == '-')
        return s;
    for (char *from = e + strspn(e, "e+0"); (to[1] = *from); from++)
        to++;
    return s;
}

const char *short_real(Arena *a, double x, int digits)
{
    return without_plus(arena_printf(a, "%.*g", digits, x));
}

const char *real_text(Arena *a, double x)
{
    if (fabs(x) < 1e7 && x == (double)(int)x)
        return arena_printf(a, "%d", (int)x);
    for (int digits = 1;; digits++) {
        const char *s = short_real(a, x, digits);
        if (digits == 17 || strtod(s, NULL) == x)
            return s;
    }
}
