/* A preflight's judgement of what was told and measured: each fault is found in a fleet that is
 * good otherwise, under its host's name, and nothing else is. */
#include "unit.h"

#include "runtime/preflight/flight.h"

enum { HOSTS = 8, EACH = 2, LINKS = HOSTS * (HOSTS - 1) / 2 };

static const mg_action actions[] = {
    {.name = "sum", .where = "m.mg:1", .predicted_us = 1000},
};
static const mg_comm_desc desc = {.kind = MG_ALL_REDUCE, .dtype = MG_F32, .axes = 2, .n = EACH};
static const mg_planned planned = {0, &desc};

typedef struct fleet {
    mg_program program;
    mg_run run;
    rt_flight f;
    rt_about about[HOSTS * EACH];
    double ahead[HOSTS], bound[HOSTS];
    rt_link link[LINKS];
    rt_group group[1];
} fleet;

static void new_fleet(fleet *t)
{
    *t = (fleet){.program = {.name = "m",
                             .actions = actions,
                             .naxes = 2,
                             .axes = {{"dp", HOSTS}, {"tp", EACH}},
                             .network = {1e10, 1e-6, 1e9, 1e-5, EACH}}};
    t->run.program = &t->program;
    rt_flight *f = &t->f;
    *f = (rt_flight){.run = &t->run, .n = HOSTS * EACH, .nhosts = HOSTS, .silent = true};
    for (int i = 0; i < f->n; i++) {
        f->host[i] = i / EACH;
        f->place[i] = i % EACH;
        f->first[i / EACH] = i / EACH * EACH;
        f->ranks[i / EACH] = EACH;
        t->about[i] = (rt_about){.machine = (uint64_t)(i / EACH),
                                 .program = 7,
                                 .opened = true,
                                 .knows_itself = true,
                                 .by_cores = true,
                                 .cores = 8,
                                 .threads = 4,
                                 .here = EACH,
                                 .planned = 100,
                                 .available = 1000,
                                 .files = 1024,
                                 .files_needed = 200,
                                 .locked = 1 << 30,
                                 .longest = INT64_MAX};
        snprintf(t->about[i].host, sizeof t->about[i].host, "h%d", i / EACH);
        snprintf(t->about[i].system, sizeof t->about[i].system, "Linux 6");
        snprintf(t->about[i].file, sizeof t->about[i].file, "abc");
    }
    for (int a = 0; a < HOSTS; a++)
        for (int b = a + 1; b < HOSTS; b++)
            t->link[f->nlinks++] = (rt_link){a, b, EACH, 1e-5, {2e9, 2.1e9}};
    f->about = t->about;
    f->ahead = t->ahead;
    f->bound = t->bound;
    f->link = t->link;
    t->group[0] = (rt_group){.planned = &planned, .groups = HOSTS, .seconds = 1e-3, .median = 1e-3};
    f->group = t->group;
    f->ngroups = 1;
}

static void judge(fleet *t)
{
    rt_check_hosts(&t->f);
    rt_judge_clocks(&t->f);
    rt_judge_links(&t->f);
    rt_judge_groups(&t->f);
}

/* There are so many findings that are not good, the first of them with these words. */
static void expect(fleet *t, int wrong, rt_mark mark, const char *check, const char *words)
{
    const rt_finding *first = NULL;
    int n = 0;
    for (int i = 0; i < t->f.nfindings; i++)
        if (t->f.finding[i].mark != RT_GOOD) {
            first = first ? first : &t->f.finding[i];
            n++;
        }
    if (first && n != wrong)
        print_message("%s: %s\n", first->check, first->text);
    assert_int_equal(n, wrong);
    if (first) {
        assert_int_equal(first->mark, mark);
        assert_string_equal(first->check, check);
        if (!strstr(first->text, words))
            print_message("%s\n", first->text);
        assert_non_null(strstr(first->text, words));
    }
    assert_int_equal(t->f.code != RT_DONE, wrong && mark == RT_FAULT);
    for (int i = 0; i < t->f.nfindings; i++) {
        free(t->f.finding[i].text);
        free(t->f.finding[i].again);
    }
    free(t->f.finding);
}

static void each_two_meet_once(void **state)
{
    (void)state;
    for (int n = 1; n < 40; n++) {
        int *met = calloc((size_t)(n * n), sizeof *met);
        for (int round = 0; round < rt_rounds(n); round++)
            for (int i = 0; i < n; i++) {
                const int k = rt_partner(n, round, i);
                assert_true(k >= -1 && k < n && k != i);
                assert_true(k >= 0 || n % 2);
                if (k < 0)
                    continue;
                assert_int_equal(rt_partner(n, round, k), i);
                met[i * n + k]++;
            }
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++)
                assert_int_equal(met[i * n + k], i != k);
        free(met);
    }
}

static void nothing_is_found_in_a_good_fleet(void **state)
{
    (void)state;
    fleet t;
    new_fleet(&t);
    judge(&t);
    expect(&t, 0, RT_GOOD, "", "");
}

static rt_link *between(fleet *t, int a, int b)
{
    for (int i = 0; i < LINKS; i++)
        if (t->link[i].a == a && t->link[i].b == b)
            return &t->link[i];
    return NULL;
}

