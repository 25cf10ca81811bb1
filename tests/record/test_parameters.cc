/* test_parameters.cc - the parameters of each kernel of kernels/cuda are those that parameters.c
 * says, and each has a contract: the shim knows the kernels by their C++ types. */
#include "tests/record/check/check.h"

#include <set>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>

extern "C" {
#include <cmocka.h>

#include "tests/cuda_shim/shim.h"
#include "tests/record/parameters.h"
}

/* Names of kernels that the shim may have: all types and words, and tiles of attention. */
static std::set<std::string> names()
{
    static const char *const ends[] = {"",    "f32", "f64", "bf16", "f16", "i32",
                                       "1",   "2",   "4",   "8",    "16",
                                       "e4m3", "e5m2"};
    static const int tiles[] = {32, 64, 80, 96, 128, 192, 256};
    std::set<std::string> all;
    for (int i = 0; record_kernel(i); i++) {
        const std::string first = record_kernel(i);
        for (const char *end : ends)
            all.insert(first + end);
        for (const char *way : {"_plain_plain_64", "_plain_turned_128", "_turned_turned_128"})
            for (const char *type : {"bf16", "f16", "f32", "f64", "tf32"})
                for (const char *of : {"", "weight_"})
                    all.insert(first + of + type + way);
        for (const char *type : {"bf16", "f16", "f32", "tf32"})
            for (const char *sight : {"all", "some", "cap", "bias", "capbias"})
                for (int k : tiles)
                    for (int v : tiles)
                        all.insert(first + type + "_" + sight + "_" + std::to_string(k) + "_" +
                                   std::to_string(v));
    }
    return all;
}

static void test_bytes(void **)
{
    std::set<std::string> met;
    int kernels = 0;
    for (const std::string &name : names()) {
        const ShimKernel *k = shim_find(name.c_str());
        int bytes[RECORD_ARGUMENTS];
        if (!k)
            continue;
        const int n = record_kernel_parameters(name.c_str(), bytes);
        assert_int_equal(n, shim_arguments(k));
        for (int i = 0; i < n; i++)
            assert_int_equal(bytes[i], shim_argument_bytes(k, i));
        for (int i = 0; record_kernel(i); i++)
            if (!name.compare(0, std::string(record_kernel(i)).size(), record_kernel(i)))
                met.insert(record_kernel(i));
        kernels++;
    }
    for (int i = 0; record_kernel(i); i++)
        if (!met.count(record_kernel(i)))
            fail_msg("no kernel is like %s", record_kernel(i));
    assert_true(kernels > 100);
}

static void test_contracts(void **)
{
    for (int i = 0; record_kernel(i); i++)
        if (!check::has_contract(record_kernel(i)))
            fail_msg("%s has no contract", record_kernel(i));
    assert_false(check::has_contract("mg_other"));
}

int main()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_contracts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
