/* tok_norm.c - normalization of a piece, with the places that its bytes come from. */
#include "compiler/tok/tok.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static void replaced(const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    size_t from = strlen(norm->text), to = strlen(norm->by), i = 0;
    while (i < p->n) {
        const char *here = memmem(p->p + i, p->n - i, norm->text, from);
        size_t end = here ? (size_t)(here - p->p) : p->n;
        tok_made_copy(m, p, i, end);
        if (here)
            tok_made_add(m, norm->by, to, tok_origin(p, end));
        i = here ? end + from : p->n;
    }
}

static char *mapped(const TokNorm *norm, const char *p, size_t n, size_t *size)
{
    utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t made_size = utf8proc_map((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n,
                                              &made, (utf8proc_option_t)norm->form);
    if (made_size < 0)
        abort(); /* the text was checked; no memory */
    *size = (size_t)made_size;
    return (char *)made;
}

/* The length of the character at p[i], and whether nothing before it can touch what it becomes: it
 * does not begin with a mark, nor with the middle or end of a Hangul syllable. */
static size_t begins_unit(const TokNorm *norm, const TokPiece *p, size_t i, bool *begins)
{
    utf8proc_int32_t c, part[32];
    int last = 0;
    utf8proc_ssize_t k =
        utf8proc_iterate((const utf8proc_uint8_t *)p->p + i, (utf8proc_ssize_t)(p->n - i), &c);
    utf8proc_option_t form =
        (utf8proc_option_t)((norm->form & UTF8PROC_COMPAT) | UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
    if (k < 1)
        abort(); /* the text was checked */
    *begins = c < 0x80;
    if (!*begins && utf8proc_decompose_char(c, part, 32, form, &last) > 0) {
        utf8proc_category_t g = utf8proc_category(part[0]);
        *begins = g != UTF8PROC_CATEGORY_MN && g != UTF8PROC_CATEGORY_MC &&
                  g != UTF8PROC_CATEGORY_ME && !(part[0] >= 0x1160 && part[0] < 0x1200);
    }
    return (size_t)k;
}

/* Unit by unit: a character with the marks behind it. */
static void by_units(const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    for (size_t i = 0, end; i < p->n; i = end) {
        bool begins = false;
        size_t size;
        for (end = i; end < p->n && (end == i || !begins);) {
            end += begins_unit(norm, p, end, &begins);
            if (end < p->n)
                begins_unit(norm, p, end, &begins);
        }
        char *unit = mapped(norm, p->p + i, end - i, &size);
        if (size == end - i && memcmp(unit, p->p + i, size) == 0)
            tok_made_copy(m, p, i, end);
        else
            tok_made_add(m, unit, size, tok_origin(p, i));
        free(unit);
    }
}

static bool is_ascii(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] >= 0x80)
            return false;
    return true;
}

static bool formed(TokWorker *w, const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    size_t size;
    if (is_ascii(p->p, p->n))
        return false; /* every form leaves it */
    char *whole = mapped(norm, p->p, p->n, &size);
    bool changes = size != p->n || memcmp(whole, p->p, size) != 0;
    if (changes)
        by_units(norm, p, m);
    if (changes && (m->n != size || memcmp(m->p, whole, size) != 0)) {
        tok_made_free(m);
        tok_made_add(m, whole, size, p->n ? tok_origin(p, 0) : 0);
        w->lost = true;
    }
    free(whole);
    return changes;
}

bool tok_normalized(TokWorker *w, const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    if (norm->kind == NORM_form)
        return formed(w, norm, p, m);
    if (norm->kind == NORM_replace) {
        replaced(norm, p, m);
        return true;
    }
    if (p->n) /* nothing stays nothing */
        tok_made_add(m, norm->text, strlen(norm->text), tok_origin(p, 0));
    tok_made_copy(m, p, 0, p->n);
    return true;
}
