/* tok_charsmap.c - the map of SentencePiece's normalization. As tokenizers reads it: whole clusters
 * of up to five bytes, then characters, each by the shortest key that it begins with. */
#include "text/tok.h"
#include "text/tok_class.h"

#include <string.h>
#include <utf8proc.h>

static uint32_t word_at(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

static bool well_formed(const char *p, size_t n)
{
    utf8proc_int32_t c;
    for (size_t i = 0; i < n;) {
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)p + i, (utf8proc_ssize_t)(n - i), &c);
        if (k < 1)
            return false;
        i += (size_t)k;
    }
    return true;
}

bool tok_charsmap_read(TokCharsmap *m, const char *bytes, size_t n)
{
    if (n < 8)
        return false;
    size_t size = word_at(bytes);
    if (size < 4 || size % 4 || size > n - 4)
        return false;
    m->units = size / 4;
    m->unit = (const uint32_t *)(const void *)(bytes + 4); /* of an allocation */
    m->text = bytes + 4 + size;
    m->size = n - 4 - size;
    return well_formed(m->text, m->size);
}

/* The value that a node says; NULL: the map is damaged. */
static const char *value_at(const TokCharsmap *m, size_t node, size_t *size)
{
    if (node >= m->units)
        return NULL;
    size_t at = m->unit[node] & ~(1u << 31);
    if (at > m->size || (at < m->size && ((unsigned char)m->text[at] & 0xc0) == 0x80))
        return NULL;
    const char *end = memchr(m->text + at, 0, m->size - at);
    *size = end ? (size_t)(end - m->text) - at : m->size - at;
    return m->text + at;
}

/* The value of the shortest key that the n bytes begin with, or of the longest; NULL: they begin
 * with none. */
static const char *find(const TokCharsmap *m, const char *p, size_t n, bool longest, size_t *length,
                        size_t *size)
{
    const char *found = NULL;
    uint32_t unit = m->unit[0];
    size_t node = 0;
    for (size_t i = 0; i <= n; i++) {
        node ^= (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
        if (i && (unit >> 8 & 1)) {
            const char *value = value_at(m, node, size);
            if (!longest)
                return value;
            found = value ? value : found;
            *length = value ? i : *length;
        }
        if (i == n || !p[i])
            return found;
        node ^= (unsigned char)p[i];
        if (node >= m->units)
            return found;
        unit = m->unit[node];
        if ((unit & (1u << 31 | 0xff)) != (unsigned char)p[i])
            return found;
    }
    return found;
}

static const char *mapped(const TokCharsmap *m, const char *p, size_t n, size_t *size)
{
    size_t length;
    return find(m, p, n, false, &length, size);
}

size_t tok_charsmap_longest(const TokCharsmap *m, const char *p, size_t n, const char **value,
                            size_t *size)
{
    size_t length = 0;
    const char *found = find(m, p, n, true, &length, size);
    *value = found ? found : *value;
    return found ? length : 0;
}

static size_t cluster(const TokPiece *p, size_t begin)
{
    utf8proc_int32_t state = 0;
    uint32_t before, c;
    size_t end = begin + tok_char(p->p + begin, &before);
    while (end < p->n) {
        size_t k = tok_char(p->p + end, &c);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state))
            break;
        before = c;
        end += k;
    }
    return end;
}

void tok_charsmap_apply(const TokCharsmap *m, const TokPiece *p, TokMade *made)
{
    size_t size = 0;
    uint32_t c;
    for (size_t i = 0, end; i < p->n; i = end) {
        end = cluster(p, i);
        const char *by = end - i < 6 ? mapped(m, p->p + i, end - i, &size) : NULL;
        if (by) {
            tok_made_add(made, by, size, tok_origin(p, i));
            continue;
        }
        for (size_t k; i < end; i += k) {
            k = tok_char(p->p + i, &c);
            by = mapped(m, p->p + i, k, &size);
            if (by)
                tok_made_add(made, by, size, tok_origin(p, i));
            else
                tok_made_copy(made, p, i, i + k);
        }
    }
    /* The reference counts what is left out as if nothing were there: the first is the first. */
    for (size_t i = 0; i < made->n && (!i || ((unsigned char)made->p[i] & 0xc0) == 0x80); i++)
        made->from[i] = tok_origin(p, 0);
}
