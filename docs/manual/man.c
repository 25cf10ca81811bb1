/* man.c - mgc.1, a page for each command, and mgc-train.1; see write.h. */
#include "docs/manual/write.h"

#include <string.h>

/* Text as troff reads it: no escapes, and no line that looks like a request. */
static void text(FILE *f, const char *s)
{
    bool first = true;
    for (; *s; first = *s++ == '\n') {
        if (first && (*s == '.' || *s == '\''))
            fputs("\\&", f);
        if (*s == '\\')
            fputs("\\e", f);
        else if (*s == '-')
            fputs("\\-", f);
        else if (*s == '\'')
            fputs("\\(aq", f);
        else if (*s == '`')
            fputs("\\(ga", f);
        else if (*s == '^')
            fputs("\\(ha", f);
        else if (*s == '~')
            fputs("\\(ti", f);
        else
            fputc(*s, f);
    }
}

static void line(FILE *f, const char *s)
{
    text(f, s);
    fputc('\n', f);
}

static void title(FILE *f, const char *page, const char *what)
{
    fputs(".TH ", f);
    for (const char *p = page; *p; p++)
        if (*p == '-')
            fputs("\\-", f);
        else
            fputc(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p, f);
    fprintf(f, " 1 \"\" \"mgc %s\" \"mgc\"\n.SH NAME\n", MGC_VERSION);
    text(f, page);
    fputs(" \\- ", f);
    line(f, what);
}

static void option(FILE *f, const Entry *e, bool of_program)
{
    fputs(".TP\n.B ", f);
    if (e->letter) {
        const char letter[3] = {'-', e->letter, 0};
        text(f, letter);
        fputs(", ", f);
    }
    text(f, "--");
    text(f, e->name);
    fputs(e->value == VALUE_maybe  ? "\\fR[=\\fI"
          : e->value == VALUE_flag ? ""
          : of_program             ? " \\fI"
                                   : "\\fR=\\fI",
          f);
    text(f, e->argument);
    fputs(e->value == VALUE_maybe ? "\\fR]\n" : e->value == VALUE_flag ? "\n" : "\\fR\n", f);
    line(f, e->help);
}

/* Those that `command` takes, by group; NULL: all. */
static void options(FILE *f, const Entry *e, size_t n, const char *command)
{
    const char *group = "";
    fputs(".SH OPTIONS\n", f);
    for (size_t i = 0; i < n; i++)
        if (!command || command_takes(command, e[i].name)) {
            if (strcmp(group, e[i].group)) {
                fputs(".SS ", f);
                line(f, group = e[i].group);
            }
            option(f, &e[i], !command);
        }
}

static void notes(FILE *f, const char *heading, const Note *n, size_t count, const char *of)
{
    fprintf(f, ".SH %s\n", heading);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(n[i].of, of)) {
            fputs(".TP\n.B ", f);
            line(f, n[i].name);
            line(f, n[i].text);
        }
}

static void form(FILE *f, const Form *c)
{
    fputs(".B mgc ", f);
    text(f, c->name);
    fputs("\\fR ", f);
    line(f, c->arguments);
}

static void end(FILE *f, const char *of)
{
    notes(f, "EXIT STATUS", exits, exit_count, of);
    notes(f, "ENVIRONMENT", variables, variable_count, of);
}

