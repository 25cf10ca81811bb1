/* text.c - text for people: messages, sizes, durations; and allocation that ends the program on
 * failure. */
#include "runtime/elastic/pulse.h"
#include "runtime/run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The prefix of messages, and the function that rt_die calls last. */
static struct {
    char who[24];
    bool quiet;
    void (*parting)(rt_exit code);
    char *errors; /* memory that errors are written to as well, or NULL */
    size_t size;
    atomic_flag *writing;
    _Atomic pid_t group; /* rt_ends_with_us */
} voice;

void rt_speak_for(int rank)
{
    snprintf(voice.who, sizeof voice.who, "rank %d: ", rank);
}

void rt_be_quiet(bool quiet)
{
    voice.quiet = quiet;
}

void rt_errors_to(char *at, size_t size, atomic_flag *writing)
{
    voice.errors = at;
    voice.size = size;
    voice.writing = writing;
}

/* Of several processes that share the memory one writes, and none waits for it. */
static void note_error(const char *fmt, va_list ap)
{
    va_list again;
    if (!voice.errors || atomic_flag_test_and_set(voice.writing))
        return;
    va_copy(again, ap);
    char *text = rt_shown_lines(fmt, again);
    va_end(again);
    if (text)
        snprintf(voice.errors, voice.size, "%s%.*s", voice.who, (int)strcspn(text, "\n"), text);
    free(text);
    atomic_flag_clear(voice.writing);
}

void rt_ends_with_us(int64_t of)
{
    voice.group = (pid_t)of;
}

void rt_end_group(void)
{
    if (voice.group > 0)
        kill(-voice.group, SIGKILL);
}

void rt_at_parting(void (*parting)(rt_exit code))
{
    voice.parting = parting;
}

/* The length of the well-formed UTF-8 sequence at s (Unicode 15, table 3-7), or 0. */
static int utf8_length(const unsigned char *s)
{
    int n = s[0] < 0x80   ? 1
            : s[0] < 0xC2 ? 0
            : s[0] < 0xE0 ? 2
            : s[0] < 0xF0 ? 3
            : s[0] < 0xF5 ? 4
                          : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

/* True if a terminal acts on the sequence of n bytes (C0, DEL, C1), or if it is not UTF-8. */
static bool acts(const unsigned char *s, int n)
{
    return n == 0 || *s < 0x20 || *s == 0x7F || (n == 2 && *s == 0xC2 && s[1] < 0xA0);
}

/* Escapes text. With `lines`, a newline before two blanks stays: only our own messages have such
 * lines, because names from files go through rt_shown first. */
static char *shown(const char *text, bool lines)
{
    char *out = rt_alloc(4 * strlen(text) + 1, 1), *o = out;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = utf8_length(s), take = n ? n : 1;
        bool plain = !acts(s, n) || (lines && *s == '\n' && s[1] == ' ' && s[2] == ' ');
        for (; take--; s++)
            o += plain ? (*o = (char)*s, 1) : sprintf(o, "\\x%02x", *s);
    }
    *o = 0;
    return out;
}

char *rt_shown(const char *text)
{
    return shown(text, false);
}

char *rt_shown_lines(const char *fmt, va_list ap)
{
    char *text;
    if (vasprintf(&text, fmt, ap) < 0)
        return NULL;
    char *out = shown(text, true);
    free(text);
    return out;
}

/* Writes each message with one call, because several ranks may write at the same time. */
static void say(const char *kind, const char *fmt, va_list ap)
{
    if (!strcmp(kind, "error: "))
        note_error(fmt, ap);
    char *text = voice.quiet ? NULL : rt_shown_lines(fmt, ap);
    if (!text)
        return;
    if (ftrylockfile(stdout) == 0) {
        fflush(stdout);
        funlockfile(stdout);
    }
    dprintf(STDERR_FILENO, "%s: %s%s%s\n", program_invocation_short_name, voice.who, kind, text);
    free(text);
}

void rt_die(rt_exit code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("error: ", fmt, ap);
    va_end(ap);
    fflush(NULL);
    if (voice.quiet)
        usleep(500000); /* rank 0 prints the message before the launcher sees this exit */
    rt_end_group();
    if (voice.parting)
        voice.parting(code);
    _exit((int)code); /* no exit handlers: other threads may still be running */
}

void rt_complain(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("error: ", fmt, ap);
    va_end(ap);
}

void rt_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("warning: ", fmt, ap);
    va_end(ap);
}

void rt_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void *rt_alloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        rt_die(RT_FAILED, "no memory for %zu x %zu bytes", n, size);
    return p;
}

void *rt_grow(void *p, size_t n, size_t size)
{
    void *q = reallocarray(p, n ? n : 1, size);
    if (!q)
        rt_die(RT_FAILED, "no memory for %zu x %zu bytes", n, size);
    return q;
}

