/* command.c - `mgc watch` and `mgc board`: runs as they are, in a terminal, on a page, or on a page
 * that a small server keeps up to date. */
#include "compiler/report/template.h"
#include "compiler/session.h"
#include "compiler/watch/board.h"
#include "compiler/watch/module.h"
#include "compiler/watch/show.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 64, DIGITS = 9 };

typedef struct Runs {
    Session *s;
    Watched *run[RUNS];
    const char *path[RUNS];
    int n;
    View view;
    /* Of a board. */
    const char *html, *token, *address;
} Runs;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the runs -------------------------------------------------------------------------------- */

static const char *last_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* A path without slashes at its end; of "." and the like the name that it has. */
static const char *plain_path(Session *s, const char *path)
{
    char *copy = arena_strdup(s->arena, path);
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
        copy[n - 1] = 0;
    return copy;
}

static const char *name_of(Session *s, const char *path)
{
    const char *last = last_of(path);
    if (strcmp(last, ".") && strcmp(last, ".."))
        return last;
    char *real = realpath(path, NULL);
    const char *name = real ? arena_strdup(s->arena, last_of(real)) : path;
    free(real);
    return name;
}

/* Whether there is a run at the path, or (may_come) there may be one. */
static Exit check_run(Session *s, const char *path, bool may_come)
{
    struct stat st;
    const bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) {
        const char *log = arena_printf(s->arena, "%s/metrics.jsonl", path);
        if (may_come || lstat(log, &st) == 0)
            return EXIT_done;
        diag_error(s->diag, (Span){0}, 650, "there is no run in '%s': it has no metrics.jsonl",
                   path);
        diag_help(s->diag, "./train --out %s writes one there", path);
        return EXIT_usage;
    }
    if (!there && errno == ENOENT && may_come)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 650, "'%s' is no directory of a run", path);
    diag_help(s->diag, "name the directory that ./train --out has made");
    return EXIT_usage;
}

static Exit open_runs(Runs *r, Session *s, bool may_come)
{
    const Words *w = &s->o->words;
    *r = (Runs){.s = s};
    if (w->n > RUNS) {
        diag_error(s->diag, (Span){0}, 650, "%zu runs are more than the %d that are shown together",
                   w->n, RUNS);
        return EXIT_usage;
    }
    for (size_t i = 0; i < w->n; i++) {
        Exit wrong = check_run(s, w->data[i], may_come);
        if (wrong)
            return wrong;
    }
    for (size_t i = 0; i < w->n; i++) {
        const char *path = plain_path(s, w->data[i]), *name = name_of(s, path);
        for (size_t k = 0; k < w->n; k++) /* of two runs of one name the paths are shown */
            if (k != i && !strcmp(name, name_of(s, plain_path(s, w->data[k]))))
                name = path;
        r->path[r->n] = path;
        r->run[r->n++] = watched_open(s->arena, path, name);
    }
    r->view.runs = r->n;
    return EXIT_done;
}

static void close_runs(Runs *r)
{
    for (int i = 0; i < r->n; i++)
        watched_close(r->run[i]);
}

/* True if anything changed; *more: there is more to be read. */
static bool read_runs(void *ctx, bool *more)
{
    const Runs *r = ctx;
    bool changed = false;
    *more = false;
    for (int i = 0; i < r->n; i++) {
        changed |= watched_read(r->run[i]);
        *more |= r->run[i]->behind;
    }
    return changed;
}

/* All that is there now. */
static void read_all(Runs *r)
{
    bool more;
    do
        read_runs(r, &more);
    while (more);
}

/* ---- the module ------------------------------------------------------------------------------ */

static const WatchModuleTable *load(Session *s)
{
    const char *why_not = NULL;
    const WatchModuleTable *t =
        library_table(s->arena, WATCH_MODULE_FILE, WATCH_MODULE_SYMBOL, &why_not);
    if (!t)
        diag_error(s->diag, (Span){0}, 652, "the part of mgc that shows runs cannot be loaded: %s",
                   why_not);
    return t;
}

/* ---- mgc watch ------------------------------------------------------------------------------- */

static Frame *draw(void *ctx, Arena *a, int rows, int columns, bool utf8)
{
    const Runs *r = ctx;
    return show_run(a, r->run[r->view.run], &r->view, rows, columns, utf8, now());
}

static bool press(void *ctx, int key, bool *again)
{
    Runs *r = ctx;
    *again = show_key(&r->view, key);
    return key != 'q' && key != 'Q';
}

static int size_of(const char *variable, int fallback)
{
    const char *text = getenv(variable);
    const int n = text ? atoi(text) : 0;
    return n > 0 && n <= 1000 ? n : fallback;
}

/* One frame of each run, as text: of the terminal's size, if there is one; else of $COLUMNS and
 * $LINES, or 80 by 24. */
static Exit once(Runs *r)
{
    struct winsize size = {0};
    const bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    const int columns = terminal ? size.ws_col : size_of("COLUMNS", 80),
              rows = terminal ? size.ws_row : size_of("LINES", 24);
    const bool utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
    read_all(r);
    for (r->view.run = 0; r->view.run < r->n; r->view.run++) {
        Arena *a = arena_new();
        frame_write(draw(r, a, rows, columns, utf8), stdout);
        arena_free(a);
    }
    return EXIT_done;
}

