/* Ranks that meet by TCP, among strangers: who says nothing, rubbish, half of what is wanted, what
 * another said, or has another secret holds up nobody and is let in nowhere. */
#include "wire_unit.h"

#include "runtime/net/wire_tcp.h"

/* ---- strangers ------------------------------------------------------------------------------- */

static int call(const char *from, const char *to, int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET}, b = {.sin_family = AF_INET};
    struct timeval limit = {.tv_sec = 20};
    int yes = 1;
    inet_pton(AF_INET, from, &a.sin_addr);
    inet_pton(AF_INET, to, &b.sin_addr);
    b.sin_port = htons((uint16_t)port);
    for (int tries = 0; tries < 1000; tries++) {
        int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(s, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
        assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof a), 0);
        if (connect(s, (struct sockaddr *)&b, sizeof b) == 0)
            return s;
        int e = errno;
        close(s);
        usleep(10000);
        errno = e;
    }
    fail_msg("nobody listens: %s", strerror(errno));
    return -1;
}

static void tell(int s, const void *what, size_t bytes)
{
    assert_int_equal(send(s, what, bytes, MSG_NOSIGNAL), bytes);
}

/* All of it, or what there was before the end. */
static size_t hear(int s, void *to, size_t bytes)
{
    size_t n = 0;
    for (ssize_t more; n < bytes && (more = recv(s, (char *)to + n, bytes - n, 0)) > 0;)
        n += (size_t)more;
    return n;
}

static bool hung_up(int s)
{
    char byte;
    return recv(s, &byte, 1, 0) <= 0;
}

/* A rank's hello, as far as a stranger can know it: rank 0 says its job and program itself. */
static rt_hello likely(int port, int size, int rank)
{
    rt_hello h = {
        .magic = "mgcwire", .version = 2, .ranks = (uint32_t)size, .rank = (uint32_t)rank};
    rt_answer a;
    int s = call("127.0.0.9", "127.0.0.1", port);
    tell(s, &h, sizeof h);
    assert_int_equal(hear(s, &a, sizeof a), sizeof a);
    assert_true(hung_up(s));
    assert_true(a.hello.refusal != 0);
    close(s);
    h.job = a.hello.job;
    h.program = a.hello.program;
    return h;
}

static int count(const char *text, const char *words)
{
    int n = 0;
    for (const char *s = text; (s = strstr(s, words)); s++)
        n++;
    return n;
}

/* The others come, and all is well; what rank 0 said meanwhile, to be freed. */
static char *others_come(const job *j, process leader, int first)
{
    process p[8];
    int code;
    int64_t began = rt_now_ns();
    for (int i = first; i < j->size; i++)
        p[i] = unit_rank(j, i, NULL);
    char *said = unit_said(leader, &code);
    if (code)
        fail_msg("rank 0 ended with %d: %s", code, said);
    for (int i = first; i < j->size; i++)
        unit_ends(p[i], 0, NULL);
    assert_true(rt_now_ns() - began < (int64_t)4000000000);
    return said;
}

static void strangers(void **state)
{
    job j = {.size = 3, .port = unit_port(), .program = 5};
    process leader = unit_rank(&j, 0, NULL);
    char rubbish[200];
    (void)state;
    memset(rubbish, 'x', sizeof rubbish);
    rt_hello h = likely(j.port, 3, 1);
    int silent = call("127.0.0.2", "127.0.0.1", j.port);
    int half = call("127.0.0.3", "127.0.0.1", j.port);
    tell(half, &h, sizeof h / 2);
    for (int i = 0; i < 3; i++) {
        int s = call("127.0.0.4", "127.0.0.1", j.port);
        tell(s, rubbish, i == 1 ? sizeof rubbish : 1); /* one byte tells */
        assert_true(hung_up(s));
        close(s);
    }
    close(call("127.0.0.5", "127.0.0.1", j.port));
    rt_hello newer = h;
    newer.version = 3;
    int other = call("127.0.0.7", "127.0.0.1", j.port);
    tell(other, &newer, sizeof newer);
    assert_int_equal(hear(other, &(rt_answer){0}, sizeof(rt_answer)), sizeof(rt_answer));
    assert_true(hung_up(other));
    close(other);
    int unproved = call("127.0.0.6", "127.0.0.1", j.port);
    rt_answer a;
    tell(unproved, &h, sizeof h);
    assert_int_equal(hear(unproved, &a, sizeof a), sizeof a);
    assert_int_equal(a.hello.refusal, 0);
    char *said = others_come(&j, leader, 1);
    assert_int_equal(count(said, "was sent away: it says something else than a rank would"), 1);
    assert_int_equal(count(said, "from 127.0.0.4 port "), 1);
    assert_int_equal(count(said, "from 127.0.0.5 port "), 1);
    assert_int_equal(count(said, "from 127.0.0.7 port "), 1);
    assert_int_equal(count(said, "its program was made by another version of mgc"), 1);
    assert_int_equal(count(said, "was sent away"), 4); /* and the first, of another job */
    /* Nobody listens when all have met, and none of these was let in. */
    assert_true(hung_up(silent) && hung_up(half) && hung_up(unproved));
    free(said);
    close(silent), close(half), close(unproved);
}

