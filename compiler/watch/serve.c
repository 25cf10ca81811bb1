/* serve.c - the server of `mgc board --serve`; see serve.h.
 *
 * It answers GET and HEAD, and nothing else. A request has to name this server as its host (so that
 * no page of another site reaches it by a name that leads here), and its path begins with the
 * token. No path names a file. One thread does all of it: the requests of one person. */
#include "compiler/watch/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compiler/watch/ends.h"

typedef struct Server {
    const Site *site;
    int port;
} Server;

/* In a time that does not depend on where they differ. */
static bool same(const char *a, const char *b, size_t n)
{
    volatile unsigned char differ = 0;
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return !differ;
}

static bool is_number(const char *host, size_t n)
{
    char text[64];
    struct in_addr in;
    if (n >= sizeof text)
        return false;
    memcpy(text, host, n);
    text[n] = 0;
    return inet_pton(AF_INET, text, &in) == 1;
}

/* "127.0.0.1:PORT", "localhost:PORT", the address that was asked for; of a server for all addresses
 * any that is written in numbers: names alone can be made to lead here. */
static bool is_host(const Server *v, const char *host)
{
    const char *colon = host ? strrchr(host, ':') : NULL;
    if (!colon || colon[1] < '0' || colon[1] > '9' || atoi(colon + 1) != v->port)
        return false;
    const size_t n = (size_t)(colon - host);
    const char *mine[] = {"127.0.0.1", "localhost", v->site->address};
    for (int i = 0; i < 3; i++)
        if (strlen(mine[i]) == n && !memcmp(mine[i], host, n))
            return true;
    return !strcmp(v->site->address, "0.0.0.0") && is_number(host, n);
}

static enum MHD_Result reply(struct MHD_Connection *c, const Answer *w, const char *extra,
                             const char *value)
{
    static const char *const headers[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cache-Control", "no-store"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
    };
    char policy[512];
    struct MHD_Response *r =
        MHD_create_response_from_buffer(w->size, (void *)(uintptr_t)w->body, MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    const bool script = w->nonce && *w->nonce;
    snprintf(policy, sizeof policy,
             "default-src 'none'; script-src %s%s%s; style-src 'unsafe-inline'; img-src data:; "
             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             script ? "'nonce-" : "'none", script ? w->nonce : "", "'");
    MHD_add_response_header(r, "Content-Type", w->type);
    MHD_add_response_header(r, "Content-Security-Policy", policy);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        MHD_add_response_header(r, headers[i][0], headers[i][1]);
    if (extra)
        MHD_add_response_header(r, extra, value);
    const enum MHD_Result done = MHD_queue_response(c, (unsigned)w->status, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result refuse(struct MHD_Connection *c, int status, const char *why)
{
    const Answer w = {
        .status = status, .type = "text/plain; charset=utf-8", .body = why, .size = strlen(why)};
    return reply(c, &w, status == 405 ? "Allow" : NULL, "GET, HEAD");
}

static enum MHD_Result answer(void *ctx, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **seen)
{
    static int marked;
    const Server *v = ctx;
    const size_t n = strlen(v->site->token);
    (void)version;
    (void)data;
    if (strcmp(method, "GET") && strcmp(method, "HEAD"))
        return refuse(c, 405, "only GET\n");
    if (!*seen) { /* the header is there; the answer comes when the whole request is */
        *seen = &marked;
        return MHD_YES;
    }
    if (*size) {
        *size = 0;
        return MHD_YES;
    }
    if (!is_host(v, MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")))
        return refuse(c, 403, "this server has another name\n");
    if (*url != '/' || strlen(url) < 1 + n || !same(url + 1, v->site->token, n) ||
        (url[1 + n] && url[1 + n] != '/'))
        return refuse(c, 403, "the address has to be the one that mgc board printed\n");
    if (!url[1 + n]) {
        char where[128];
        snprintf(where, sizeof where, "/%s/", v->site->token);
        const Answer w = {.status = 307, .type = "text/plain", .body = "", .size = 0};
        return reply(c, &w, "Location", where);
    }
    Arena *a = arena_new();
    const Answer w = v->site->get(v->site->ctx, a, url + 2 + n,
                                  MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "since"));
    const enum MHD_Result done =
        w.status == 404 ? refuse(c, 404, "there is nothing here\n") : reply(c, &w, NULL, NULL);
    arena_free(a);
    return done;
}

/* Addresses of this server have nothing that is escaped: what is, is none of them. */
static size_t as_it_is(void *ctx, struct MHD_Connection *c, char *text)
{
    (void)ctx;
    (void)c;
    return strlen(text);
}

static void silent(void *ctx, const char *fmt, va_list ap)
{
    (void)ctx;
    (void)fmt;
    (void)ap;
}

/* A socket that listens, or -1. */
static int listens(const Site *s, int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    socklen_t size = sizeof at;
    const int on = 1;
    if (inet_pton(AF_INET, s->address, &at.sin_addr) != 1) {
        errno = EINVAL;
        return -1;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&at, &size)) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    *port = ntohs(at.sin_port);
    return fd;
}

const char *serve_run(Arena *a, const Site *s)
{
    enum { CONNECTIONS = 32, SECONDS = 20, WAIT_MS = 1000 };
    Server v = {.site = s};
    const int fd = listens(s, &v.port);
    if (fd < 0)
        return arena_printf(a, "%s:%d: %s", s->address, s->port, strerror(errno));
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_NO_FLAG, 0, NULL, NULL, answer, &v, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_EXTERNAL_LOGGER, silent,
        NULL, MHD_OPTION_UNESCAPE_CALLBACK, as_it_is, NULL, MHD_OPTION_END);
    if (!d) {
        close(fd);
        return "libmicrohttpd cannot start";
    }
    ends_catch();
    s->begins(s->ctx, v.port);
    while (!ends_now())
        MHD_run_wait(d, WAIT_MS);
    MHD_stop_daemon(d);
    return NULL;
}