static void links_are_named(void **state)
{
    (void)state;
    fleet t;
    new_fleet(&t);
    between(&t, 2, 5)->rate[1] = 4e8;
    judge(&t);
    expect(&t, 1, RT_FAULT, "link",
           "from host h5 to host h2 each of 2 ranks sends 200 MB/s: 0.2 of");
    new_fleet(&t); /* at the border: half of the planned rate, and of the usual one */
    between(&t, 2, 5)->rate[0] = 1.01e9;
    judge(&t);
    expect(&t, 0, RT_GOOD, "", "");
    new_fleet(&t);
    between(&t, 0, 7)->seconds = 5e-3;
    judge(&t);
    expect(&t, 1, RT_FAULT, "link", "a message between host h0 and host h7 takes 5 ms, where 0.01");
    new_fleet(&t); /* an adapter: all links of a host */
    for (int h = 0; h < HOSTS; h++)
        if (h != 3)
            between(&t, h < 3 ? h : 3, h < 3 ? 3 : h)->rate[0] = 1e8;
    judge(&t);
    expect(&t, 1, RT_FAULT, "link", "host h3: 7 of its 7 links are slow or late");
    new_fleet(&t); /* all are slower than planned: the plan is, or the network; a few are named */
    for (int i = 0; i < LINKS; i++)
        t.link[i].rate[0] = 2e8;
    judge(&t);
    expect(&t, 13, RT_FAULT, "link", "mgc commbench -o mine.json");
}

static void clocks_are_named(void **state)
{
    (void)state;
    fleet t;
    for (int h = 0; h < HOSTS; h++) { /* rank 0's own may be the wrong one */
        new_fleet(&t);
        for (int k = 0; k < HOSTS; k++)
            t.ahead[k] = (k == h) - (h == 0 ? 1.0 : 0.0);
        judge(&t);
        char *words = rt_printf("host h%d has a clock that is 1.000 s ahead", h);
        expect(&t, 1, RT_FAULT, "clock", words);
        free(words);
    }
    new_fleet(&t);
    t.ahead[4] = 0.7;
    t.bound[4] = 0.3; /* it is not known to be wrong */
    judge(&t);
    expect(&t, 0, RT_GOOD, "", "");
}

static void hosts_are_named(void **state)
{
    (void)state;
    fleet t;
    new_fleet(&t);
    for (int i = 12; i < 14; i++)
        t.about[i].program = 8;
    judge(&t);
    assert_false(rt_may_compute(&t.f));
    expect(&t, 1, RT_FAULT, "program", "host h6 has another program than host h0");
    new_fleet(&t); /* rank 0's own is the one that is unlike the others */
    t.about[0].program = t.about[1].program = 8;
    judge(&t);
    expect(&t, 1, RT_FAULT, "program", "host h0 has another program than host h1");
    new_fleet(&t);
    t.about[4].available = 99;
    judge(&t);
    assert_false(rt_may_compute(&t.f));
    expect(&t, 1, RT_FAULT, "memory", "host h2 has 99 bytes of memory for 100 bytes");
    new_fleet(&t);
    t.about[14].cores = 7;
    judge(&t);
    assert_true(rt_may_compute(&t.f));
    expect(&t, 1, RT_FAULT, "cores", "host h7 gives a rank 7 cores, and other hosts 8");
    new_fleet(&t);
    t.about[2].shm_needed = 65;
    t.about[2].shm = 64;
    judge(&t);
    expect(&t, 1, RT_FAULT, "/dev/shm", "host h1 has 64 bytes in /dev/shm, and 65 bytes");
    new_fleet(&t);
    t.about[2].infiniband = true;
    t.about[2].locked = 65536;
    judge(&t);
    expect(&t, 1, RT_FAULT, "locked memory", "host h1 allows 64.00 KiB of locked memory");
    new_fleet(&t);
    snprintf(t.about[6].versions, sizeof t.about[6].versions, "NCCL 2.19.3");
    judge(&t);
    expect(&t, 1, RT_FAULT, "collectives", "host h3 has NCCL 2.19.3, and host h0 none");
    new_fleet(&t);
    snprintf(t.about[6].system, sizeof t.about[6].system, "Linux 5");
    judge(&t);
    expect(&t, 1, RT_DOUBT, "system", "host h3 has Linux 5, and host h0 Linux 6");
    new_fleet(&t);
    snprintf(t.about[6].host, sizeof t.about[6].host, "h1");
    judge(&t);
    expect(&t, 1, RT_DOUBT, "name", "two hosts call themselves h1 (those of ranks 2 and 6)");
}

static void collectives_are_named(void **state)
{
    (void)state;
    fleet t;
    new_fleet(&t);
    t.group[0].seconds = 4.1e-3;
    t.group[0].slowest = 9;
    judge(&t);
    expect(&t, 1, RT_FAULT, "collective",
           "takes 4.1 ms on the group of rank 9 (host h4), where 1 are");
    new_fleet(&t);
    t.group[0].seconds = 2.5e-3; /* later than the others */
    judge(&t);
    expect(&t, 1, RT_FAULT, "collective", "the median group takes 1");
    new_fleet(&t);
    t.group[0].seconds = t.group[0].median = 2.5e-3; /* as all are */
    judge(&t);
    expect(&t, 1, RT_DOUBT, "collective", "2.5 ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_two_meet_once), cmocka_unit_test(nothing_is_found_in_a_good_fleet),
        cmocka_unit_test(links_are_named),    cmocka_unit_test(clocks_are_named),
        cmocka_unit_test(hosts_are_named),    cmocka_unit_test(collectives_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