/* A caller that says nothing for ten seconds is sent away, while rank 0 waits on. */
static void too_slow(void **state)
{
    job j = {.size = 2, .port = unit_port()};
    process leader = unit_rank(&j, 0, NULL);
    (void)state;
    int silent = call("127.0.0.2", "127.0.0.1", j.port);
    int64_t began = rt_now_ns();
    assert_true(hung_up(silent));
    double seconds = (double)(rt_now_ns() - began) / 1e9;
    assert_true(seconds > 9 && seconds < 12);
    char *said = others_come(&j, leader, 1);
    assert_int_equal(count(said, "from 127.0.0.2 port "), 1);
    assert_int_equal(count(said, "was sent away: it did not say who it is"), 1);
    assert_int_equal(count(said, "waiting for rank 1 at 127.0.0.1, port "), 1);
    free(said);
    close(silent);
}

/* More of them than there are places: the first give theirs up. */
static void too_many(void **state)
{
    enum { N = 60 };
    job j = {.size = 3, .port = unit_port()};
    process leader = unit_rank(&j, 0, NULL);
    int s[N], open = N;
    (void)state;
    for (int i = 0; i < N; i++)
        s[i] = call("127.0.0.2", "127.0.0.1", j.port);
    assert_true(hung_up(s[0]));
    for (int tries = 0; open > j.size + 16 && tries < 500; tries++) {
        usleep(10000);
        open = 0;
        for (int i = 0; i < N; i++)
            open += recv(s[i], &(char){0}, 1, MSG_DONTWAIT) < 0;
    }
    assert_int_equal(open, j.size + 16);
    char *said = others_come(&j, leader, 1);
    assert_int_equal(count(said, "too many call at once"), 1);
    free(said);
    for (int i = 0; i < N; i++)
        close(s[i]);
}

/* First bytes of every kind, many of them the beginning of what a rank would say. */
static void fuzz(void **state)
{
    enum { TIMES = 3000, KEPT = 8 };
    const char *times = getenv("MGC_FUZZ_TIMES");
    job j = {.size = 4, .port = unit_port(), .program = 5};
    process leader = unit_rank(&j, 0, NULL);
    rt_hello h = likely(j.port, 4, 1);
    uint64_t seed = 77;
    int kept[KEPT] = {0};
    (void)state;
    for (int i = 0; i < (times ? atoi(times) : TIMES); i++) {
        uint8_t bytes[300];
        size_t n = unit_random(&seed) % sizeof bytes;
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)unit_random(&seed);
        uint64_t how = unit_random(&seed) % 4;
        h.rank = (uint32_t)(unit_random(&seed) % 5);
        h.line = (uint32_t)(unit_random(&seed) % 3);
        if (how == 1) { /* right but for a byte */
            memcpy(bytes, &h, sizeof h);
            bytes[unit_random(&seed) % sizeof h] ^= (uint8_t)(1 << unit_random(&seed) % 8);
        } else if (how == 2) { /* right, and then a proof that is none */
            memcpy(bytes, &h, sizeof h);
        } else if (how == 3) { /* the first fields at random */
            memcpy(bytes, h.magic, sizeof h.magic);
            for (int k = 0; k < 6; k++)
                bytes[8 + 4 * k + unit_random(&seed) % 4] = (uint8_t)(unit_random(&seed) % 3);
        }
        int s = call("127.0.0.3", "127.0.0.1", j.port), *place = &kept[unit_random(&seed) % KEPT];
        send(s, bytes, n, MSG_NOSIGNAL);
        if (*place)
            close(*place);
        *place = s;
    }
    char *said = others_come(&j, leader, 1);
    assert_true(count(said, "was sent away") <= 16); /* so many notes at most */
    assert_int_equal(count(said, "was sent away"), count(said, "\n"));
    assert_int_equal(count(said, "was sent away: it has another MGC_SECRET"), 1);
    free(said);
    for (int i = 0; i < KEPT; i++)
        if (kept[i])
            close(kept[i]);
}

