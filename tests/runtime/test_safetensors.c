/* The safetensors header: a known file, what is written is read, and hostile ones by the thousand.
 */
#include "unit.h"

#include "runtime/checkpoint/safetensors.h"

static const char known[] = "\x38\0\0\0\0\0\0\0"
                            "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  "
                            "\0\0\x80\x3f\0\0\0\x40";

/* Parses a whole file in memory of exactly its size. */
static bool parse(rt_st *st, const void *file, size_t size, char error[ST_ERROR])
{
    *st = (rt_st){0};
    if (size < 8)
        return false;
    uint64_t n = rt_st_header_size(file, size, error);
    if (!n)
        return false;
    char *json = malloc(n);
    memcpy(json, (const char *)file + 8, n);
    bool good = rt_st_parse(st, json, n, size, error);
    free(json);
    return good;
}

static void reads_known(void **state)
{
    (void)state;
    rt_st st;
    char error[ST_ERROR];
    assert_int_equal(sizeof known - 1, 72);
    assert_true(parse(&st, known, 72, error));
    assert_int_equal(st.n, 1);
    assert_int_equal(st.data, 64);
    const rt_st_tensor *t = rt_st_find(&st, "w");
    assert_non_null(t);
    assert_string_equal(t->dtype, "F32");
    assert_int_equal(t->rank, 1);
    assert_int_equal(t->shape[0], 2);
    assert_true(t->begin == 0 && t->end == 8);
    assert_null(rt_st_find(&st, "v"));
    rt_st_free(&st);
}

static void reads_what_it_writes(void **state)
{
    (void)state;
    rt_st_tensor t[] = {{.name = "b", .dtype = "F32", .rank = 2, .shape = {3, 4}},
                        {.name = "a \"quoted\"\n", .dtype = "F64", .rank = 0},
                        {.name = "empty", .dtype = "F32", .rank = 2, .shape = {0, 9}},
                        {.name = "\xc3\xa9", .dtype = "BF16", .rank = 1, .shape = {5}}};
    size_t size;
    char *header = rt_st_header(t, 4, &size), error[ST_ERROR];
    rt_st st;
    assert_int_equal(size % 8, 0);
    assert_int_equal(header[8], '{');
    size_t whole = size + 48 + 8 + 10;
    char *file = calloc(whole, 1);
    memcpy(file, header, size);
    assert_true(parse(&st, file, whole, error));
    assert_int_equal(st.n, 4);
    const rt_st_tensor *a = rt_st_find(&st, "a \"quoted\"\n"), *b = rt_st_find(&st, "b");
    assert_true(a && a->rank == 0 && a->begin == 48 && a->end == 56);
    assert_true(b && b->rank == 2 && b->shape[1] == 4 && b->begin == 0 && b->end == 48);
    rt_st_free(&st);
    assert_false(parse(&st, file, whole - 1, error));
    assert_false(parse(&st, file, whole + 1 < whole ? 0 : size, error));
    free(file);
    free(header);
}

static void no_tensors(void **state)
{
    (void)state;
    size_t size;
    char *header = rt_st_header(NULL, 0, &size), error[ST_ERROR];
    rt_st st;
    assert_true(parse(&st, header, size, error));
    assert_int_equal(st.n, 0);
    rt_st_free(&st);
    free(header);
}

/* A file around a header of JSON with `data` bytes behind it. */
static bool parse_json(const char *json, size_t data, char error[ST_ERROR])
{
    size_t n = strlen(json), size = 8 + n + data;
    char *file = calloc(size, 1);
    rt_st st;
    for (int i = 0; i < 8; i++)
        file[i] = (char)(n >> (8 * i));
    memcpy(file + 8, json, n);
    bool good = parse(&st, file, size, error);
    assert_true(good || error[0]);
    rt_st_free(&st);
    free(file);
    return good;
}

