/* terminal.c - frames on a terminal, by ncurses; see terminal.h.
 *
 * The process sleeps until a key comes, a file in one of the folders changes (inotify), or a second
 * is over. However often files change, they are looked at at most four times a second: until then
 * only keys wake it. */
#include "compiler/watch/terminal.h"

#include <locale.h>
#include <langinfo.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>

#include "compiler/watch/ends.h"

enum { GAP_MS = 250, LOOK_MS = 1000, FOLDERS = 64 };

typedef struct Terminal {
    const Screen *s;
    bool utf8;
    attr_t style[STYLE_count];
    int notify; /* inotify, or -1 */
    int followed[FOLDERS];
    int64_t drawn;
} Terminal;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void choose_styles(Terminal *t)
{
    static const short color[STYLE_count] = {[STYLE_curve] = COLOR_CYAN,
                                             [STYLE_second] = COLOR_YELLOW,
                                             [STYLE_bar] = COLOR_BLUE,
                                             [STYLE_good] = COLOR_GREEN,
                                             [STYLE_alert] = COLOR_RED};
    static const attr_t plain[STYLE_count] = {[STYLE_dim] = A_DIM,
                                              [STYLE_bold] = A_BOLD,
                                              [STYLE_title] = A_REVERSE,
                                              [STYLE_chosen] = A_BOLD,
                                              [STYLE_alert] = A_STANDOUT};
    const char *no = getenv("NO_COLOR");
    const bool colors = has_colors() && !(no && *no) && start_color() == OK;
    if (colors)
        use_default_colors();
    for (int i = 0; i < STYLE_count; i++) {
        t->style[i] = plain[i];
        if (colors && color[i] && init_pair((short)i, color[i], -1) == OK)
            t->style[i] = (attr_t)COLOR_PAIR(i) | (i == STYLE_alert ? A_BOLD : 0);
    }
}

static void draw(Terminal *t)
{
    int rows, columns;
    getmaxyx(stdscr, rows, columns);
    Arena *a = arena_new();
    const Frame *f = t->s->draw(t->s->ctx, a, rows, columns, t->utf8);
    erase();
    for (int row = 0; row < f->rows; row++)
        for (int i = 0; i < f->columns; i++) {
            const Cell *c = &f->cells[row * f->columns + i];
            wchar_t text[2] = {(wchar_t)c->c, 0};
            cchar_t cell;
            if (c->c && (c->c != ' ' || c->style == STYLE_title) &&
                setcchar(&cell, text, t->style[c->style] & ~A_COLOR,
                         (short)PAIR_NUMBER(t->style[c->style]), NULL) == OK)
                mvadd_wch(row, i, &cell);
        }
    move(f->rows - 1, f->columns - 1);
    refresh();
    arena_free(a);
    t->drawn = now_ms();
}

/* Folders may come later than the terminal. */
static void follow(Terminal *t)
{
    for (int i = 0; t->notify >= 0 && i < t->s->nfolders && i < FOLDERS; i++)
        if (t->followed[i] < 0)
            t->followed[i] = inotify_add_watch(t->notify, t->s->folders[i],
                                               IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

static void drain(int fd)
{
    char events[4096];
    while (read(fd, events, sizeof events) > 0) {
    }
}

static int key_of(int key)
{
    return key == KEY_BTAB || key == KEY_LEFT ? 'T'
           : key == KEY_RIGHT                 ? '\t'
           : key == KEY_DOWN                  ? 'j'
           : key == KEY_UP                    ? 'k'
           : key == KEY_HOME                  ? '0'
                                              : key;
}

/* False: the end. */
static bool keys(Terminal *t, bool *again)
{
    for (int key; (key = getch()) != ERR;) {
        bool more = false;
        if (key == KEY_RESIZE)
            *again = true;
        else if (!t->s->key(t->s->ctx, key_of(key), &more))
            return false;
        *again |= more;
    }
    return true;
}

static void go_on(Terminal *t)
{
    bool pending; /* something may have changed */
    int64_t looked = now_ms();
    t->s->look(t->s->ctx, &pending);
    draw(t);
    while (!ends_now()) {
        const int64_t now = now_ms(), due = pending ? t->drawn + GAP_MS : looked + LOOK_MS;
        struct pollfd fd[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                              {.fd = pending ? -1 : t->notify, .events = POLLIN}};
        poll(fd, 2, due > now ? (int)(due - now) : 0);
        bool again = false;
        if (!keys(t, &again) || fd[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            return;
        if (fd[1].revents & POLLIN) {
            drain(t->notify);
            pending = true;
        }
        const int64_t then = now_ms();
        pending |= then >= looked + LOOK_MS;
        if (pending && then >= t->drawn + GAP_MS) {
            again |= t->s->look(t->s->ctx, &pending) || then >= looked + LOOK_MS; /* the clock */
            looked = then;
            follow(t);
        }
        if (again)
            draw(t);
    }
}

const char *terminal_run(Arena *a, const Screen *s)
{
    Terminal t = {.s = s, .utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8")};
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        const char *term = getenv("TERM");
        return arena_printf(a, "ncurses does not know the terminal '%s'", term ? term : "");
    }
    set_term(screen);
    ends_catch(); /* in place of ncurses' own */
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    choose_styles(&t);
    t.notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    for (int i = 0; i < FOLDERS; i++)
        t.followed[i] = -1;
    follow(&t);
    go_on(&t);
    endwin();
    delscreen(screen);
    if (t.notify >= 0)
        close(t.notify);
    return NULL;
}
