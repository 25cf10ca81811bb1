/* hosts.c - see hosts.h.
 *
 * On each host one shell gets a script on its standard input (the secret by which ranks know each
 * other is on no command line), which starts the host's ranks with torchrun's variables and waits
 * for them. Ranks lie in equal blocks, host after host; rank 0's host is the place where they meet.
 */
#include "compiler/preflight/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/link/link.h"

enum { LOST = 69, NOT_FOUND = 127, SSH_FAILED = 255, PORT = 20000, PORTS = 9000, LINE = 4096 };

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_host(const char *name)
{
    return *name && *name != '-' &&
           !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "-_.@:[]%")];
}

static Exit add_host(Session *s, Words *hosts, const char *name)
{
    if (!is_host(name)) {
        diag_error(s->diag, (Span){0}, 640, "'%s' is no name of a host", name);
        diag_help(s->diag, "hosts are separated by commas, as node1,node2, or stand one a line in "
                           "a file");
        return EXIT_usage;
    }
    for (size_t i = 0; i < hosts->n; i++)
        if (!strcmp(hosts->data[i], name)) {
            diag_error(s->diag, (Span){0}, 640, "host %s is given twice", name);
            return EXIT_usage;
        }
    vec_push(s->arena, hosts, name);
    return EXIT_done;
}

Exit hosts_read(Session *s, const char *text, Words *hosts)
{
    FILE *f = strchr(text, ',') ? NULL : fopen(text, "re");
    char line[LINE];
    Exit wrong = EXIT_done;
    while (f && !wrong && fgets(line, sizeof line, f)) {
        line[strcspn(line, " \t\r\n#")] = 0;
        if (*line)
            wrong = add_host(s, hosts, arena_strdup(s->arena, line));
    }
    if (f) {
        fclose(f);
        if (!wrong && !hosts->n) {
            diag_error(s->diag, (Span){0}, 640, "%s: no host in it", text);
            wrong = EXIT_usage;
        }
        return wrong;
    }
    for (size_t n; !wrong && *text; text += n + (text[n] == ',')) {
        n = strcspn(text, ",");
        wrong = add_host(s, hosts, arena_strndup(s->arena, text, n));
    }
    return wrong;
}

static const char *shell_quoted(Arena *a, const char *text)
{
    const char *out = "'";
    for (size_t n; *text; text += n + (text[n] == '\'')) {
        n = strcspn(text, "'");
        out = arena_printf(a, "%s%.*s%s", out, (int)n, text, text[n] ? "'\\''" : "");
    }
    return arena_printf(a, "%s'", out);
}

Exit hosts_ranks(Session *s, const char *command, int64_t *n)
{
    const char *line = arena_printf(s->arena, "%s --info", command), *text = "";
    const int status = run_for_text(s->arena, (const char *[]){"sh", "-c", line, NULL}, &text);
    const char *row = status ? NULL : strstr(text, "| ranks | ");
    *n = row ? strtoll(row + strlen("| ranks | "), NULL, 10) : 0;
    if (*n > 0)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 641, "'%s --info' %s", command,
               status ? arena_printf(s->arena, "ends with %d", status)
                      : "does not say how many ranks it has");
    diag_help(s->diag, "the first argument is the command of a run, of a program that mgc made: "
                       "mgc preflight './train --data corpus.bin --out run' node1,node2");
    return EXIT_usage;
}

/* ---- one host -------------------------------------------------------------------------------- */

typedef struct Voice {
    int fd; /* -1: closed */
    char line[LINE];
    size_t n;
} Voice;

typedef struct Remote {
    const char *name;
    pid_t pid;
    Voice out, err;
    char last[LINE]; /* the last line that it complained with */
    int status;
} Remote;

typedef struct Fleet {
    Session *s;
    const Start *start;
    Remote *host;
    int n;
    int64_t ranks;
    FILE *kept; /* of rank 0's standard output */
} Fleet;

static const char *secret(Session *s)
{
    unsigned char word[16];
    const char *text = "";
    if (getrandom(word, sizeof word, 0) != sizeof word)
        abort(); /* of so few bytes the kernel gives all */
    for (size_t i = 0; i < sizeof word; i++)
        text = arena_printf(s->arena, "%s%02x", text, word[i]);
    return text;
}

