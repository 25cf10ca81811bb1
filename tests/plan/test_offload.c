/* Levels of memory: plans whose transfers run beside the rest in any order that they allow compute
 * what is computed without; each wait is needed; what is broken in a transfer is found; times of
 * transfers, computed in another way. (test_physical.c offloads the state of random programs.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/order/streams.h"
#include "tests/plan/planned.h"

/* Numbers for offload_some. */
enum {
    NOTHING = 0,
    UPDATES = 1 << OFFLOAD_state | 1 << OFFLOAD_masters,
    ALL = (1 << OFFLOAD_count) - 1,
    ON_HOST = 1 << OFFLOAD_count
};

/* In halves there are masters. */
static Plan *open_offloaded(Model *t, int model, uint64_t number)
{
    open_model(t, &small_models[model], DT_bf16);
    offload_some(t, number);
    lower_physical(t);
    return plan_for(t, &test_device);
}

/* Is an invariant broken, and said to be number `which`? */
static void must_break(const Plan *p, const char *which, const char *what)
{
    char *text;
    const int n = plan_breaks(p, &text);
    if (!n || !strstr(text, which))
        fail_msg("%s: %s is not found broken, but: %s", what, which, text);
    free(text);
}

static void each_wait(void **state)
{
    (void)state;
    int waits = 0, transfers = 0;
    for (int k = 0; k < small_model_count; k++) {
        Model t;
        if (!sampled((uint64_t)k, SANITIZED ? 6 : 2))
            continue;
        Plan *p = open_offloaded(&t, k, (k % 3 ? ALL : UPDATES) | (k % 2 ? ON_HOST : 0));
        must_hold(p);
        for (size_t i = 0; i < p->train->actions.n; i++)
            for (int s = 0; s < MAX_STREAMS; s++) {
                Action *a = &p->train->actions.data[i];
                const uint32_t was = a->wait[s];
                a->wait[s] = 0;
                if (was)
                    must_break(p, "P6", "a wait is left out");
                a->wait[s] = was;
                waits += was != 0;
                transfers += was && action_transfers(a);
            }
        must_hold(p);
        model_close(&t);
    }
    assert_true(waits > 20 && transfers > 5);
}

/* One of a layer's, in the loop over layers; NULL: there is none. */
static Action *some_transfer(Plan *p, ActionKind kind, size_t nth)
{
    for (size_t i = 0; i < p->train->actions.n; i++) {
        Action *a = &p->train->actions.data[i];
        if (a->kind == kind && a->around >= 0 && nth-- == 0)
            return a;
    }
    return NULL;
}

/* Mistakes of a planner in what it transfers. */
static void mistakes(void **state)
{
    (void)state;
    Model t;
    Plan *p = open_offloaded(&t, 1, UPDATES); /* with layers */
    Action *fetch = some_transfer(p, ACT_fetch, 1), *offload = some_transfer(p, ACT_offload, 1);
    Action fetch_was = *fetch, offload_was = *offload;
    fetch->operand = NEW_ARRAY(t.a, Operand, 2);
    offload->operand = NEW_ARRAY(t.a, Operand, 2);
    for (int what = 0; what < 7; what++) {
        memcpy(fetch->operand, fetch_was.operand, 2 * sizeof(Operand));
        memcpy(offload->operand, offload_was.operand, 2 * sizeof(Operand));
        fetch->bytes = fetch_was.bytes;
        offload->bytes = offload_was.bytes;
        fetch->kind = ACT_fetch;
        Buffer *far = &p->buffers.data[offload->operand[1].at.buffer];
        const Buffer was = *far;
        switch (what) {
        case 0: /* another slice than is meant */
            fetch->operand[0].at.nloops = 0;
            must_break(p, "P3", "the first layer's each time");
            break;
        case 1:
            fetch->bytes -= 4;
            must_break(p, "P3", "a byte too few");
            break;
        case 2: /* the old value stays */
            offload->operand[1].at.buffer = (uint32_t)p->tensor_buffer.data[0];
            must_break(p, "P", "another tensor is written");
            break;
        case 3:
            far->level = LEVEL_device;
            must_break(p, "P", "on the device");
            break;
        case 4:
            far->offset = p->level_bytes[LEVEL_host];
            must_break(p, "P2", "outside of its arena");
            break;
        case 5:
            far->offset += far->offset ? -256 : 256;
            must_break(p, "P2", "over another");
            break;
        default:
            fetch->kind = ACT_copy;
            must_break(p, "P11", "copied as if it were there");
        }
        *far = was;
    }
    fetch->operand = fetch_was.operand;
    offload->operand = offload_was.operand;
    fetch->kind = ACT_fetch;
    must_hold(p);
    model_close(&t);
}

