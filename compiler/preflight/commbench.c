/* commbench.c - mgc commbench: the links between ranks as a program's --preflight measures them, in
 * a device's description. */
#include "compiler/preflight/hosts.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

#include "compiler/calibrate.h"
#include "compiler/description.h"

/* The JSON object in what rank 0 wrote, where launchers may have written, too. NULL: there is
 * none. */
static json_t *report_of(const char *said)
{
    const char *from = strstr(said, "{\"program\"");
    return from ? json_loadb(from, strcspn(from, "\n"), 0, NULL) : NULL;
}

static double number(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

/* Of the fields that the report has a number for. Links within a host where each has one rank are
 * those between hosts, and nothing but them counts. */
static bool settle(json_t *d, const json_t *measured, double ranks)
{
    const double node = number(measured, "node_ranks"), link = number(measured, "link_bandwidth");
    const double far = number(measured, "node_bandwidth");
    const bool one_each = node < 2, one_host = far <= 0;
    if (link <= 0 && far <= 0)
        return false;
    const char *near_rate = one_each ? "node_bandwidth" : "link_bandwidth";
    const char *near_step = one_each ? "node_seconds" : "link_seconds";
    if (number(measured, near_rate) > 0)
        json_object_set_new(d, "link_bandwidth",
                            json_real(calibrate_digits(number(measured, near_rate))));
    if (number(measured, near_step) > 0)
        json_object_set_new(d, "link_seconds",
                            json_real(calibrate_digits(number(measured, near_step))));
    if (!one_host) {
        json_object_set_new(d, "node_ranks", json_integer((json_int_t)node));
        json_object_set_new(d, "node_bandwidth", json_real(calibrate_digits(far)));
        json_object_set_new(d, "node_seconds",
                            json_real(calibrate_digits(number(measured, "node_seconds"))));
    } else if (number(d, "node_ranks") < ranks) {
        json_object_set_new(d, "node_ranks", json_integer((json_int_t)ranks));
    }
    return true;
}

static void note(Session *s, json_t *d, const json_t *report)
{
    char day[32];
    const time_t now = time(NULL);
    struct tm at;
    strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &at));
    const char *had = json_string_value(json_object_get(d, "measured"));
    json_object_set_new(
        d, "measured",
        json_string(arena_printf(
            s->arena, "%s%slinks by mgc commbench, %lld ranks on %zu hosts, %s", had ? had : "",
            had ? "; " : "", (long long)json_integer_value(json_object_get(report, "ranks")),
            json_array_size(json_object_get(report, "hosts")), day)));
    if (json_object_get(d, "known")) /* what it rested on may be a guess of the network */
        json_object_set_new(
            d, "known_by",
            json_string(arena_printf(s->arena, "the numbers of %s, but for its links",
                                     s->o->device ? s->o->device : "cpus")));
}

static Exit write_description(Session *s, json_t *d)
{
    Output out;
    const char *wrong = description_wrong(s->arena, d);
    if (wrong) {
        diag_error(s->diag, (Span){0}, 644, "the description with these links: %s", wrong);
        return EXIT_tool;
    }
    Exit status = output_open(s, &out, s->o->out);
    if (status)
        return status;
    json_dumpf(d, out.file, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    fputc('\n', out.file);
    return output_close(s, &out, true);
}

Exit command_commbench(Session *s)
{
    const Options *o = s->o;
    Start start = {
        .command = o->words.data[0], .option = "--preflight=-", .launch = o->launch, .quiet = true};
    Started end;
    json_t *d = NULL;
    Exit wrong = description_read(s, o->device ? o->device : "cpus", &d);
    if (!wrong && o->out)
        wrong = output_replaceable(s, o->out);
    if (!wrong && o->words.n > 1)
        wrong = hosts_read(s, o->words.data[1], &start.hosts);
    if (!wrong)
        wrong = hosts_run(s, &start, &end);
    json_t *report = wrong ? NULL : report_of(end.said);
    if (!wrong &&
        !(report && settle(d, json_object_get(report, "measured"), number(report, "ranks")))) {
        diag_error(s->diag, (Span){0}, 644, "'%s' has measured no link", start.command);
        diag_help(s->diag, "links are between ranks: a program of several; mgc preflight says what "
                           "it lacks");
        wrong = EXIT_tool;
    }
    if (!wrong) {
        note(s, d, report);
        wrong = write_description(s, d);
    }
    json_decref(report);
    json_decref(d);
    return wrong;
}
