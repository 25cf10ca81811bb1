/* report.c - what a preflight found, as text and as JSON. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/preflight/flight.h"
#include "runtime/sizes.h"

enum { SHOWN = 16 }; /* rows of a table */

void rt_found(rt_flight *f, rt_mark mark, rt_exit code, const char *check, const char *again,
              const char *fmt, ...)
{
    static const char *const marks[] = {"ok", "warn", "FAIL", "skip"};
    va_list ap;
    char *text;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    char *shown = rt_shown(text);
    f->finding = rt_grow(f->finding, (size_t)f->nfindings + 1, sizeof *f->finding);
    f->finding[f->nfindings++] =
        (rt_finding){mark, check, shown, again ? rt_printf("%s", again) : NULL};
    if (mark == RT_FAULT && !f->code)
        f->code = code;
    free(text);
    if (f->silent)
        return;
    printf("[%s] %s: %s\n", marks[mark], check, shown);
    if (again)
        printf("       again: %s\n", again);
    fflush(stdout);
}

void rt_report_head(rt_flight *f)
{
    const mg_program *p = f->run->program;
    if (f->silent)
        return;
    printf("preflight of %s (%s, layout %s): %d rank%s on %d host%s, started by %s\n", p->name,
           p->source, p->layout, f->n, f->n > 1 ? "s" : "", f->nhosts, f->nhosts > 1 ? "s" : "",
           rt_launcher_name(f->run->world.launcher));
    for (int h = 0; h < f->nhosts; h++)
        printf("  host %s: rank%s %d%s\n", rt_host_name(f, h), f->ranks[h] > 1 ? "s" : "",
               f->first[h], f->ranks[h] > 1 ? " ..." : "");
    fflush(stdout);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static double slower(const rt_link *l)
{
    return (l->rate[0] < l->rate[1] ? l->rate[0] : l->rate[1]) / l->width;
}

static int by_rate(const void *a, const void *b)
{
    const double x = slower(a), y = slower(b);
    return (x > y) - (x < y);
}

/* Links, the slowest first. */
void rt_report_links(const rt_flight *f)
{
    const mg_network *n = &f->run->program->network;
    if (f->silent || !f->nlinks)
        return;
    qsort(f->link, (size_t)f->nlinks, sizeof *f->link, by_rate);
    printf("\n%-40s %12s %12s %10s\n", "links between hosts, the slowest first", "there", "back",
           "message");
    for (int i = 0; i < f->nlinks && i < SHOWN; i++) {
        const rt_link *l = &f->link[i];
        char *who = rt_printf("%s - %s", rt_host_name(f, l->a), rt_host_name(f, l->b));
        printf("  %-38s %12s %12s %7.0f us\n", who, rt_rate_text(l->rate[0], "B/s").text,
               rt_rate_text(l->rate[1], "B/s").text, 1e6 * l->seconds);
        free(who);
    }
    if (f->nlinks > SHOWN)
        printf("  and %d more\n", f->nlinks - SHOWN);
    char *each = rt_printf("planned, of each of %d", f->link[0].width);
    printf("  %-38s %12s %12s %7.0f us\n\n", each, rt_rate_text(n->node_bandwidth, "B/s").text, "",
           1e6 * n->node_seconds);
    free(each);
    fflush(stdout);
}

static double excess(const rt_flight *f, const rt_group *g)
{
    return g->seconds - 1e-6 * f->run->program->actions[g->planned->action].predicted_us;
}

/* Collectives, those first that take most longer than planned. */
void rt_report_groups(const rt_flight *f)
{
    if (f->silent || !f->ngroups)
        return;
    for (int i = 1; i < f->ngroups; i++)
        for (int k = i; k && excess(f, &f->group[k]) > excess(f, &f->group[k - 1]); k--) {
            const rt_group g = f->group[k];
            f->group[k] = f->group[k - 1];
            f->group[k - 1] = g;
        }
    printf("\n%-40s %10s %10s %10s %8s\n", "collectives, the latest first", "bytes", "takes",
           "planned", "slowest");
    for (int i = 0; i < f->ngroups && i < SHOWN; i++) {
        const rt_group *g = &f->group[i];
        const mg_comm_desc *d = g->planned->comm;
        const mg_action *a = &f->run->program->actions[g->planned->action];
        const double bytes = (double)(d->outer * d->size * d->inner * mg_dtype_bytes(d->dtype));
        printf("  %-38.38s %10s %7.3g ms %7.3g ms  rank %d\n", a->name, rt_bytes_text(bytes).text,
               1e3 * g->seconds, 1e-3 * a->predicted_us, g->slowest);
    }
    if (f->ngroups > SHOWN)
        printf("  and %d more\n", f->ngroups - SHOWN);
    putchar('\n');
    fflush(stdout);
}

/* The words of this process's command line, as a shell takes them; the caller frees it. */
static char *own_command(void)
{
    enum { MOST = 1 << 16 };
    char *words = rt_alloc(MOST, 1), *line = rt_printf("%s", "");
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, words, MOST - 1);
    for (const char *w = words; w < words + n; w += strlen(w) + 1) {
        const bool plain = *w && !w[strspn(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_-./=:,@%+")];
        char *longer =
            rt_printf("%s%s%s%s%s", line, *line ? " " : "", plain ? "" : "'", w, plain ? "" : "'");
        free(line);
        line = longer;
    }
    if (fd >= 0)
        close(fd);
    free(words);
    return line;
}

void rt_report_end(const rt_flight *f)
{
    int count[4] = {0};
    for (int i = 0; i < f->nfindings; i++)
        count[f->finding[i].mark]++;
    if (f->silent)
        return;
    printf("preflight: %d found wrong, %d in doubt, %d left out, %d good\n", count[RT_FAULT],
           count[RT_DOUBT], count[RT_LEFT_OUT], count[RT_GOOD]);
    if (count[RT_FAULT]) {
        char *own = own_command(), *all = rt_world_command(&f->run->world, f->n, own);
        printf("again: %s\n", all);
        free(own);
        free(all);
    }
    fflush(stdout);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void quoted(FILE *out, const char *name, const char *text)
{
    char *inside = rt_json_escape(text);
    fprintf(out, "\"%s\": \"%s\"", name, inside);
    free(inside);
}

static void json_hosts(const rt_flight *f, FILE *out)
{
    fputs(", \"hosts\": [", out);
    for (int h = 0; h < f->nhosts; h++) {
        const rt_about *a = &f->about[f->first[h]];
        fputs(h ? ", {" : "{", out);
        quoted(out, "name", a->host);
        fprintf(out,
                ", \"first\": %d, \"ranks\": %d, \"cores\": %d, \"planned\": %lld, "
                "\"available\": %lld, \"ahead\": %.6f, \"bound\": %.6f, ",
                f->first[h], f->ranks[h], a->cores, (long long)a->planned, (long long)a->available,
                f->ahead[h], f->bound[h]);
        quoted(out, "sha256", a->file);
        fputs(", ", out);
        quoted(out, "system", a->system);
        fputs(", ", out);
        quoted(out, "gpu", a->gpu);
        fputs(", ", out);
        quoted(out, "versions", a->versions);
        fputc('}', out);
    }
    fputc(']', out);
}

static void json_measures(const rt_flight *f, FILE *out)
{
    const mg_network m = rt_measured(f);
    fputs(", \"links\": [", out);
    for (int i = 0; i < f->nlinks; i++)
        fprintf(out,
                "%s{\"a\": %d, \"b\": %d, \"ranks\": %d, \"seconds\": %.9f, \"there\": %.0f, "
                "\"back\": %.0f}",
                i ? ", " : "", f->link[i].a, f->link[i].b, f->link[i].width, f->link[i].seconds,
                f->link[i].rate[0], f->link[i].rate[1]);
    fputs("], \"pairs\": [", out);
    for (int i = 0; i < f->npairs; i++)
        fprintf(out, "%s{\"a\": %d, \"b\": %d, \"rate\": %.0f}", i ? ", " : "", f->pair[i].a,
                f->pair[i].b, f->pair[i].rate);
    fputs("], \"collectives\": [", out);
    for (int i = 0; i < f->ngroups; i++) {
        const mg_action *a = &f->run->program->actions[f->group[i].planned->action];
        fputs(i ? ", {" : "{", out);
        quoted(out, "name", a->name);
        fprintf(out, ", \"seconds\": %.9f, \"planned\": %.9f, \"groups\": %d, \"slowest\": %d}",
                f->group[i].seconds, 1e-6 * a->predicted_us, f->group[i].groups,
                f->group[i].slowest);
    }
    fprintf(out,
            "], \"measured\": {\"link_bandwidth\": %.0f, \"link_seconds\": %.9f, \"node_ranks\": "
            "%d, \"node_bandwidth\": %.0f, \"node_seconds\": %.9f}",
            m.link_bandwidth, m.link_seconds, m.node_ranks, m.node_bandwidth, m.node_seconds);
}

static void json_findings(const rt_flight *f, FILE *out)
{
    static const char *const marks[] = {"ok", "warn", "fail", "skip"};
    fputs(", \"findings\": [", out);
    for (int i = 0; i < f->nfindings; i++) {
        const rt_finding *x = &f->finding[i];
        fprintf(out, "%s{\"mark\": \"%s\", ", i ? ", " : "", marks[x->mark]);
        quoted(out, "check", x->check);
        fputs(", ", out);
        quoted(out, "text", x->text);
        if (x->again) {
            fputs(", ", out);
            quoted(out, "again", x->again);
        }
        fputc('}', out);
    }
    fputc(']', out);
}

/* One line. */
void rt_report_json(const rt_flight *f, const char *path)
{
    FILE *out = strcmp(path, "-") ? rt_file_create(path) : stdout;
    if (!out)
        rt_die(RT_IO, "--preflight=%s: %s", path, rt_file_error());
    fputc('{', out);
    quoted(out, "program", f->run->program->name);
    fprintf(out, ", \"ranks\": %d, \"good\": %s", f->n, f->code ? "false" : "true");
    json_hosts(f, out);
    json_measures(f, out);
    json_findings(f, out);
    fputs("}\n", out);
    const bool bad = fflush(out) || ferror(out);
    if ((out != stdout && fclose(out)) || bad)
        rt_die(RT_IO, "--preflight=%s: %s", path, strerror(errno));
}
