/* wire_tcp_place.c - reads from the environment where ranks on several machines meet, and the
 * secret by which they know each other; formats addresses. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/run.h"
#include "runtime/net/wire_tcp.h"

static const char *var(const char *name)
{
    const char *s = getenv(name);
    return s && *s ? s : NULL;
}

/* How the launcher hands environment variables to ranks on other machines. */
static const char *passed_on(const rt_world *w)
{
    static const char *const text[] = {
        [RT_BARE] = "set it for all",
        [RT_OPENMPI] = "mpirun hands it on by: -x",
        [RT_HYDRA] = "mpirun hands it on by: -genvlist",
        [RT_SLURM] = "srun hands it on",
        [RT_TORCHRUN] = "set it on all machines; torchrun hands it to its ranks",
    };
    return text[w->launcher];
}

/* "mpirun hands it on by: -x MGC_SECRET"; the caller frees it. */
static char *handing(const rt_world *w, const char *name)
{
    bool named = w->launcher == RT_OPENMPI || w->launcher == RT_HYDRA;
    return rt_printf("%s%s%s", passed_on(w), named ? " " : "", named ? name : "");
}

/* ---- the port -------------------------------------------------------------------------------- */

static int port_in(const char *name, int limit)
{
    const char *s = var(name);
    char *end;
    long port = strtol(s, &end, 10);
    if (!isdigit((unsigned char)*s) || *end || port < 1 || port > limit)
        rt_die(RT_MISFIT, "the variable %s is '%.40s': a port from 1 to %d is wanted", name, s,
               limit);
    return (int)port;
}

static int find_port(const rt_world *w)
{
    enum { LIMIT = 65535 };
    if (var("MGC_PORT"))
        return port_in("MGC_PORT", LIMIT);
    if (var("MASTER_PORT"))
        return port_in("MASTER_PORT", LIMIT - 1) + 1;
    char *how = handing(w, "MGC_PORT");
    rt_die(
        RT_MISFIT,
        "ranks on several machines meet at rank 0's, at the port MGC_PORT, else MASTER_PORT + 1, "
        "and neither is set: export MGC_PORT=29600, or another that is free there (%s)",
        how);
}

static const char *find_host(const rt_world *w)
{
    const char *host = var("MASTER_ADDR");
    if (host)
        return host;
    char *how = handing(w, "MASTER_ADDR");
    rt_die(RT_MISFIT,
           "ranks on several machines meet at the machine of rank 0, whose name or address is the "
           "variable MASTER_ADDR, which is not set: export it, and MGC_PORT, a port that is free "
           "there (%s)",
           how);
}

/* ---- the secret and the job ------------------------------------------------------------------ */

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static void read_secret(uint8_t secret[RT_KEY_BYTES], const rt_world *w)
{
    const char *s = var("MGC_SECRET");
    char *how = handing(w, "MGC_SECRET");
    size_t good = 0;
    if (!s)
        rt_die(RT_MISFIT,
               "ranks on several machines know each other by the variable MGC_SECRET, which is not "
               "set: export MGC_SECRET=$(openssl rand -hex %d), the same for all (%s)",
               RT_KEY_BYTES, how);
    for (; digit(s[good]) >= 0; good++)
        if (good < (size_t)2 * RT_KEY_BYTES)
            secret[good / 2] = (uint8_t)(secret[good / 2] << 4 | digit(s[good]));
    if (s[good])
        rt_die(RT_MISFIT,
               "character %zu of the variable MGC_SECRET is no hexadecimal digit; %d of them are "
               "wanted: export MGC_SECRET=$(openssl rand -hex %d), the same for all (%s)",
               good + 1, 2 * RT_KEY_BYTES, RT_KEY_BYTES, how);
    if (good != (size_t)2 * RT_KEY_BYTES)
        rt_die(RT_MISFIT,
               "the variable MGC_SECRET has %zu hexadecimal digits, and %d are wanted: export "
               "MGC_SECRET=$(openssl rand -hex %d), the same for all (%s)",
               good, 2 * RT_KEY_BYTES, RT_KEY_BYTES, how);
    free(how);
}

