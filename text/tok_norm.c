/* tok_norm.c - normalization of a piece, with the places that its bytes come from. */
#include "text/tok.h"
#include "text/tok_class.h"

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

/* A part without characters that the forms leave alone. */
static void form_part(TokWorker *w, const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    size_t size, begin = m->n;
    char *whole = mapped(norm, p->p, p->n, &size);
    if (size == p->n && memcmp(whole, p->p, size) == 0) {
        tok_made_copy(m, p, 0, p->n);
    } else {
        by_units(norm, p, m);
        if (m->n - begin != size || memcmp(m->p + begin, whole, size) != 0) {
            m->n = begin;
            tok_made_add(m, whole, size, p->n ? tok_origin(p, 0) : 0);
            w->lost = true;
        }
    }
    free(whole);
}

static bool formed(TokWorker *w, const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    size_t from = 0;
    uint32_t c;
    if (is_ascii(p->p, p->n))
        return false; /* every form leaves it */
    for (size_t i = 0, k; i < p->n; i += k) {
        k = tok_char(p->p + i, &c);
        if (c < 0x80 || !tok_is(CLASS_newer, c))
            continue;
        TokPiece before = tok_part(p, from, i);
        if (i > from)
            form_part(w, norm, &before, m);
        tok_made_copy(m, p, i, i + k);
        from = i + k;
    }
    TokPiece rest = tok_part(p, from, p->n);
    if (p->n > from)
        form_part(w, norm, &rest, m);
    return true;
}

/* ---- characters one by one ----------------------------------------------------------------- */

/* Of Nmt: 0 if the character goes, a space for what is one there. */
static uint32_t nmt(uint32_t c)
{
    static const TokRange gone[] = {{1, 8},       {0xb, 0xb},   {0xe, 0x1f},
                                    {0x7f, 0x7f}, {0x8f, 0x8f}, {0x9f, 0x9f}};
    static const TokRange space[] = {{9, 0xa},         {0xc, 0xd},       {0x1680, 0x1680},
                                     {0x200b, 0x200f}, {0x2028, 0x2029}, {0x2581, 0x2581},
                                     {0xfeff, 0xfeff}, {0xfffd, 0xfffd}};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (c >= gone[i].first && c <= gone[i].last)
            return 0;
    for (size_t i = 0; i < sizeof space / sizeof *space; i++)
        if (c >= space[i].first && c <= space[i].last)
            return ' ';
    return c;
}

/* The character that one becomes; `stays` is false if it goes. */
static uint32_t character(TokNormKind kind, uint32_t c, bool *stays)
{
    bool space = c == '\t' || c == '\n' || c == '\r';
    *stays = true;
    if (kind == NORM_lower)
        return tok_lower(c);
    if (kind == NORM_accents || kind == NORM_nonspacing) {
        *stays = !tok_is(kind == NORM_accents ? CLASS_mark : CLASS_nonspacing, c);
        return c;
    }
    if (kind == NORM_clean) {
        *stays = space || !tok_is(CLASS_removed, c);
        return space || tok_is(CLASS_space, c) ? ' ' : c;
    }
    *stays = !c || nmt(c);
    return nmt(c);
}

static void by_characters(const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    char out[4];
    uint32_t c;
    for (size_t i = 0, k; i < p->n; i += k) {
        bool stays = true, spaced = false;
        k = tok_char(p->p + i, &c);
        uint32_t to = c;
        if (norm->kind == NORM_chinese)
            spaced = tok_is_chinese(c);
        else
            to = character(norm->kind, c, &stays);
        if (spaced)
            tok_made_add(m, " ", 1, tok_origin(p, i));
        if (stays && to == c)
            tok_made_copy(m, p, i, i + k);
        else if (stays)
            tok_made_add(m, out, tok_put_char(out, to), tok_origin(p, i));
        if (norm->kind == NORM_lower && c == 0x130)
            tok_made_add(m, "\xcc\x87", 2, tok_origin(p, i));
        if (spaced)
            tok_made_add(m, " ", 1, tok_origin(p, i));
    }
}

static void stripped(const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    size_t begin = 0, end = p->n;
    uint32_t c;
    for (size_t k; norm->left && begin < end; begin += k) {
        k = tok_char(p->p + begin, &c);
        if (!tok_is(CLASS_space, c))
            break;
    }
    while (norm->right && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)p->p[at] & 0xc0) == 0x80)
            at--;
        tok_char(p->p + at, &c);
        if (!tok_is(CLASS_space, c))
            break;
        end = at;
    }
    tok_made_copy(m, p, begin, end);
}

bool tok_normalized(TokWorker *w, const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    if (norm->kind == NORM_form)
        return formed(w, norm, p, m);
    if (norm->kind == NORM_prepend) {
        if (p->n) /* nothing stays nothing */
            tok_made_add(m, norm->text, strlen(norm->text), tok_origin(p, 0));
        tok_made_copy(m, p, 0, p->n);
    } else if (norm->kind == NORM_replace) {
        replaced(norm, p, m);
    } else if (norm->kind == NORM_strip) {
        stripped(norm, p, m);
    } else if (norm->kind == NORM_charsmap) {
        tok_charsmap_apply(&norm->map, p, m);
    } else if (norm->kind == NORM_sentencepiece) {
        tok_sentencepiece(w->t, norm, p, m);
    } else {
        by_characters(norm, p, m);
    }
    return true;
}