/* A proof copied from rank 0, or from another connection, proves nothing. */
static void reflected(void **state)
{
    job j = {.size = 2, .port = unit_port()};
    process leader = unit_rank(&j, 0, NULL);
    rt_hello h = likely(j.port, 2, 1);
    rt_answer a;
    rt_proof proof = {0};
    (void)state;
    int s = call("127.0.0.2", "127.0.0.1", j.port);
    tell(s, &h, sizeof h);
    assert_int_equal(hear(s, &a, sizeof a), sizeof a);
    assert_int_equal(a.hello.refusal, 0);
    memcpy(proof.mac, a.mac, sizeof proof.mac);
    tell(s, &proof, sizeof proof);
    assert_true(hung_up(s));
    close(s);

    /* Between rank 0 and a rank 1 that calls it at another address, which is of no account. */
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)j.port)};
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 6);
    assert_int_equal(bind(door, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(door, 5), 0);
    job elsewhere = j;
    elsewhere.host = "127.0.0.7";
    elsewhere.limit = 1;
    process other = unit_rank(&elsewhere, 1, NULL);
    int caller = accept(door, NULL, NULL), callee = call("127.0.0.3", "127.0.0.1", j.port);
    assert_int_equal(hear(caller, &h, sizeof h), sizeof h);
    tell(callee, &h, sizeof h);
    assert_int_equal(hear(callee, &a, sizeof a), sizeof a);
    tell(caller, &a, sizeof a);
    assert_int_equal(hear(caller, &proof, sizeof proof), sizeof proof);
    close(callee); /* it is kept for later */
    callee = call("127.0.0.4", "127.0.0.1", j.port);
    tell(callee, &h, sizeof h);
    assert_int_equal(hear(callee, &a, sizeof a), sizeof a);
    assert_int_equal(a.hello.refusal, 0);
    tell(callee, &proof, sizeof proof);
    assert_true(hung_up(callee));
    close(callee);
    close(door);
    close(caller);
    unit_ends(other, RT_LOST, "rank 0 has not answered in 1 s (127.0.0.7 port ");
    char *said = others_come(&j, leader, 1);
    assert_non_null(strstr(said, "it hung up where it was to prove that it knows MGC_SECRET"));
    assert_int_equal(count(said, "was sent away: it has another MGC_SECRET"), 2);
    free(said);
}

/* ---- ranks that do not fit ------------------------------------------------------------------- */

static void misfits(void **state)
{
    static const struct {
        job other;
        const char *words, *noted;
        rt_exit code;
    } cases[] = {
        {{.size = 2, .secret = "000102030405060708090a0b0c0d0e0e", .program = 5},
         "has another MGC_SECRET than this one",
         "it hung up where it was to prove that it knows MGC_SECRET",
         RT_MISFIT},
        {{.size = 8, .program = 5},
         "is one of 2 ranks, and this is one of 8",
         "it is of a job of another number of ranks",
         RT_MISFIT},
        {{.size = 2, .program = 6},
         "runs another program than rank 0",
         "it runs another program",
         RT_MISFIT},
        {{.size = 2, .program = 5, .launcher = RT_SLURM},
         "is of another job than this one (srun, port ",
         "it is of another job",
         RT_MISFIT},
        /* One that is late: its supervisor starts it again. */
        {{.size = 2, .program = 5, .generation = 3},
         "is of start 4 of this job, and this one of start 3",
         "it is of another start of this job",
         RT_LOST},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job j = {.size = 2, .port = unit_port(), .program = 5}, other = cases[i].other;
        j.generation = other.generation ? other.generation + 1 : 0;
        process leader = unit_rank(&j, 0, NULL);
        other.port = j.port;
        unit_ends(unit_rank(&other, 1, NULL), (int)cases[i].code, cases[i].words);
        char *said = others_come(&j, leader, 1);
        assert_int_equal(count(said, cases[i].noted), 1);
        free(said);
    }
}

/* A rank that comes twice is refused, and the first one goes on. */
static void twice(void **state)
{
    job j = {.size = 3, .port = unit_port()};
    process leader = unit_rank(&j, 0, NULL), first = unit_rank(&j, 1, NULL);
    (void)state;
    usleep(300000);
    unit_ends(unit_rank(&j, 1, NULL), RT_MISFIT,
              "two processes call themselves rank 1: rank 0 (127");
    char *said = others_come(&j, leader, 2);
    unit_ends(first, 0, NULL);
    assert_int_equal(count(said, "another process is that rank already"), 1);
    free(said);
}