/* The script for a host's shell. */
static const char *script(const Fleet *f, int host, const char *key, int port)
{
    Arena *a = f->s->arena;
    const int64_t each = f->ranks / f->n;
    const char *first = f->host[0].name, *at = strrchr(first, '@');
    char *here = getcwd(NULL, 0);
    const char *text = arena_printf(
        a,
        "cd %s || exit 127\n"
        "export MGC_SECRET=%s MASTER_ADDR=%s MASTER_PORT=%d MGC_PORT=%d WORLD_SIZE=%lld "
        "LOCAL_WORLD_SIZE=%lld\n"
        "i=0 all= code=0\n"
        "while [ $i -lt %lld ]; do\n"
        "RANK=$((%lld + i)) LOCAL_RANK=$i %s %s </dev/null & all=\"$all $!\" i=$((i + 1))\n"
        "done\n"
        "for p in $all; do wait $p || { c=$?; [ $code != 0 ] || code=$c; }; done\n"
        "exit $code\n",
        shell_quoted(a, here ? here : "."), key, shell_quoted(a, at ? at + 1 : first), port, port,
        (long long)f->ranks, (long long)each, (long long)each, (long long)(host * each),
        f->start->command, f->start->option);
    free(here);
    return text;
}

static const char **ssh_words(Arena *a, const char *host)
{
    const char *ssh = getenv("MGC_SSH");
    if (!ssh || !*ssh)
        ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10";
    const char **argv = NEW_ARRAY(a, const char *, strlen(ssh) + 4);
    int n = 0;
    for (size_t k; *ssh; ssh += k + (ssh[k] == ' ')) {
        k = strcspn(ssh, " ");
        if (k)
            argv[n++] = arena_strndup(a, ssh, k);
    }
    argv[n++] = host;
    argv[n++] = "sh";
    argv[n] = NULL;
    return argv;
}

