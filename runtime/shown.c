/* shown.c - prints printable ASCII, newline, tab and whole UTF-8 characters unchanged, all other
 * bytes as \xNN. */
#include "runtime/sample.h"

void rt_screen_flush(rt_screen *s)
{
    for (int i = 0; i < s->n; i++)
        printf("\\x%02x", s->byte[i]);
    s->n = 0;
}

void rt_screen_byte(rt_screen *s, unsigned char c)
{
    if (s->n && (c & 0xC0) != 0x80)
        rt_screen_flush(s);
    if (!s->n) {
        s->want = c >= 0xC2 && c < 0xE0   ? 2
                  : c >= 0xE0 && c < 0xF0 ? 3
                  : c >= 0xF0 && c < 0xF5 ? 4
                                          : 1;
        if (s->want == 1) {
            if ((c >= 0x20 && c < 0x7F) || c == '\n' || c == '\t')
                putchar(c);
            else
                printf("\\x%02x", c);
            return;
        }
    }
    s->byte[s->n++] = c;
    unsigned char a = s->byte[0], b = s->n > 1 ? s->byte[1] : 0x9F;
    bool bad = s->n > 1 &&
               ((a == 0xE0 && b < 0xA0) || (a == 0xED && b > 0x9F) || (a == 0xF0 && b < 0x90) ||
                (a == 0xF4 && b > 0x8F) || (a == 0xC2 && b < 0xA0)); /* C1 controls too */
    if (bad) {
        rt_screen_flush(s);
    } else if (s->n == s->want) {
        fwrite(s->byte, 1, (size_t)s->n, stdout);
        s->n = 0;
    }
}
