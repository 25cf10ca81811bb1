/* test_json.c - texts that the JSON reader takes, and texts that it refuses. */
#include "unit.h"

#include "runtime/json.h"

static bool whole(const char *text, size_t n)
{
    char *copy = malloc(n ? n : 1); /* the sanitizer sees a read past the end */
    memcpy(copy, text, n);
    rt_json j;
    rt_json_begin(&j, copy, n);
    bool good = rt_json_skip(&j) && rt_json_end(&j);
    assert_true(good == !j.error);
    rt_json_free(&j);
    free(copy);
    return good;
}

static void accepts(void **state)
{
    (void)state;
    static const char *const text[] = {
        "{}",
        "[]",
        " { } ",
        "[1,2 , 3]",
        "{\"a\":{\"b\":[null,true,false]}}",
        "0",
        "-0",
        "-1.5e+10",
        "\"\"",
        "\"\\u00e9\\ud83d\\ude00\\n\\/\"",
        "\"\xc3\xa9\xf0\x9f\x98\x80\"",
        "1E5",
        "[[[[]]]]",
    };
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        if (!whole(text[i], strlen(text[i])))
            fail_msg("refused: %s", text[i]);
}

static void refuses(void **state)
{
    (void)state;
    static const char *const text[] = {
        "",
        " ",
        "{",
        "[",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{a:1}",
        "{'a':1}",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x10",
        "NaN",
        "Infinity",
        "nul",
        "truE",
        "[1]]",
        "{}{}",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\\u0000\"",
        "\"\t\"",
        "\"\x01\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe2\x82\"",
        "[1}",
        "{\"a\":1]",
        "[",
        "1 1",
        "//",
        "[1]//",
        "{\"a\" 1}",
    };
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        if (whole(text[i], strlen(text[i])))
            fail_msg("taken: %s", text[i]);
}

static void refuses_depth(void **state)
{
    (void)state;
    char deep[100001];
    memset(deep, '[', sizeof deep);
    assert_false(whole(deep, sizeof deep));
    char at_limit[2 * JSON_DEPTH + 2];
    memset(at_limit, '[', JSON_DEPTH);
    memset(at_limit + JSON_DEPTH, ']', JSON_DEPTH);
    assert_true(whole(at_limit, 2 * JSON_DEPTH));
    memset(at_limit, '[', JSON_DEPTH + 1);
    memset(at_limit + JSON_DEPTH + 1, ']', JSON_DEPTH + 1);
    assert_false(whole(at_limit, 2 * JSON_DEPTH + 2));
}

static bool as_int(const char *text, int64_t *v)
{
    rt_json j;
    rt_json_begin(&j, text, strlen(text));
    bool good = rt_json_int(&j, v) && rt_json_end(&j);
    rt_json_free(&j);
    return good;
}

static void integers(void **state)
{
    (void)state;
    int64_t v;
    assert_true(as_int("9223372036854775807", &v) && v == INT64_MAX);
    assert_true(as_int("-9223372036854775808", &v) && v == INT64_MIN);
    assert_true(as_int("0", &v) && v == 0);
    assert_false(as_int("9223372036854775808", &v));
    assert_false(as_int("-9223372036854775809", &v));
    assert_false(as_int("18446744073709551617", &v));
    assert_false(as_int("1.0", &v));
    assert_false(as_int("1e3", &v));
    assert_false(as_int("\"1\"", &v));
}

static void walks(void **state)
{
    (void)state;
    static const char text[] = " {\"a\" : [1, 2.5], \"\\u0062\":\"x\\ty\"} ";
    rt_json j;
    int64_t i;
    double d;
    rt_json_begin(&j, text, strlen(text));
    assert_true(rt_json_enter(&j, '{'));
    assert_true(rt_json_key(&j));
    assert_string_equal(j.text, "a");
    assert_true(rt_json_enter(&j, '[') && rt_json_item(&j) && rt_json_int(&j, &i));
    assert_int_equal(i, 1);
    assert_true(rt_json_item(&j) && rt_json_number(&j, &d));
    assert_true(d == 2.5);
    assert_false(rt_json_item(&j));
    assert_true(rt_json_key(&j));
    assert_string_equal(j.text, "b");
    assert_true(rt_json_string(&j));
    assert_string_equal(j.text, "x\ty");
    assert_false(rt_json_key(&j));
    assert_true(rt_json_end(&j));
    rt_json_free(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),  cmocka_unit_test(refuses), cmocka_unit_test(refuses_depth),
        cmocka_unit_test(integers), cmocka_unit_test(walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