static Exit in_terminal(Runs *r)
{
    Session *s = r->s;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        diag_error(s->diag, (Span){0}, 651, "mgc watch needs a terminal");
        diag_help(s->diag, "--once prints one frame as text");
        return EXIT_usage;
    }
    const WatchModuleTable *t = load(s);
    if (!t)
        return EXIT_tool;
    const Screen screen = {.ctx = r,
                           .draw = draw,
                           .key = press,
                           .look = read_runs,
                           .folders = r->path,
                           .nfolders = r->n};
    const char *why_not = t->terminal(s->arena, &screen);
    if (!why_not)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 651, "%s", why_not);
    diag_help(s->diag, "--once prints one frame as text");
    return EXIT_usage;
}

Exit command_watch(Session *s)
{
    Runs r;
    setlocale(LC_CTYPE, "");
    Exit status = open_runs(&r, s, !s->o->once);
    if (!status)
        status = s->o->once ? once(&r) : in_terminal(&r);
    close_runs(&r);
    return status;
}

/* ---- mgc board ------------------------------------------------------------------------------- */

static Exit write_page(Runs *r)
{
    Session *s = r->s;
    Output out;
    if (!s->o->out && isatty(STDOUT_FILENO)) {
        diag_error(s->diag, (Span){0}, 0, "a page is no text for a terminal");
        diag_help(s->diag, "-o page.html, or --serve");
        return EXIT_usage;
    }
    Exit wrong = output_open(s, &out, s->o->out);
    if (wrong)
        return wrong;
    read_all(r);
    json_t *data = board_json(r->run, r->n, false);
    template_write(r->html, data, DIGITS, "", out.file);
    json_decref(data);
    return output_close(s, &out, true);
}

static const char *random_text(Arena *a)
{
    unsigned char bytes[16];
    char text[2 * sizeof bytes + 1];
    for (size_t got = 0; got < sizeof bytes;) {
        const ssize_t n = getrandom(bytes + got, sizeof bytes - got, 0);
        if (n < 0 && errno != EINTR)
            return NULL;
        got += n > 0 ? (size_t)n : 0;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return arena_strdup(a, text);
}

static Answer page(Runs *r, Arena *a)
{
    char *text = NULL;
    size_t size = 0;
    const char *nonce = random_text(a);
    FILE *out = open_memstream(&text, &size);
    if (!out || !nonce)
        return (Answer){.status = 404};
    json_t *data = board_json(r->run, r->n, true);
    template_write(r->html, data, DIGITS, nonce, out);
    json_decref(data);
    fclose(out);
    const char *body = arena_strndup(a, text, size);
    free(text);
    return (Answer){200, "text/html; charset=utf-8", body, size, nonce};
}

static Answer news(Runs *r, Arena *a, const char *since)
{
    if (since &&
        !strcmp(since, arena_printf(a, "%llu", (unsigned long long)board_version(r->run, r->n))))
        return (Answer){204, "application/json", "", 0, NULL};
    json_t *data = board_json(r->run, r->n, true);
    char *text = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS) | JSON_PRESERVE_ORDER);
    json_decref(data);
    const char *body = arena_strdup(a, text ? text : "{}");
    free(text);
    return (Answer){200, "application/json", body, strlen(body), NULL};
}

static Answer get(void *ctx, Arena *a, const char *path, const char *since)
{
    Runs *r = ctx;
    if (*path && strcmp(path, "data.json"))
        return (Answer){.status = 404};
    read_all(r);
    return *path ? news(r, a, since) : page(r, a);
}

static void begins(void *ctx, int port)
{
    const Runs *r = ctx;
    const bool all = !strcmp(r->address, "0.0.0.0");
    printf("http://%s:%d/%s/\n", all ? "127.0.0.1" : r->address, port, r->token);
    if (strncmp(r->address, "127.", 4))
        puts("whoever has this address may read along, and it is sent in the clear");
    fflush(stdout);
}

/* 0 to 65535, or -1. */
static int port_of(const char *text)
{
    char *end;
    const long n = *text ? strtol(text, &end, 10) : 0;
    return *text && (*end || *text < '0' || *text > '9' || n > 65535) ? -1 : (int)n;
}

static Exit serve(Runs *r)
{
    Session *s = r->s;
    const int port = port_of(s->o->serve);
    if (port < 0) {
        diag_error(s->diag, (Span){0}, 653, "--serve=%s: a port is a number up to 65535",
                   s->o->serve);
        return EXIT_usage;
    }
    const WatchModuleTable *t = load(s);
    if (!t)
        return EXIT_tool;
    r->token = random_text(s->arena);
    r->address = s->o->bind ? s->o->bind : "127.0.0.1";
    if (!r->token) {
        diag_error(s->diag, (Span){0}, 653, "there is no random number for the address: %s",
                   strerror(errno));
        return EXIT_tool;
    }
    const Site site = {.ctx = r,
                       .address = r->address,
                       .port = port,
                       .token = r->token,
                       .get = get,
                       .begins = begins};
    const char *why_not = t->serve(s->arena, &site);
    if (!why_not)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 653, "cannot listen at %s", why_not);
    diag_help(s->diag, "--serve without a number takes a port that is free; --bind takes an IPv4 "
                       "address of this machine, in numbers");
    return EXIT_tool;
}

Exit command_board(Session *s)
{
    Runs r;
    Exit status = open_runs(&r, s, s->o->serve != NULL);
    if (!status && !(r.html = template_read(s, "board.html")))
        status = EXIT_tool;
    if (!status)
        status = s->o->serve ? serve(&r) : write_page(&r);
    close_runs(&r);
    return status;
}
