/* tok_class.c - see tok_class.h. */
#include "text/tok_class.h"

bool tok_is(TokClass class, uint32_t c)
{
    const TokSet *s = &tok_set[class];
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->range[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n && s->range[low].first <= c;
}

uint32_t tok_lower(uint32_t c)
{
    size_t low = 0, high = tok_lower_count;
    if (c == 0x130)
        return 'i';
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (tok_lower_rows[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    const TokLower *r = low < tok_lower_count ? &tok_lower_rows[low] : NULL;
    if (r && c >= r->first && (c - r->first) % r->step == 0)
        return c + (uint32_t)r->by;
    return c;
}

bool tok_is_chinese(uint32_t c)
{
    static const TokRange blocks[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                      {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                      {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (c >= blocks[i].first && c <= blocks[i].last)
            return true;
    return false;
}

size_t tok_char(const char *p, uint32_t *c)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t n = *u < 0x80 ? 1 : *u < 0xe0 ? 2 : *u < 0xf0 ? 3 : 4;
    *c = n == 1 ? *u : *u & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        *c = *c << 6 | (u[i] & 0x3f);
    return n;
}

size_t tok_put_char(char *p, uint32_t c)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        p[i] = (char)(0x80 | (c & 0x3f));
    p[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xff) | c);
    return n;
}
