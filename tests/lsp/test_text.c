/* test_text.c - places in UTF-16, edits, and messages in a stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "lsp/frame.h"
#include "lsp/text.h"

#define TEXT "a\xc3\xa9\xf0\x9d\x94\xb8z\r\n\rlast\n"

/* The place of a byte by its definition: lines and units are counted from the beginning. */
static Place slow_place(const char *s, size_t byte)
{
    Place p = {0};
    for (size_t i = 0; i < byte; i++) {
        const unsigned char c = (unsigned char)s[i];
        if (c == '\n' || (c == '\r' && s[i + 1] != '\n'))
            p = (Place){p.line + 1, 0};
        else
            p.character += c < 0x80 || (c >= 0xC0 && c < 0xF0) ? 1 : c >= 0xF0 ? 2 : 0;
    }
    return p;
}

static void places(void **state)
{
    (void)state;
    Text t = {0};
    assert_true(text_set(&t, TEXT, strlen(TEXT)));
    assert_int_equal(t.nlines, 4);
    for (size_t i = 0; i <= t.size; i++) {
        const Place want = slow_place(TEXT, i), got = text_locate(&t, i);
        assert_int_equal(got.line, want.line);
        assert_int_equal(got.character, want.character);
        const bool inside = i < t.size && ((unsigned char)TEXT[i] & 0xC0) == 0x80;
        const bool ends = i && TEXT[i - 1] == '\r' && TEXT[i] == '\n'; /* inside of an end */
        if (!inside && !ends)
            assert_int_equal(text_byte(&t, got), i);
    }
    assert_int_equal(text_byte(&t, (Place){0, 3}), 3); /* in the middle of a pair */
    assert_int_equal(text_byte(&t, (Place){0, 99}), 8);
    assert_int_equal(text_byte(&t, (Place){99, 0}), t.size);
    text_free(&t);
}

static bool edit(Text *t, Place from, Place to, const char *with, size_t size)
{
    size_t begin, end;
    text_range(t, from, to, &begin, &end);
    return text_edit(t, begin, end, with, size);
}

static void edits(void **state)
{
    (void)state;
    Text t = {0};
    text_set(&t, TEXT, strlen(TEXT));
    assert_true(edit(&t, (Place){0, 2}, (Place){0, 4}, "\xc3\xbc", 2));
    assert_string_equal(t.data, "a\xc3\xa9\xc3\xbcz\r\n\rlast\n");
    assert_true(edit(&t, (Place){2, 4}, (Place){0, 4}, "", 0)); /* in the wrong order */
    assert_string_equal(t.data, "a\xc3\xa9\xc3\xbcz\n");
    assert_true(edit(&t, (Place){0, 0}, (Place){9, 9}, "", 0));
    assert_int_equal(t.size, 0);
    assert_int_equal(t.nlines, 1);
    text_free(&t);
}

/* Each message comes whole, however its bytes are cut, and wrong headers cost no other message. */
static void frames(void **state)
{
    static const char stream[] = "Content-Length: 2\r\n\r\n{}"
                                 "content-length:3 \nX: y\n\n[1]"
                                 "X: y\r\n\r\n"
                                 "Content-Length: 1\r\n\r\n[2]Content-Length: 4\r\n\r\nnull"
                                 "Content-Length: 0\r\n\r\n"
                                 "Content-Length: 200000000\r\n\r\n";
    static const char *const want[] = {"{}", "[1]", NULL, "[", "null", "", NULL};
    (void)state;
    for (size_t cut = 1; cut < sizeof stream; cut++) {
        Frames f;
        size_t n = 0, size;
        const char *body;
        frames_start(&f);
        for (size_t at = 0; at < sizeof stream - 1; at += cut) {
            const size_t rest = sizeof stream - 1 - at;
            frames_add(&f, stream + at, cut < rest ? cut : rest);
            for (FrameKind k; (k = frames_next(&f, &body, &size)) != FRAME_none; n++) {
                assert_true(n < sizeof want / sizeof *want);
                assert_int_equal(k == FRAME_body, want[n] != NULL);
                if (want[n]) {
                    assert_int_equal(size, strlen(want[n]));
                    assert_memory_equal(body, want[n], size);
                }
            }
        }
        assert_int_equal(n, sizeof want / sizeof *want);
        char *junk = calloc(1, 200000000);
        frames_add(&f, junk, 200000000); /* the one that is too long is skipped */
        free(junk);
        frames_add(&f, "Content-Length: 2\r\n\r\n{}", 23);
        assert_int_equal(frames_next(&f, &body, &size), FRAME_body);
        assert_memory_equal(body, "{}", 2);
        frames_free(&f);
        cut += cut > 8 ? cut : 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),
        cmocka_unit_test(edits),
        cmocka_unit_test(frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
