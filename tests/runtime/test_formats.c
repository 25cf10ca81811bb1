/* CRC-32C and TensorBoard records against known bytes; text for JSON. */
#include "runtime/log/history.h"
#include "runtime/log/sha256.h"
#include "unit.h"

static void expect_hex(const uint8_t *p, size_t n, const char *hex)
{
    char text[1024];
    for (size_t i = 0; i < n; i++)
        sprintf(text + 2 * i, "%02x", p[i]);
    assert_string_equal(text, hex);
}

static void crc(void **state)
{
    (void)state;
    uint8_t zero[32] = {0}, ones[32], up[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++)
        up[i] = (uint8_t)i;
    assert_int_equal(rt_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(rt_crc32c(0, zero, 32), 0x8a9136aa); /* RFC 3720, B.4 */
    assert_int_equal(rt_crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(rt_crc32c(0, up, 32), 0x46dd794e);
    assert_int_equal(rt_crc32c(0, "", 0), 0);
    for (size_t cut = 0; cut <= 32; cut++)
        assert_int_equal(rt_crc32c(rt_crc32c(0, up, cut), up + cut, 32 - cut), 0x46dd794e);
}

static void tfevents(void **state)
{
    (void)state;
    uint8_t out[256];
    expect_hex(out, rt_tf_header(out, 1.7e9),
               "1800000000000000a37f4b22"
               "0900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
    expect_hex(out, rt_tf_scalar(out, 1.7e9 + 1.5, 10, "train/loss", 2.5f),
               "200000000000000029eda950"
               "0900006040fc54d941100a2a130a110a0a747261696e2f6c6f737315000020407f61544f");
    /* A step of more than seven bits, and a session that starts. */
    size_t n = rt_tf_scalar(out, 0, 300, "a", 0);
    expect_hex(out + 12 + 9, n - 16 - 9, "10ac022a0a0a080a01611500000000");
    n = rt_tf_start(out, 0, 5);
    expect_hex(out + 12 + 9, n - 16 - 9, "10053a020801");
}

static void sha256(void **state)
{
    (void)state;
    rt_sha256 s;
    char hex[65], *many = calloc(1, 1000000);
    static const struct {
        const char *text, *hex;
    } known[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                 {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                 {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        rt_sha256_begin(&s);
        rt_sha256_add(&s, known[i].text, strlen(known[i].text));
        rt_sha256_end(&s, hex);
        assert_string_equal(hex, known[i].hex);
    }
    memset(many, 'a', 1000000);
    for (size_t step = 7; step < 1000000; step *= 31) { /* in pieces of any size */
        rt_sha256_begin(&s);
        for (size_t at = 0; at < 1000000; at += step)
            rt_sha256_add(&s, many + at, 1000000 - at < step ? 1000000 - at : step);
        rt_sha256_end(&s, hex);
        assert_string_equal(hex,
                            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
    free(many);
}

static void json_text(void **state)
{
    (void)state;
    static const char *const pair[][2] = {
        {"layers.0.wq", "layers.0.wq"},
        {"a\"b\\c", "a\\\"b\\\\c"},
        {"line\nend\x01", "line\\nend\\u0001"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++) {
        char *text = rt_json_escape(pair[i][0]);
        assert_string_equal(text, pair[i][1]);
        free(text);
    }
}

static void numbers(void **state)
{
    (void)state;
    static const double x[] = {0, 0.1, 1.0 / 3, 3e-4, 1e300, 5e-324, 2.5, 123456789012345678.0};
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        assert_true(strtod(rt_double_text(x[i]).text, NULL) == x[i]);
    assert_string_equal(rt_double_text(0.1).text, "0.1");
    assert_string_equal(rt_bytes_text(1536.0 * 1024 * 1024).text, "1.50 GiB");
    assert_string_equal(rt_bytes_text(17).text, "17 bytes");
    assert_string_equal(rt_count_text(1.27e6).text, "1.27M");
    assert_string_equal(rt_count_text(412).text, "412");
    assert_string_equal(rt_rate_text(6.46e9, "FLOP/s").text, "6.46 GFLOP/s");
    assert_string_equal(rt_duration_text(4042).text, "1:07:22");
    assert_string_equal(rt_duration_text(62).text, "1:02");
}

static void features(void **state)
{
    (void)state;
    assert_null(rt_cpu_lacks(""));
    assert_null(rt_cpu_lacks("-avx512f,-sse2"));
    assert_null(rt_cpu_unknown("-no-such-thing"));
    char *unknown = rt_cpu_unknown("+no-such-thing,+another");
    assert_string_equal(unknown, "no-such-thing, another");
    free(unknown);
#ifdef __x86_64__
    assert_null(rt_cpu_lacks("+sse2,+mmx"));
    assert_null(rt_cpu_unknown("+sse2,+avx512f"));
    char *lacks = rt_cpu_lacks("+sse2,+xop,+fma4"); /* of one maker's processors, and long gone */
    if (!__builtin_cpu_supports("xop"))
        assert_string_equal(lacks, "xop, fma4");
    free(lacks);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc),     cmocka_unit_test(tfevents), cmocka_unit_test(json_text),
        cmocka_unit_test(numbers), cmocka_unit_test(features), cmocka_unit_test(sha256),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
