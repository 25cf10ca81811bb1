/* metrics.jsonl cut back to a step, and the picture drawn from it. */
#include "runtime/log/history.h"
#include "unit.h"

#include <unistd.h>

static void check_cut(const char *before, int64_t step, const char *after, size_t loss, size_t val)
{
    char *path = unit_file(before, strlen(before)), text[4096] = "";
    rt_history h = {0};
    assert_true(rt_history_read(&h, path, step));
    FILE *f = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    assert_string_equal(text, after);
    assert_int_equal(h.loss.n, loss);
    assert_int_equal(h.val.n, val);
    rt_history_free(&h);
    unlink(path);
    free(path);
}

#define L(n)        "{\"step\":" n ",\"loss\":2.5,\"grad_norm\":null,\"x\":[1,{}]}\n"
#define V(n)        "{\"step\":" n ",\"val_loss\":2.25}\n"
#define E(n, event) "{\"step\":" n ",\"event\":\"" event "\",\"rank\":1}\n"

static void cuts(void **state)
{
    (void)state;
    check_cut("", 5, "", 0, 0);
    check_cut(L("1") L("2") V("2"), 2, L("1") L("2") V("2"), 2, 1);
    check_cut(L("1") L("2") V("2") L("3") V("3"), 2, L("1") L("2") V("2"), 2, 1);
    check_cut(L("1") L("2"), -1, "", 0, 0);
    check_cut(L("1") "{\"step\":2,\"loss\":2.", 9, L("1"), 1, 0);   /* torn */
    check_cut(L("1") "{\"step\":2,\"loss\":2.5}", 9, L("1"), 1, 0); /* no newline: torn */
    check_cut(L("1") "{\"step\":2,\"lo{\"step\":2}\n" L("2"), 9, L("1") L("2"), 2, 0);
    check_cut(L("1") "{\"loss\":1}\nrubbish\n\n" L("2"), 9, L("1") L("2"), 2, 0);
    check_cut(L("5") L("6") L("3"), 4, L("3"), 1, 0);
    check_cut(L("1") E("1", "x") L("2") E("2", "alert") E("2", "x"), 1,
              L("1") E("1", "x") E("2", "alert"), 1, 0); /* alerts stay */
}

static void values(void **state)
{
    (void)state;
    static const char text[] = L("7") V("7") "{\"step\":8,\"loss\":null}\n";
    char *path = unit_file(text, strlen(text));
    rt_history h = {0};
    assert_true(rt_history_read(&h, path, 100));
    assert_int_equal(h.loss.n, 1);
    assert_int_equal(h.loss.item[0].step, 7);
    assert_true(h.loss.item[0].value == 2.5 && h.val.item[0].value == 2.25);
    rt_history_free(&h);
    unlink(path);
    assert_true(rt_history_read(&h, path, 100)); /* no file is an empty one */
    assert_int_equal(h.loss.n, 0);
    free(path);
}

static void draws(void **state)
{
    (void)state;
    static char text[1 << 20];
    char *path = unit_file("", 0);
    rt_history h = {0};
    for (int n = 0; n < 4; n++) {
        static const int points[] = {1, 2, 500, 20000};
        h.loss.n = h.val.n = 0;
        for (int i = 1; i <= points[n]; i++)
            rt_points_add(&h.loss, i, i == 7000 ? 40 : 2 + 8 / (1 + 0.01 * i));
        if (n > 1)
            rt_points_add(&h.val, points[n], 2.5);
        assert_null(rt_svg_write(path, &h, "a <b> & \"c\"", "x"));
        FILE *f = fopen(path, "r");
        size_t size = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[size] = 0;
        assert_true(size > 1000 && size < 100000);
        assert_non_null(strstr(text, "a &lt;b&gt; &amp; &quot;c&quot;"));
        assert_non_null(strstr(text, "</svg>\n"));
        assert_null(strstr(text, "nan"));
        assert_null(strstr(text, "inf"));
        assert_true(!strstr(text, "<circle") == (n < 2));
    }
    /* The one spike of the long run reaches the top of the picture. */
    assert_non_null(strstr(text, " 76.0L"));
    rt_history_free(&h);
    unlink(path);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuts), cmocka_unit_test(values),
                                       cmocka_unit_test(draws)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