/* The job's name from variables that are the same on all machines; rt_world.job uses more,
 * because it is for one machine. */
static char *job_of(const rt_world *w, int port)
{
    static const char *const names[][3] = {
        [RT_BARE] = {NULL},
        [RT_OPENMPI] = {"PMIX_NAMESPACE"},
        [RT_HYDRA] = {NULL},
        [RT_SLURM] = {"SLURM_JOB_ID", "SLURM_STEP_ID"},
        [RT_TORCHRUN] = {"TORCHELASTIC_RUN_ID"},
    };
    char *text = rt_printf("%s, port %d", rt_launcher_name(w->launcher), port);
    for (int i = 0; names[w->launcher][i]; i++) {
        const char *name = names[w->launcher][i], *value = var(name);
        char *longer = rt_printf("%s, %s=%s", text, name, value ? value : "");
        free(text);
        text = longer;
    }
    return text;
}

void rt_tcp_place_read(rt_tcp_place *p, const rt_world *w)
{
    /* All processes of a machine lack the same variable: only one of them prints the message. */
    rt_be_quiet(w->local_rank > 0);
    *p = (rt_tcp_place){.host = find_host(w), .port = find_port(w)};
    read_secret(p->secret, w);
    p->job = job_of(w, p->port);
    rt_be_quiet(false);
}

/* ---- addresses ------------------------------------------------------------------------------- */

socklen_t rt_address_bytes(const rt_address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

rt_address_text rt_address_say(const rt_address *a)
{
    rt_address_text t;
    char host[INET6_ADDRSTRLEN] = "an unknown address";
    bool six = a->any.sa_family == AF_INET6;
    inet_ntop(a->any.sa_family, six ? (const void *)&a->v6.sin6_addr : &a->v4.sin_addr, host,
              sizeof host);
    snprintf(t.text, sizeof t.text, "%s port %d", host,
             ntohs(six ? a->v6.sin6_port : a->v4.sin_port));
    return t;
}

bool rt_address_is_any(const rt_address *a)
{
    static const struct in6_addr none;
    if (a->any.sa_family == AF_INET6)
        return memcmp(&a->v6.sin6_addr, &none, sizeof none) == 0;
    return a->v4.sin_addr.s_addr == 0;
}

bool rt_address_is_loopback(const rt_address *a)
{
    if (a->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
}

rt_spot rt_address_spot(const rt_address *a)
{
    rt_spot s = {0};
    if (a->any.sa_family == AF_INET6) {
        s.version = 6;
        s.port = ntohs(a->v6.sin6_port);
        memcpy(s.at, &a->v6.sin6_addr, 16);
    } else {
        s.version = 4;
        s.port = ntohs(a->v4.sin_port);
        memcpy(s.at, &a->v4.sin_addr, 4);
    }
    return s;
}

rt_address rt_spot_address(const rt_spot *s, const rt_address *near)
{
    rt_address a = {0};
    if (s->version == 6) {
        a.v6.sin6_family = AF_INET6;
        a.v6.sin6_port = htons((uint16_t)s->port);
        memcpy(&a.v6.sin6_addr, s->at, 16);
        /* The scope of a link-local address is this machine's own interface, so only this
         * machine can know it. */
        if (IN6_IS_ADDR_LINKLOCAL(&a.v6.sin6_addr) && near->any.sa_family == AF_INET6)
            a.v6.sin6_scope_id = near->v6.sin6_scope_id;
    } else {
        a.v4.sin_family = AF_INET;
        a.v4.sin_port = htons((uint16_t)s->port);
        memcpy(&a.v4.sin_addr, s->at, 4);
    }
    return a;
}
