/* Points of a processor's streams: who waits for one has waited for all that the stream waited for,
 * also where a rank has not the transfers that were held. Transfers are numbers here. */
#include "unit.h"

#include <stdlib.h>

#include "runtime/abi.h"
#include "runtime/levels.h"
#include "runtime/net/async_comm.h"
#include "runtime/streams.h"
#include "runtime/transfers.h"

static uint64_t begun[RT_WAYS], waited[RT_WAYS], finished;

uint64_t rt_levels_begun(const mg_run *r, int way)
{
    (void)r;
    return begun[way];
}

bool rt_levels_done(mg_run *r, int way, uint64_t number, int64_t ns)
{
    (void)r;
    if (ns && number > waited[way])
        waited[way] = number;
    return number <= waited[way];
}

int rt_levels_action(const mg_run *r, int way, uint64_t number)
{
    (void)r;
    assert_true(number && number <= begun[way]);
    return 0;
}

uint64_t rt_async_comm_begun(const mg_run *r)
{
    (void)r;
    return 0;
}

void rt_async_comm_finish(mg_run *r, uint64_t number)
{
    (void)r;
    finished = number;
}

void rt_async_comm_hold(mg_run *r, uint64_t number)
{
    (void)r;
    (void)number;
}

void mg_begin(mg_run *r, int action)
{
    (void)r;
    (void)action;
}

void mg_end(mg_run *r, int action)
{
    (void)r;
    (void)action;
}

void mg_progress(mg_run *r)
{
    (void)r;
}

void *rt_alloc(size_t n, size_t size)
{
    return calloc(n, size);
}

enum { FETCHED = 3, OFFLOADED = 4 }; /* points */

/* Of a rank that has a fetch or none, and then an offload or none, which waits for the fetch: what
 * a thread has waited for when it goes on behind the offload's point. */
static void wait_behind(bool fetches, bool offloads)
{
    mg_run r = {0};
    for (int way = 0; way < RT_WAYS; way++)
        begun[way] = waited[way] = 5;
    rt_streams_open(&r);
    mg_stream(&r, MG_STREAM_FETCHES);
    begun[RT_IN] += fetches;
    mg_record(&r, FETCHED);
    mg_stream(&r, MG_STREAM_OFFLOADS);
    mg_wait(&r, FETCHED);
    assert_int_equal(rt_streams_held(&r, RT_OUT), begun[RT_IN]);
    assert_int_equal(waited[RT_IN], 5); /* the offload is held, and nothing waits */
    begun[RT_OUT] += offloads;
    mg_record(&r, OFFLOADED);
    mg_stream(&r, MG_STREAM_REST);
    mg_wait(&r, OFFLOADED);
    assert_int_equal(waited[RT_OUT], begun[RT_OUT]);
    assert_int_equal(waited[RT_IN], begun[RT_IN]);
    rt_streams_close(&r);
}

static void points(void **state)
{
    (void)state;
    for (int has = 0; has < 4; has++)
        wait_behind(has & 1, has & 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