char *rt_printf(const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        rt_die(RT_FAILED, "no memory for a message");
    va_end(ap);
    return text;
}

rt_words rt_bytes_text(double bytes)
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    rt_words w;
    int u = 0;
    while (bytes >= 1024 && u < 5) {
        bytes /= 1024;
        u++;
    }
    snprintf(w.text, sizeof w.text, u ? "%.2f %s" : "%.0f %s", bytes, unit[u]);
    return w;
}

rt_words rt_count_text(double n)
{
    static const char unit[] = " kMGTP";
    rt_words w;
    int u = 0;
    while (n >= 999.5 && unit[u + 1]) {
        n /= 1000;
        u++;
    }
    if (u == 0)
        snprintf(w.text, sizeof w.text, "%.0f", n);
    else
        snprintf(w.text, sizeof w.text, "%.*f%c", n < 10 ? 2 : n < 100 ? 1 : 0, n, unit[u]);
    return w;
}

/* "6.46 GFLOP/s" */
rt_words rt_rate_text(double per_second, const char *unit)
{
    rt_words n = rt_count_text(per_second), w;
    size_t digits = strspn(n.text, "0123456789.");
    snprintf(w.text, sizeof w.text, "%.*s %s%s", (int)digits, n.text, n.text + digits, unit);
    return w;
}

rt_words rt_duration_text(double seconds)
{
    rt_words w;
    if (!(seconds >= 0) || seconds > 1e15) {
        snprintf(w.text, sizeof w.text, "-");
        return w;
    }
    int64_t s = (int64_t)(seconds + 0.5), h = s / 3600, m = s / 60 % 60;
    s %= 60;
    if (h)
        snprintf(w.text, sizeof w.text, "%" PRId64 ":%02" PRId64 ":%02" PRId64, h, m, s);
    else
        snprintf(w.text, sizeof w.text, "%" PRId64 ":%02" PRId64, m, s);
    return w;
}

rt_words rt_ms_text(double ms)
{
    rt_words w;
    if (ms >= 10000)
        snprintf(w.text, sizeof w.text, "%.2f s", ms / 1000);
    else
        snprintf(w.text, sizeof w.text, "%.*f ms", ms < 1 ? 3 : ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
    return w;
}

rt_words rt_double_text(double x)
{
    rt_words w;
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(w.text, sizeof w.text, "%.*g", digits, x);
        if (strtod(w.text, NULL) == x)
            break;
    }
    return w;
}

char *rt_json_escape(const char *text)
{
    char *out = rt_alloc(6 * strlen(text) + 1, 1), *o = out;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = utf8_length(s);
        if (n == 0) {
            o = stpcpy(o, "\xEF\xBF\xBD");
            s++;
        } else if (*s == '"' || *s == '\\' || *s == '\n') {
            *o++ = '\\';
            *o++ = *s == '\n' ? 'n' : (char)*s;
            s++;
        } else if (*s < 0x20 || *s == 0x7F) {
            o += sprintf(o, "\\u%04x", *s++);
        } else {
            memcpy(o, s, (size_t)n);
            o += n;
            s += n;
        }
    }
    *o = 0;
    return out;
}

char *rt_whole_utf8(const char *text)
{
    char *out = rt_alloc(3 * strlen(text) + 1, 1), *o = out;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int n = utf8_length(s);
        o = n ? mempcpy(o, s, (size_t)n) : stpcpy(o, "\xEF\xBF\xBD");
        s += n ? n : 1;
    }
    return out;
}

int64_t rt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double rt_duration(const char *text)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    double total = 0;
    int last = -1;
    if (strchr(text, ':')) { /* h:mm:ss or m:ss */
        int n = 0;
        for (const char *s = text; *s; n++) {
            char *end;
            double part = *s >= '0' && *s <= '9' ? strtod(s, &end) : NAN;
            if (!(part < (n ? 60 : 1e6)) || n > 2 || (*end && *end != ':') || (*end && !end[1]))
                return NAN;
            total = total * 60 + part;
            s = *end ? end + 1 : end;
        }
        return total;
    }
    for (const char *s = text; *s;) {
        char *end;
        double part = *s >= '0' && *s <= '9' ? strtod(s, &end) : NAN;
        int k = 0;
        if (!(part < 1e9))
            return NAN;
        while (k < 4 && units[k].unit != *end)
            k++;
        if (*end && (k == 4 || k <= last))
            return NAN;
        if (!*end && last >= 0)
            return NAN; /* "3h20" does not name the unit of 20 */
        total += part * (*end ? units[k].seconds : 1);
        last = k;
        s = *end ? end + 1 : end;
    }
    return *text ? total : NAN;
}

double rt_wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
