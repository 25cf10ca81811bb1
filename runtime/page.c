/* page.c - the kernel's page. x86-64 has pages of 4 KiB. Kernels for aarch64 have 4, 16 or 64 KiB
 * (the one that NVIDIA recommends for Grace has 64), and refuse addresses that are no multiple of
 * that. */
#include "runtime/run.h"

#include <unistd.h>

int64_t rt_page(void)
{
    return sysconf(_SC_PAGESIZE);
}

int64_t rt_whole_pages(int64_t bytes)
{
    const int64_t page = rt_page();
    return (bytes + page - 1) / page * page;
}
