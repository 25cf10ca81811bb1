/* Whole files: what is read, how many bytes, and why a file is not read. */
#include "unit.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files.h"

/* The file is not read, errno is `why`, and it is told to have n bytes. */
static void fails(const char *path, int flags, int64_t most, int why, size_t n)
{
    size_t got = 77;
    errno = 0;
    assert_null(rt_file_whole(path, flags, most, &got));
    assert_int_equal(errno, why);
    assert_int_equal(got, n);
}

static void test_whole(void **state)
{
    (void)state;
    static const char bytes[] = "one\0two\n";
    const size_t size = sizeof bytes - 1;
    char *path = unit_file(bytes, size), *empty = unit_file("", 0);
    size_t n;
    char *text = rt_file_whole(path, O_NOFOLLOW, (int64_t)size, &n);
    assert_int_equal(n, size);
    assert_memory_equal(text, bytes, sizeof bytes); /* with the 0 behind it */
    free(text);
    text = rt_file_need("--what ", path, (int64_t)size, NULL);
    assert_memory_equal(text, bytes, sizeof bytes);
    free(text);
    text = rt_file_need("", empty, 0, &n);
    assert_int_equal(n, 0);
    assert_string_equal(text, "");
    free(text);
    unlink(path);
    unlink(empty);
    free(path);
    free(empty);
}

static void test_not_read(void **state)
{
    (void)state;
    char *path = unit_file("12345678", 8), *other = rt_printf("%s.link", path);
    fails(path, 0, 7, EFBIG, 8);
    fails(other, 0, 100, ENOENT, 0);
    assert_int_equal(symlink(path, other), 0);
    fails(other, O_NOFOLLOW, 100, ELOOP, 0);
    assert_string_equal(rt_file_error(), "it is a symbolic link, which is not followed here");
    size_t n;
    char *text = rt_file_whole(other, 0, 100, &n); /* one that may be followed */
    assert_string_equal(text, "12345678");
    free(text);
    unlink(other);
    assert_int_equal(mkfifo(other, 0600), 0); /* nobody writes: it is not waited for */
    size_t none;
    assert_null(rt_file_whole(other, 0, 100, &none));
    assert_string_equal(rt_file_error(), "it is not a regular file");
    unlink(other);
    assert_int_equal(mkdir(other, 0700), 0);
    fails(other, 0, 100, EISDIR, 0);
    rmdir(other);
    errno = 0; /* what rt_read_at says of a file that ends before */
    assert_string_equal(rt_file_error(), "it became shorter while it was read");
    unlink(path);
    free(path);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole),
                                       cmocka_unit_test(test_not_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