/* Another job listens at the port, or no job of ours. */
static void other_listeners(void **state)
{
    job j = {.size = 2, .port = unit_port()};
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)j.port)};
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(door, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(door, 5), 0);
    process other = unit_rank(&j, 1, NULL);
    int s = accept(door, NULL, NULL);
    static const char banner[] = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n";
    tell(s, banner, sizeof banner - 1);
    unit_ends(other, RT_MISFIT, "another program than rank 0 listens at 127.0.0.1 port ");
    close(s);

    /* It says what it was told, and something for a proof. */
    other = unit_rank(&j, 1, NULL);
    s = accept(door, NULL, NULL);
    rt_answer a = {0};
    assert_int_equal(hear(s, &a.hello, sizeof a.hello), sizeof a.hello);
    a.hello.rank = 0;
    a.hello.to = 1;
    tell(s, &a, sizeof a);
    unit_ends(other, RT_MISFIT, "has another MGC_SECRET than this one");
    close(s);

    /* It is of another version. */
    other = unit_rank(&j, 1, NULL);
    s = accept(door, NULL, NULL);
    assert_int_equal(hear(s, &a.hello, sizeof a.hello), sizeof a.hello);
    a.hello.version = 3;
    tell(s, &a, sizeof a);
    unit_ends(other, RT_MISFIT, "was made by another version of mgc (wire 3, here 2)");
    close(s);

    /* It hangs up, and then is gone: it is called again. */
    other = unit_rank(&j, 1, NULL);
    close(accept(door, NULL, NULL));
    unit_ends(unit_rank(&j, 0, NULL), RT_MISFIT, " is in use: set MGC_PORT to a port");
    shutdown(door, SHUT_RDWR); /* a process that was started since has it, too */
    close(door);
    char *said = others_come(&j, unit_rank(&j, 0, NULL), 2);
    free(said);
    unit_ends(other, 0, NULL);
}

/* ---- the environment ------------------------------------------------------------------------- */

static void places(void **state)
{
    static const struct {
        job j;
        const char *words;
    } cases[] = {
        {{.host = "0.0.0.0"}, "MASTER_ADDR is '0.0.0.0', which stands for every address"},
        {{.host = "::"}, "MASTER_ADDR is '::', which stands for every address"},
        {{.host = "192.0.2.1"}, "(192.0.2.1 port 29999), where this machine cannot listen"},
        {{.host = ""}, "MASTER_ADDR, which is not set: export it, and MGC_PORT"},
        {{.host = "", .launcher = RT_OPENMPI}, "(mpirun hands it on by: -x MASTER_ADDR)"},
        {{.host = "", .launcher = RT_HYDRA}, "(mpirun hands it on by: -genvlist MASTER_ADDR)"},
        {{.host = "", .launcher = RT_SLURM}, "(srun hands it on)"},
        {{.secret = "", .launcher = RT_OPENMPI}, "(mpirun hands it on by: -x MGC_SECRET)"},
        {{.secret = ""}, "MGC_SECRET, which is not set: export MGC_SECRET=$(openssl rand -hex 16)"},
        {{.secret = "0123456789"}, "has 10 hexadecimal digits, and 32 are wanted"},
        {{.secret = SECRET "00"}, "has 34 hexadecimal digits, and 32 are wanted"},
        {{.secret = "0001 2030405060708090a0b0c0d0e0f"}, "character 5 of the variable MGC_SECRET"},
        {{.port = 70000}, "MGC_PORT is '70000': a port from 1 to 65535 is wanted"},
        {{.port = -1}, "MGC_PORT is '-1': a port"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job j = cases[i].j;
        j.size = 2;
        j.port = j.port ? j.port : 29999;
        unit_ends(unit_rank(&j, 0, NULL), RT_MISFIT, cases[i].words);
    }
}

static void missing(void **state)
{
    job j = {.size = 4, .port = unit_port(), .limit = 1};
    process p[] = {unit_rank(&j, 0, NULL), unit_rank(&j, 2, NULL)};
    (void)state;
    unit_ends(p[0], RT_LOST, "rank 1, 3 has not come in 1 s");
    unit_ends(p[1], RT_LOST, "rank 0 hung up before all had met");
    unit_ends(unit_rank(&j, 1, NULL), RT_LOST, "rank 0 has not answered in 1 s (127.0.0.1 port ");
    j.host = "no-such-host.invalid";
    unit_ends(unit_rank(&j, 1, NULL), RT_LOST, "MASTER_ADDR is 'no-such-host.invalid': ");
}

int main(int argc, char **argv)
{
    if (argc > 1) /* one of them */
        cmocka_set_test_filter(argv[1]);
    else
        cmocka_set_skip_filter("too_slow");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers), cmocka_unit_test(too_slow),        cmocka_unit_test(too_many),
        cmocka_unit_test(fuzz),      cmocka_unit_test(reflected),       cmocka_unit_test(misfits),
        cmocka_unit_test(twice),     cmocka_unit_test(other_listeners), cmocka_unit_test(places),
        cmocka_unit_test(missing)};
    return cmocka_run_group_tests_name("wire_meet", tests, NULL, NULL);
}