#define T(shape, from, to)                                                                         \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static void refuses_hostile(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says;
        size_t data;
    } bad[] = {
        {"[]", "does not begin", 0},
        {" {}", "does not begin", 0},
        {"{\"a\":" T("[2]", "0", "8") "}", "end at 8 of 9", 9},
        {"{\"a\":" T("[2]", "0", "8") "}", "end at 8 of 7", 7},
        {"{\"a\":" T("[2]", "0", "4") "}", "by its shape", 4},
        {"{\"a\":" T("[2]", "8", "0") "}", "not [begin, end]", 8},
        {"{\"a\":" T("[2]", "-8", "0") "}", "not [begin, end]", 8},
        {"{\"a\":" T("[2]", "4", "12") "}", "hole", 12},
        {"{\"a\":" T("[2]", "0", "8") ",\"b\":" T("[2]", "4", "12") "}", "inside", 12},
        {"{\"a\":" T("[2]", "0", "8") ",\"b\":" T("[2]", "12", "20") "}", "hole", 20},
        {"{\"a\":" T("[2]", "0", "8") ",\"a\":" T("[2]", "8", "16") "}", "two tensors", 16},
        {"{\"a\":" T("[4194305,4194305,211106198978564]", "0", "16") "}", "64 bits", 16},
        {"{\"a\":" T("[4611686018427387904,4]", "0", "0") "}", "64 bits", 0},
        {"{\"a\":" T("[9223372036854775808]", "0", "0") "}", "over 64 bits", 0},
        {"{\"a\":" T("[-2]", "0", "8") "}", "dim of -2", 8},
        {"{\"a\":" T("[2.0]", "0", "8") "}", "whole number", 8},
        {"{\"a\":" T("[1,1,1,1,1,1,1,1,1]", "0", "4") "}", "more than 8 dims", 4},
        {"{\"a\":" T("2", "0", "8") "}", "expected an array", 8},
        {"{\"\":" T("[2]", "0", "8") "}", "name has 0 bytes", 8},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", "unknown dtype", 8},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,0]}}", "end at a byte", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         "twice", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "lacks", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", "not known",
         8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", "more than two", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", "not [begin, end]", 8},
        {"{\"__metadata__\":{\"a\":1}}", "expected a string", 0},
        {"{\"__metadata__\":{\"a\":\"x\",\"a\":\"y\"}}", "key 'a' twice", 0},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", "comes twice", 0},
        {"{\"a\":" T("[2]", "0", "8") "}x", "text after", 8},
        {"{\"a\":[[[[[[[[[[[[[[[[[[[[", "expected an object", 0},
        {"{\"a\":" T("[2]", "0", "8"), "expected ','", 8},
    };
    char error[ST_ERROR];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        error[0] = 0;
        if (parse_json(bad[i].json, bad[i].data, error))
            fail_msg("taken: %s", bad[i].json);
        if (!strstr(error, bad[i].says))
            fail_msg("%s\nsays '%s', not '%s'", bad[i].json, error, bad[i].says);
    }
}

static void refuses_sizes(void **state)
{
    (void)state;
    char error[ST_ERROR];
    static const uint64_t n[] = {
        0, 1, 65, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, ST_HEADER_MAX + 1};
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) {
        uint8_t first[8];
        for (int k = 0; k < 8; k++)
            first[k] = (uint8_t)(n[i] >> (8 * k));
        assert_int_equal(rt_st_header_size(first, 72, error), 0);
    }
    assert_int_equal(rt_st_header_size((const uint8_t *)known, 72, error), 56);
    assert_int_equal(rt_st_header_size((const uint8_t *)known, 63, error), 0);
}

/* An accepted header keeps its promises, whatever was done to the file. */
static void check_promises(const rt_st *st, size_t size)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < st->n; i++) {
        const rt_st_tensor *t = &st->tensor[i];
        uint64_t bytes = (uint64_t)rt_st_bits(t->dtype) / 8;
        for (int k = 0; k < t->rank; k++)
            bytes *= (uint64_t)t->shape[k];
        assert_true(t->begin <= t->end && t->end <= size - st->data);
        assert_true(bytes == t->end - t->begin);
        sum += bytes;
        assert_true(i == 0 || strcmp(st->tensor[i - 1].name, t->name) < 0);
    }
    assert_true(sum == size - st->data);
}

static void survives_mutation(void **state)
{
    (void)state;
    static const char json[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":" T("[2,1]", "0", "8") ",\"b\":" T(
            "[]", "8", "12") ",\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[12,12]}}";
    size_t n = sizeof json - 1, size = 8 + n + 12;
    uint64_t seed = 42;
    int taken = 0;
    char *file = calloc(size, 1), *mutant = malloc(size);
    file[0] = (char)n;
    memcpy(file + 8, json, n);
    for (int iteration = 0; iteration < 200000; iteration++) {
        char error[ST_ERROR] = "";
        rt_st st;
        size_t length = size;
        memcpy(mutant, file, size);
        for (uint64_t edits = unit_random(&seed) % 4; edits; edits--) {
            static const char useful[] = "0123456789\"{}[],:-\\ \0\xff";
            size_t at = unit_random(&seed) % (8 + n);
            mutant[at] = unit_random(&seed) % 2 ? useful[unit_random(&seed) % sizeof useful]
                                                : (char)unit_random(&seed);
        }
        if (unit_random(&seed) % 8 == 0)
            length = unit_random(&seed) % size;
        if (parse(&st, mutant, length, error)) {
            taken++;
            check_promises(&st, length);
        }
        rt_st_free(&st);
    }
    assert_true(taken > 1000 && taken < 150000);
    free(file);
    free(mutant);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_known),   cmocka_unit_test(reads_what_it_writes),
        cmocka_unit_test(no_tensors),    cmocka_unit_test(refuses_hostile),
        cmocka_unit_test(refuses_sizes), cmocka_unit_test(survives_mutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