/* Starts a program with pipes at its three descriptors; `input` goes into the first. */
static bool begin(Remote *h, const char *const *argv, const char *input)
{
    int in[2], out[2], err[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        return false;
    h->pid = fork();
    if (h->pid < 0)
        return false;
    if (!h->pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        dprintf(2, "%s: %s\n", argv[0], strerror(errno));
        _Exit(NOT_FOUND);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    h->out.fd = out[0];
    h->err.fd = err[0];
    size_t left = strlen(input);
    while (left) { /* less than a pipe holds */
        const ssize_t n = write(in[1], input, left);
        if (n < 0 && errno != EINTR)
            break;
        input += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    close(in[1]);
    return true;
}

/* ---- what they say --------------------------------------------------------------------------- */

static void complain(Remote *h, Voice *p)
{
    p->line[p->n] = 0;
    p->n = 0;
    snprintf(h->last, sizeof h->last, "%s", p->line);
    fprintf(stderr, "%s%s%s\n", h->name, *h->name ? ": " : "", p->line);
}

/* Standard output is handed on as it is, standard error line by line, with the host's name. */
static void hear(const Fleet *f, Remote *h, Voice *p)
{
    char bytes[LINE];
    const ssize_t n = read(p->fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return;
    if (n > 0 && p == &h->out) {
        if (h == &f->host[0])
            fwrite(bytes, 1, (size_t)n, f->kept);
        if (!f->start->quiet)
            fwrite(bytes, 1, (size_t)n, stdout);
        fflush(stdout);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] != '\n' && p->n + 1 < sizeof p->line)
            p->line[p->n++] = bytes[i];
        if (bytes[i] == '\n' || p->n + 1 == sizeof p->line)
            complain(h, p);
    }
    if (n > 0)
        return;
    if (p->n)
        complain(h, p);
    close(p->fd);
    p->fd = -1;
}

/* Until all have ended. */
static void relay(Fleet *f)
{
    struct pollfd *poll_of = NEW_ARRAY(f->s->arena, struct pollfd, (size_t)(2 * f->n));
    for (;;) {
        int open = 0;
        for (int i = 0; i < 2 * f->n; i++) {
            const Remote *h = &f->host[i / 2];
            poll_of[i] = (struct pollfd){i % 2 ? h->err.fd : h->out.fd, POLLIN, 0};
            open += poll_of[i].fd >= 0;
        }
        if (!open)
            break;
        if (poll(poll_of, (nfds_t)(2 * f->n), -1) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < 2 * f->n; i++)
            if (poll_of[i].fd >= 0 && poll_of[i].revents)
                hear(f, &f->host[i / 2], i % 2 ? &f->host[i / 2].err : &f->host[i / 2].out);
    }
    for (int i = 0; i < f->n; i++) {
        int status = 0;
        while (waitpid(f->host[i].pid, &status, 0) < 0 && errno == EINTR)
            ;
        f->host[i].status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* How much a host's end says of the cause: ranks end with 69 that waited for others, and some of
 * these know only that another one ended. */
static int weight(const Remote *h)
{
    return !h->status ? 0 : h->status != LOST ? 3 : strstr(h->last, ": it says why") ? 1 : 2;
}

/* Names the hosts by which ranks did not meet, of those that ended the ones that say most. */
static Exit blame(const Fleet *f)
{
    int most = 1;
    for (int i = 0; i < f->n; i++)
        most = weight(&f->host[i]) > most ? weight(&f->host[i]) : most;
    for (int i = 0; i < f->n; i++) {
        const Remote *h = &f->host[i];
        if (weight(h) < most)
            continue;
        const char *again =
            h->status == SSH_FAILED ? "true"
            : h->status == NOT_FOUND
                ? arena_printf(f->s->arena, "ls -l %.*s", (int)strcspn(f->start->command, " "),
                               f->start->command)
                : "true";
        printf("[FAIL] meeting: host %s %s %d: %s\n", h->name,
               h->status == SSH_FAILED ? "cannot be reached, ssh ended with"
                                       : "has ranks that ended with",
               h->status, *h->last ? h->last : "it said nothing");
        printf("       again: ssh %s %s\n", h->name, again);
    }
    fflush(stdout);
    diag_error(f->s->diag, (Span){0}, 642, "the ranks of '%s' did not meet on all of %d hosts",
               f->start->command, f->n);
    return EXIT_tool;
}

static Exit by_hosts(Fleet *f)
{
    Session *s = f->s;
    const char *key = secret(s);
    const int port = PORT + (int)(getpid() * 7 % PORTS);
    Exit wrong = hosts_ranks(s, f->start->command, &f->ranks);
    if (wrong)
        return wrong;
    if (f->ranks % f->n) {
        diag_error(s->diag, (Span){0}, 640, "%lld ranks of '%s' are not divided by %d hosts",
                   (long long)f->ranks, f->start->command, f->n);
        diag_help(s->diag, "each host takes as many ranks as the others");
        return EXIT_usage;
    }
    for (int i = 0; i < f->n; i++) {
        f->host[i].name = f->start->hosts.data[i];
        if (!begin(&f->host[i], ssh_words(s->arena, f->host[i].name), script(f, i, key, port))) {
            diag_error(s->diag, (Span){0}, 642, "no process for host %s: %s", f->host[i].name,
                       strerror(errno));
            return EXIT_tool;
        }
    }
    return EXIT_done;
}

/* By a launcher, or by itself: one shell here. */
static Exit by_launcher(Fleet *f)
{
    Session *s = f->s;
    const Start *start = f->start;
    const char *line = arena_printf(s->arena, "%s %s %s", start->launch ? start->launch : "",
                                    start->command, start->option);
    f->host[0].name = "";
    if (begin(&f->host[0], (const char *[]){"sh", "-c", line, NULL}, ""))
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 642, "no process: %s", strerror(errno));
    return EXIT_tool;
}

Exit hosts_run(Session *s, const Start *start, Started *end)
{
    Fleet f = {.s = s, .start = start, .n = start->hosts.n ? (int)start->hosts.n : 1};
    char *kept = NULL;
    size_t size = 0;
    f.host = NEW_ARRAY(s->arena, Remote, (size_t)f.n);
    memset(f.host, 0, (size_t)f.n * sizeof *f.host);
    for (int i = 0; i < f.n; i++)
        f.host[i].out.fd = f.host[i].err.fd = -1;
    signal(SIGPIPE, SIG_IGN);
    Exit wrong = start->hosts.n ? by_hosts(&f) : by_launcher(&f);
    if (wrong)
        return wrong;
    f.kept = open_memstream(&kept, &size);
    relay(&f);
    fclose(f.kept);
    end->said = arena_strdup(s->arena, kept);
    free(kept);
    end->status = f.host[0].status;
    end->met = strstr(end->said, "preflight: ") || strstr(end->said, "{\"program\"");
    if (end->met)
        return EXIT_done;
    if (start->hosts.n)
        return blame(&f);
    diag_error(s->diag, (Span){0}, 642, "'%s%s%s' ended with %d before its ranks had met: %s",
               start->launch ? start->launch : "", start->launch ? " " : "", start->command,
               end->status, *f.host[0].last ? f.host[0].last : "it said nothing");
    return EXIT_tool;
}