static bool page_mgc(const char *to)
{
    FILE *f = open_page(to, "mgc.1");
    if (!f)
        return false;
    title(f, "mgc", "compile a model to the program that trains it");
    fputs(
        ".SH SYNOPSIS\n.B mgc \\fIF.mg\\fR \\-o \\fItrain\\fR [\\fIoptions\\fR]\n.br\n"
        ".B mgc \\fICOMMAND\\fR ...\n"
        ".SH DESCRIPTION\nA file F.mg describes a model, its layout over devices and its training. "
        "mgc proves that the program fits the memory of its device and cannot deadlock, predicts "
        "the "
        "time of a step, and writes one executable, which\n.BR mgc\\-train (1)\ndescribes.\n"
        ".SH COMMANDS\n",
        f);
    for (size_t i = 0; i < form_count; i++) {
        fputs(".TP\n", f);
        form(f, &forms[i]);
        line(f, forms[i].help);
    }
    options(f, mgc_options, mgc_option_count, "");
    fputs(".PP\nOptions of commands stand on their pages.\n", f);
    end(f, "mgc");
    fputs(
        ".SH EXAMPLES\n.nf\n"
        "mgc models/llama_mini.mg \\-o train       # compile a model to a training program\n"
        "mgc models/llama7b.mg \\-\\-plan            # what a step costs and where its bytes lie\n"
        "mgc models/mlp.mg \\-D hidden=512 \\-\\-check # types, memory, schedule: everything but "
        "code\n"
        ".fi\n.SH SEE ALSO\n.BR mgc\\-train (1)",
        f);
    for (size_t i = 0; i < take_count; i++)
        if (*takes[i].name) {
            fputs(",\n.BR mgc\\-", f);
            text(f, takes[i].name);
            fputs(" (1)", f);
        }
    fputc('\n', f);
    return close_page(f);
}

static bool page_command(const char *to, const char *command)
{
    char name[64], file[68];
    snprintf(name, sizeof name, "mgc-%s", command);
    snprintf(file, sizeof file, "%s.1", name);
    FILE *f = open_page(to, file);
    if (!f)
        return false;
    bool first = true;
    for (size_t i = 0; i < form_count; i++)
        if (!strcmp(forms[i].name, command)) {
            if (first) {
                title(f, name, forms[i].help);
                fputs(".SH SYNOPSIS\n", f);
            } else
                fputs(".br\n", f);
            form(f, &forms[i]);
            first = false;
        }
    fputs(".SH DESCRIPTION\n", f);
    for (size_t i = 0; i < form_count; i++)
        if (!strcmp(forms[i].name, command)) {
            fputs(".TP\n", f);
            form(f, &forms[i]);
            line(f, forms[i].help);
        }
    options(f, mgc_options, mgc_option_count, command);
    end(f, "mgc");
    fputs(".SH SEE ALSO\n.BR mgc (1)\n", f);
    return close_page(f);
}

static bool page_train(const char *to)
{
    FILE *f = open_page(to, "mgc-train.1");
    if (!f)
        return false;
    title(f, "mgc-train", "options of the programs that mgc writes");
    fputs(".SH SYNOPSIS\n.B ./train \\-\\-data \\fIGLOB\\fR [\\fIoptions\\fR]\n"
          ".SH DESCRIPTION\nA program that\n.BR mgc (1)\nhas written trains its model, goes on "
          "from a "
          "checkpoint, evaluates, exports and samples. It is called whatever \\-o said; here it is "
          "./train. A program of \\-\\-generate has those of these options that are of texts.\n",
          f);
    options(f, train_options, train_option_count, NULL);
    end(f, "train");
    fputs(
        ".SH FILES\n.TP\n.B run/metrics.jsonl\nA JSON object for each step, evaluation and alert.\n"
        ".TP\n.B run/ckpt/step\\-NNNNNNNN\nA checkpoint: safetensors, config.json, state.\n"
        ".SH EXAMPLES\n.nf\n"
        "\\&./train \\-\\-data \\(aqcorpus/*.txt\\(aq \\-\\-steps 1000\n"
        "\\&./train \\-\\-data \\(aqcorpus/*.txt\\(aq \\-\\-resume\n"
        "\\&./train \\-\\-resume \\-\\-sample 500 \\-\\-prompt \\(aqIn the \\(aq\n"
        ".fi\n.SH SEE ALSO\n.BR mgc (1)\n",
        f);
    return close_page(f);
}

bool write_man(const char *to)
{
    bool done = page_mgc(to) && page_train(to);
    for (size_t i = 0; done && i < take_count; i++)
        done = !*takes[i].name || page_command(to, takes[i].name);
    return done;
}