/* Without offload no transfer; with it each byte of what is offloaded comes once and goes once a
 * step, at the device's rates; nothing of it is on the device, whose arena is that much smaller. */
static void bytes(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++) {
        Model t, whole;
        Plan *p = open_offloaded(&t, k, UPDATES), *all = open_offloaded(&whole, k, NOTHING);
        double in = 0, out = 0, far = 0;
        for (size_t i = 0; i < p->train->actions.n; i++) {
            const Action *a = &p->train->actions.data[i];
            const DeviceLevel *l = &test_device.level[LEVEL_host];
            if (!action_transfers(a))
                continue;
            *(a->kind == ACT_fetch ? &in : &out) += a->times * (double)a->bytes;
            const double rate = a->kind == ACT_fetch ? l->in : l->out;
            assert_true(fabs(a->seconds - l->seconds - (double)a->bytes / rate) < 1e-12);
        }
        for (size_t i = 0; i < p->tensor_buffer.n; i++)
            far += p->module->tensors.data[i].type.level
                       ? (double)type_bytes(&p->module->tensors.data[i].type)
                       : 0;
        assert_true(far > 0 && fabs(in - far) < 1 && fabs(out - far) < 1);
        assert_true((double)p->level_bytes[LEVEL_host] >= far);
        assert_int_equal(all->level_bytes[LEVEL_host], 0);
        assert_null(some_transfer(all, ACT_fetch, 0));
        assert_true(p->persistent_bytes <= all->persistent_bytes - (int64_t)far);
        model_close(&t);
        model_close(&whole);
    }
}

static Action *some_on_host(Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (action_on_host(&p->train->actions.data[i]))
            return &p->train->actions.data[i];
    return NULL;
}

/* Kernels on the host: state stays there, so fewer bytes are transferred; each runs in its stream,
 * on operands that are all there, for the time that the host's memory takes. */
static void on_host(void **state)
{
    (void)state;
    int moved = 0;
    for (int k = 0; k < small_model_count; k++) {
        Model t, other;
        Plan *p = open_offloaded(&t, k, UPDATES | ON_HOST),
             *device = open_offloaded(&other, k, UPDATES);
        double there = 0, here = 0;
        must_hold(p);
        for (size_t i = 0; i < device->train->actions.n; i++) {
            const Action *a = &device->train->actions.data[i];
            assert_false(action_on_host(a));
            here += action_transfers(a) ? a->times * (double)a->bytes : 0;
        }
        for (size_t i = 0; i < p->train->actions.n; i++) {
            const Action *a = &p->train->actions.data[i];
            there += action_transfers(a) ? a->times * (double)a->bytes : 0;
            if (!action_on_host(a))
                continue;
            double bytes = 0;
            for (int o = 0; o < a->noperands; o++) {
                assert_int_equal(p->buffers.data[a->operand[o].at.buffer].level, LEVEL_host);
                bytes += (double)type_bytes(&a->operand[o].type);
            }
            assert_int_equal(a->stream, MG_STREAM_HOST);
            assert_true(a->bytes_moved <= bytes && a->seconds >= a->bytes_moved / 8e9);
        }
        Action *a = some_on_host(p);
        assert_true(a ? there < here : there == here);
        moved += a != NULL;
        model_close(&t);
        model_close(&other);
    }
    assert_true(moved > 1);
}

/* Mistakes of a planner in what runs there. */
static void mistakes_on_host(void **state)
{
    (void)state;
    Model t;
    Plan *p = open_offloaded(&t, 1, UPDATES | ON_HOST);
    Action *a = some_on_host(p);
    assert_non_null(a);
    const Action was = *a;
    Operand *operand = NEW_ARRAY(t.a, Operand, was.noperands);
    for (int what = 0; what < 3; what++) {
        memcpy(operand, was.operand, (size_t)was.noperands * sizeof *operand);
        *a = was;
        a->operand = operand;
        Kernel *k = &p->kernels.data[a->kernel];
        const Buffer *device = &p->buffers.data[0];
        while (device->level || device->bytes < 64)
            device++;
        switch (what) {
        case 0: /* an operand of the device, as if it were there */
            operand[1].at = (Place){.buffer = (uint32_t)(device - p->buffers.data)};
            must_break(p, "P", "an operand on the device");
            break;
        case 1: /* the kernel would be a GPU's */
            k->level = LEVEL_device;
            must_break(p, "P11", "a kernel of the device");
            k->level = LEVEL_host;
            break;
        default:
            for (int o = 0; o < was.noperands; o++)
                operand[o].type.level = LEVEL_device;
            must_break(p, "P11", "it takes the host's bytes for the device's");
        }
    }
    *a = was;
    must_hold(p);
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wait), cmocka_unit_test(mistakes),         cmocka_unit_test(bytes),
        cmocka_unit_test(on_host),   cmocka_unit_test(mistakes_on_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
