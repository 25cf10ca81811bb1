/* wire_tcp_hello.c - two connected processes authenticate each other as ranks of one job.
 *
 *   caller -> callee   hello
 *   callee -> caller   its own hello, MAC(callee, both hellos)
 *   caller -> callee   its door, MAC(caller, both hellos, door)
 *   callee -> caller   welcome
 *
 * Each MAC uses the secret of the job as key, and covers the random numbers that both processes
 * drew for this connection only, both ranks, the job, and the role of the speaker. A MAC from
 * another connection, or of the other role, therefore proves nothing. A callee believes nothing
 * before the proof, and a stranger cannot end it: the callee only notes why it sends a process
 * away. A caller that is refused by a process with the secret, or that finds a process without
 * it, ends the program with a message that says what to do. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/run.h"
#include "runtime/net/wire_tcp.h"

enum { VERSION = 2 };
static const char magic[8] = "mgcwire";
static const uint32_t welcome = 0x636d6577;

typedef enum refusal {
    ANOTHER_SIZE = 1,
    ANOTHER_JOB,
    ANOTHER_PROGRAM,
    NO_SUCH_CALL,
    TWICE,
    ANOTHER_GENERATION
} refusal;

_Static_assert(sizeof(rt_hello) == 72 && sizeof(rt_spot) == 24, "nothing between the fields");

static rt_hello hello_of(const rt_party *p, const rt_call *c)
{
    rt_hello h = {.version = VERSION,
                  .ranks = (uint32_t)p->wire->size,
                  .rank = (uint32_t)p->wire->rank,
                  .to = (uint32_t)c->rank,
                  .line = (uint32_t)c->line,
                  .job = p->job,
                  .program = p->program,
                  .generation = p->generation};
    memcpy(h.magic, magic, sizeof magic);
    if (getrandom(h.nonce, sizeof h.nonce, 0) != sizeof h.nonce)
        rt_die(RT_FAILED, "no random numbers: %s", strerror(errno));
    return h;
}

typedef struct testimony {
    char role[8];
    rt_hello caller, callee;
    rt_spot door;
} testimony;

_Static_assert(sizeof(testimony) == 8 + 2 * 72 + 24, "nothing between the fields");

static void testify(const rt_party *p, const rt_call *c, const char *role, const rt_spot *door,
                    uint8_t mac[RT_MAC_BYTES])
{
    testimony t = {.caller = c->caller, .callee = c->callee};
    memcpy(t.role, role, strlen(role));
    if (door)
        t.door = *door;
    rt_siphash(p->secret, &t, sizeof t, mac);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static const char *hang_up(rt_call *c, const char *why)
{
    c->stage = RT_CALL_OVER;
    return why;
}

/* Cannot block: the send buffer of a new connection has room for these bytes. */
static bool say(const rt_call *c, const void *what, size_t bytes)
{
    return send(c->fd, what, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

/* True if the bytes so far begin with the magic, where a hello is expected. */
static bool sounds_right(const rt_call *c)
{
    size_t n = c->came < sizeof magic ? c->came : sizeof magic;
    return (c->stage != RT_CALL_AWAITS_HELLO && c->stage != RT_CALL_AWAITS_ANSWER) ||
           memcmp(c->in, magic, n) == 0;
}

static _Noreturn void is_another_program(const rt_call *c)
{
    rt_address_text at = rt_address_say(&c->other);
    rt_die(RT_MISFIT,
           "another program than rank %d listens at %s: set MGC_PORT to a port that is free on the "
           "machine of rank 0, on all machines",
           c->rank, at.text);
}

/* True if all expected bytes have come. If false, the call may be over. */
static bool hear(rt_call *c, size_t bytes, const char **why)
{
    while (c->came < bytes) {
        ssize_t n = recv(c->fd, c->in + c->came, bytes - c->came, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return false;
        if (n <= 0) {
            *why =
                hang_up(c, c->stage == RT_CALL_AWAITS_PROOF
                               ? "it hung up where it was to prove that it knows MGC_SECRET: has "
                                 "it another one?"
                               : "it hung up");
            return false;
        }
        c->came += (size_t)n;
        if (sounds_right(c))
            continue;
        if (c->stage == RT_CALL_AWAITS_ANSWER)
            is_another_program(c);
        *why = hang_up(c, "it says something else than a rank would");
        return false;
    }
    c->came = 0;
    return true;
}

/* ---- the callee ------------------------------------------------------------------------------ */

/* The fault of a hello, as the answer reports it; 0: none. */
static uint32_t refusal_of(const rt_party *p, const rt_hello *h)
{
    const rt_tcp *w = p->wire;
    if (h->job != p->job)
        return ANOTHER_JOB;
    if (h->generation != p->generation)
        return ANOTHER_GENERATION;
    if (h->ranks != (uint32_t)w->size)
        return ANOTHER_SIZE;
    if (h->program != p->program)
        return ANOTHER_PROGRAM;
    if (h->to != (uint32_t)w->rank || h->rank >= h->ranks || h->rank <= h->to ||
        h->line >= RT_LINES)
        return NO_SUCH_CALL;
    return w->line[h->line][h->rank] >= 0 ? TWICE : 0;
}

static const char *refusal_text(uint32_t refusal)
{
    static const char *const text[] = {
        [ANOTHER_SIZE] = "it is of a job of another number of ranks",
        [ANOTHER_JOB] = "it is of another job",
        [ANOTHER_PROGRAM] = "it runs another program",
        [NO_SUCH_CALL] = "it is no rank that is to call this one",
        [TWICE] = "another process is that rank already",
        [ANOTHER_GENERATION] = "it is of another start of this job",
    };
    return text[refusal];
}

static const char *answer(const rt_party *p, rt_call *c)
{
    rt_answer a;
    memcpy(&c->caller, c->in, sizeof c->caller);
    bool same_version = c->caller.version == VERSION;
    uint32_t refusal = same_version ? refusal_of(p, &c->caller) : NO_SUCH_CALL;
    /* The numbers of a process that is refused are not valid indices. */
    c->rank = refusal ? -1 : (int)c->caller.rank;
    c->line = refusal ? -1 : (int)c->caller.line;
    c->callee = hello_of(p, c);
    c->callee.to = c->caller.rank;
    c->callee.line = c->caller.line;
    c->callee.refusal = refusal;
    a.hello = c->callee;
    testify(p, c, "callee", NULL, a.mac);
    if (!say(c, &a, sizeof a))
        return hang_up(c, "it hung up");
    if (refusal)
        return hang_up(c, same_version ? refusal_text(refusal)
                                       : "its program was made by another version of mgc");
    c->stage = RT_CALL_AWAITS_PROOF;
    return NULL;
}

static const char *judge_proof(const rt_party *p, rt_call *c)
{
    rt_proof proof;
    uint8_t mac[RT_MAC_BYTES];
    memcpy(&proof, c->in, sizeof proof);
    testify(p, c, "caller", &proof.door, mac);
    if (!rt_same_mac(mac, proof.mac))
        return hang_up(c, "it has another MGC_SECRET");
    if (p->wire->line[c->line][c->rank] >= 0)
        return hang_up(c, refusal_text(TWICE));
    if (!say(c, &welcome, sizeof welcome))
        return hang_up(c, "it hung up");
    c->door = proof.door;
    c->stage = RT_CALL_MET;
    return NULL;
}

/* ---- the caller ------------------------------------------------------------------------------ */

void rt_call_begin(const rt_party *p, rt_call *c)
{
    c->caller = hello_of(p, c);
    c->stage = say(c, &c->caller, sizeof c->caller) ? RT_CALL_AWAITS_ANSWER : RT_CALL_OVER;
    c->came = 0;
}

static _Noreturn void refused(const rt_party *p, const rt_call *c)
{
    rt_address_text at = rt_address_say(&c->other);
    switch ((refusal)c->callee.refusal) {
    case ANOTHER_SIZE:
        rt_die(RT_MISFIT,
               "rank %d (%s) is one of %u ranks, and this is one of %d: all have to be "
               "started as one job",
               c->rank, at.text, c->callee.ranks, p->wire->size);
    case ANOTHER_JOB:
        rt_die(
            RT_MISFIT,
            "rank %d (%s) has this MGC_SECRET, and is of another job than this one (%s): if that "
            "is so, set MGC_PORT to another port, on all machines of one of them",
            c->rank, at.text, p->job_text);
    case ANOTHER_PROGRAM:
        rt_die(RT_MISFIT,
               "rank %d runs another program than rank %d (%s): all have to run the same",
               p->wire->rank, c->rank, at.text);
    case TWICE:
        rt_die(RT_MISFIT,
               "two processes call themselves rank %d: rank %d (%s) has met the other one",
               p->wire->rank, c->rank, at.text);
    case ANOTHER_GENERATION: /* its supervisor starts it again */
        rt_die(RT_LOST,
               "rank %d (%s) is of start %u of this job, and this one of start %u: one of them is "
               "late",
               c->rank, at.text, c->callee.generation, p->generation);
    case NO_SUCH_CALL:
        break;
    }
    rt_die(RT_MISFIT, "what listens at %s is not rank %d, for which it was called", at.text,
           c->rank);
}

static const char *prove(const rt_party *p, rt_call *c)
{
    rt_answer a;
    rt_proof proof = {.door = p->door};
    uint8_t mac[RT_MAC_BYTES];
    rt_address_text at = rt_address_say(&c->other);
    memcpy(&a, c->in, sizeof a);
    if (a.hello.version != VERSION)
        rt_die(RT_MISFIT,
               "the program of rank %d (%s) was made by another version of mgc (wire %u, here %d): "
               "all have to run the same",
               c->rank, at.text, a.hello.version, VERSION);
    c->callee = a.hello;
    testify(p, c, "callee", NULL, mac);
    if (!rt_same_mac(mac, a.mac))
        rt_die(RT_MISFIT,
               "rank %d (%s) has another MGC_SECRET than this one: the variable has to be the same "
               "on all machines",
               c->rank, at.text);
    if (a.hello.refusal || a.hello.rank != (uint32_t)c->rank)
        refused(p, c);
    testify(p, c, "caller", &proof.door, proof.mac);
    if (!say(c, &proof, sizeof proof))
        return hang_up(c, "it hung up");
    c->stage = RT_CALL_AWAITS_WELCOME;
    return NULL;
}

static const char *come_in(rt_call *c)
{
    if (memcmp(c->in, &welcome, sizeof welcome))
        return hang_up(c, "it says something else than a rank would");
    c->stage = RT_CALL_MET;
    return NULL;
}

const char *rt_call_go_on(const rt_party *p, rt_call *c)
{
    static const size_t expected[] = {[RT_CALL_AWAITS_ANSWER] = sizeof(rt_answer),
                                      [RT_CALL_AWAITS_WELCOME] = sizeof welcome,
                                      [RT_CALL_AWAITS_HELLO] = sizeof(rt_hello),
                                      [RT_CALL_AWAITS_PROOF] = sizeof(rt_proof)};
    const char *why = NULL;
    while (c->stage > RT_CALL_CONNECTS && c->stage < RT_CALL_MET && !why) {
        if (!hear(c, expected[c->stage], &why))
            return why;
        why = c->stage == RT_CALL_AWAITS_ANSWER    ? prove(p, c)
              : c->stage == RT_CALL_AWAITS_WELCOME ? come_in(c)
              : c->stage == RT_CALL_AWAITS_HELLO   ? answer(p, c)
                                                   : judge_proof(p, c);
    }
    return why;
}
