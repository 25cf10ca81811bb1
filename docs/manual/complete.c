/* complete.c - completions for bash, zsh and fish, of mgc and of the programs that it writes; see
 * write.h. */
#include "docs/manual/write.h"

#include <string.h>

/* Names under which programs are usually written: README and the pages of docs/ call them so. */
static const char *const programs[] = {"train", "gen"};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* A string inside of '...' of a shell; with `more` before characters that its tool reads itself. */
static void quoted(FILE *f, const char *s, const char *special, const char *quote)
{
    for (; *s; s++)
        if (*s == '\'')
            fputs(quote, f);
        else if (strchr(special, *s))
            fprintf(f, "\\%c", *s);
        else
            fputc(*s, f);
}

/* "a|b" as "a b". */
static void choices(FILE *f, const char *argument)
{
    for (; *argument; argument++)
        fputc(*argument == '|' ? ' ' : *argument, f);
}

/* "import-hf, tune: what it learns" without the commands, since their options alone are shown. */
static const char *help_of(const Entry *e)
{
    const char *colon = strstr(e->help, ": ");
    const size_t n = colon ? (size_t)(colon - e->help) : 0;
    for (size_t i = 0; n && i < take_count; i++)
        if (*takes[i].name && !strncmp(e->help, takes[i].name, strlen(takes[i].name)))
            return colon + 2;
    return e->help;
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_names(FILE *f, const Entry *e, size_t n, const char *command)
{
    for (size_t i = 0; i < n; i++)
        if (!command || command_takes(command, e[i].name)) {
            fprintf(f, " --%s", e[i].name);
            if (e[i].letter)
                fprintf(f, " -%c", e[i].letter);
        }
}

/* An arm for each option with a value: what its value is. */
static void bash_values(FILE *f, const Entry *e, size_t n, const char *devices)
{
    for (size_t i = 0; i < n; i++) {
        const char kind = argument_kind(&e[i]);
        if (e[i].value == VALUE_flag)
            continue;
        fprintf(f, "    --%s", e[i].name);
        if (e[i].letter)
            fprintf(f, " | -%c", e[i].letter);
        fputs(") ", f);
        if (e[i].value == VALUE_maybe)
            fputs("maybe=1 ", f);
        if (has_choices(&e[i])) {
            fputs("words='", f);
            choices(f, e[i].argument);
            fputs("'", f);
        } else
            fprintf(f, "kind=%s", kind == 'd' ? "directory" : kind ? "file" : "other");
        if (kind == 'D')
            fprintf(f, " words='%s'", devices);
        fputs(" ;;\n", f);
    }
}

static const char bash_rest[] =
    "# The word that is completed, and the option whose value it is: behind a blank or behind "
    "'=',\n"
    "# which bash takes for a word.\n"
    "_mgc_complete() {\n"
    "    local options=$1 values=$2 more=$3 kind= words= maybe=\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} option= equals=\n"
    "    if [[ $cur == = ]]; then option=$before cur= equals=1\n"
    "    elif [[ $before == = ]]; then option=${COMP_WORDS[COMP_CWORD - 2]} equals=1\n"
    "    else option=$before; fi\n"
    "    COMPREPLY=()\n"
    "    [[ $option != -* ]] || \"$values\" \"$option\"\n"
    "    if [[ $maybe && ! $equals ]]; then kind= words=; fi\n"
    "    if [[ $kind == directory ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
    "    elif [[ $kind == file ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"; compgen -f -- \"$cur\")\n"
    "    elif [[ $words ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    elif [[ $kind == other ]]; then\n"
    "        :\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
    "    else\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$more\" -- \"$cur\"; compgen -f -- \"$cur\")\n"
    "    fi\n"
    "}\n\n"
    "_mgc() {\n"
    "    local i command= more=$_mgc_commands\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        [[ ${COMP_WORDS[i]} != -* ]] || continue\n"
    "        [[ \" $_mgc_commands \" != *\" ${COMP_WORDS[i]} \"* ]] || command=${COMP_WORDS[i]}\n"
    "        more=\n"
    "        break\n"
    "    done\n"
    "    [[ $command != explain ]] || more=$_mgc_codes\n"
    "    _mgc_complete \"$(_mgc_options \"$command\")\" _mgc_value \"$more\"\n"
    "}\n\n"
    "_mgc_train() {\n"
    "    _mgc_complete \"$_mgc_train_options\" _mgc_train_value ''\n"
    "}\n\n"
    "complete -F _mgc mgc\n";

static bool write_bash(const char *to, const char *devices)
{
    FILE *f = open_page(to, "mgc.bash");
    if (!f)
        return false;
    fputs("# bash completion for mgc, and for programs that it writes, under their usual names.\n"
          "# For another name: complete -F _mgc_train NAME\n_mgc_commands='",
          f);
    for (size_t i = 0; i < take_count; i++)
        if (*takes[i].name)
            fprintf(f, "%s%s", i > 1 ? " " : "", takes[i].name);
    fputs("'\n_mgc_codes='", f);
    for (size_t i = 0; i < code_count; i++)
        fprintf(f, "%sMG%04d", i ? " " : "", codes[i].number);
    fputs("'\n_mgc_train_options='", f);
    bash_names(f, train_options, train_option_count, NULL);
    fputs("'\n\n_mgc_options() {\n    case $1 in\n", f);
    for (size_t i = 0; i < take_count; i++) {
        fprintf(f, "    '%s') echo '", takes[i].name);
        bash_names(f, mgc_options, mgc_option_count, takes[i].name);
        fputs("' ;;\n", f);
    }
    fputs("    esac\n}\n\n_mgc_value() {\n    case $1 in\n", f);
    bash_values(f, mgc_options, mgc_option_count, devices);
    fputs("    esac\n}\n\n_mgc_train_value() {\n    case $1 in\n", f);
    bash_values(f, train_options, train_option_count, devices);
    fputs("    esac\n}\n\n", f);
    fputs(bash_rest, f);
    fputs("complete -F _mgc_train", f);
    for (size_t i = 0; i < PROGRAMS; i++)
        fprintf(f, " %s", programs[i]);
    fputs("\n", f);
    return close_page(f);
}

/* ---- zsh ------------------------------------------------------------------------------------- */

static void zsh_option(FILE *f, const Entry *e, bool letter, const char *devices)
{
    const char kind = argument_kind(e);
    fprintf(f, " \\\n        '%s", e->repeats ? "*" : "");
    if (letter)
        fprintf(f, "-%c%s", e->letter, e->value == VALUE_flag ? "" : "+");
    else
        fprintf(f, "--%s%s", e->name,
                e->value == VALUE_flag    ? ""
                : e->value == VALUE_maybe ? "=-"
                                          : "=");
    fputs("[", f);
    quoted(f, help_of(e), "[]:\\", "'\\''");
    fputs("]", f);
    if (e->value != VALUE_flag) {
        fputs(e->value == VALUE_maybe ? "::" : ":", f);
        quoted(f, e->argument, "[]:\\", "'\\''");
        fputs(":", f);
        if (has_choices(e)) {
            fputs("(", f);
            choices(f, e->argument);
            fputs(")", f);
        } else if (kind == 'D')
            fprintf(f, "{_values device %s; _files -g \"*.json\"}", devices);
        else if (kind)
            fputs(kind == 'd' ? "_directories" : "_files", f);
    }
    fputs("'", f);
}

static void zsh_options(FILE *f, const Entry *e, size_t n, const char *command, const char *devices)
{
    fputs("_arguments", f);
    for (size_t i = 0; i < n; i++)
        if (!command || command_takes(command, e[i].name)) {
            if (e[i].letter)
                zsh_option(f, &e[i], true, devices);
            zsh_option(f, &e[i], false, devices);
        }
}

static bool write_zsh(const char *to, const char *devices)
{
    FILE *f = open_page(to, "_mgc");
    if (!f)
        return false;
    fputs("#compdef mgc", f);
    for (size_t i = 0; i < PROGRAMS; i++)
        fprintf(f, " %s", programs[i]);
    fputs(
        "\n# zsh completion for mgc, and for programs that it writes, under their usual names.\n\n"
        "_mgc_train() {\n    ",
        f);
    zsh_options(f, train_options, train_option_count, NULL, devices);
    fputs("\n}\n\n_mgc_codes() {\n    compadd --", f);
    for (size_t i = 0; i < code_count; i++)
        fprintf(f, " MG%04d", codes[i].number);
    fputs("\n    _files\n}\n\n_mgc_first() {\n    local -a commands\n    commands=(", f);
    for (size_t i = 0; i < form_count; i++)
        if (!i || strcmp(forms[i].name, forms[i - 1].name)) {
            fprintf(f, "\n        '%s:", forms[i].name);
            quoted(f, forms[i].help, ":\\", "'\\''");
            fputs("'", f);
        }
    fputs(")\n    _describe command commands\n    _files -g '*.mg'\n}\n\n"
          "_mgc_compile() {\n    ",
          f);
    zsh_options(f, mgc_options, mgc_option_count, "", devices);
    fputs(" \\\n        '1:model or command:_mgc_first' '*:file:_files'\n}\n\n"
          "_mgc_command() {\n    if (( CURRENT > 2 )); then\n"
          "        local command=$words[2]\n        case $command in\n",
          f);
    for (size_t i = 0; i < take_count; i++)
        if (*takes[i].name) {
            fprintf(f, "        %s)\n        shift words\n        (( CURRENT-- ))\n        ",
                    takes[i].name);
            zsh_options(f, mgc_options, mgc_option_count, takes[i].name, devices);
            fprintf(f, " \\\n        '*:file:%s'\n        return ;;\n",
                    strcmp(takes[i].name, "explain") ? "_files" : "_mgc_codes");
        }
    fputs("        esac\n    fi\n    _mgc_compile\n}\n\n"
          "if [[ $service == mgc ]]; then _mgc_command \"$@\"; else _mgc_train \"$@\"; fi\n",
          f);
    return close_page(f);
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_option(FILE *f, const char *start, const Entry *e, const char *devices)
{
    const char kind = argument_kind(e);
    fprintf(f, "%s -l %s", start, e->name);
    if (e->letter)
        fprintf(f, " -s %c", e->letter);
    if (has_choices(e)) {
        fprintf(f, "%s -a '", e->value == VALUE_maybe ? " -f" : " -x");
        choices(f, e->argument);
        fputs("'", f);
    } else if (e->value == VALUE_needs && kind == 'd')
        fputs(" -x -a '(__fish_complete_directories)'", f);
    else if (e->value == VALUE_needs && kind == 'D')
        fprintf(f, " -r -a '%s'", devices);
    else if (e->value == VALUE_needs)
        fputs(kind ? " -r" : " -x", f);
    fputs(" -d '", f);
    quoted(f, help_of(e), "\\", "\\'");
    fputs("'\n", f);
}

static bool write_fish(const char *to, const char *devices)
{
    char start[128];
    FILE *f = open_page(to, "mgc.fish");
    if (!f)
        return false;
    fputs("# fish completion for mgc, and for programs that it writes, under their usual names.\n"
          "set -g __mgc_commands",
          f);
    for (size_t i = 0; i < take_count; i++)
        if (*takes[i].name)
            fprintf(f, " %s", takes[i].name);
    fputs("\n", f);
    for (size_t i = 0; i < form_count; i++) {
        fprintf(f,
                "complete -c mgc -n 'not __fish_seen_subcommand_from $__mgc_commands' -a %s -d '",
                forms[i].name);
        quoted(f, forms[i].help, "\\", "\\'");
        fputs("'\n", f);
    }
    fputs("complete -c mgc -n '__fish_seen_subcommand_from explain' -a '", f);
    for (size_t i = 0; i < code_count; i++)
        fprintf(f, "%sMG%04d", i ? " " : "", codes[i].number);
    fputs("'\n", f);
    for (size_t k = 0; k < take_count; k++)
        for (size_t i = 0; i < mgc_option_count; i++)
            if (command_takes(takes[k].name, mgc_options[i].name)) {
                snprintf(start, sizeof start, "complete -c mgc -n '%s%s'",
                         *takes[k].name ? "__fish_seen_subcommand_from "
                                        : "not __fish_seen_subcommand_from $__mgc_commands",
                         takes[k].name);
                fish_option(f, start, &mgc_options[i], devices);
            }
    for (size_t p = 0; p < PROGRAMS; p++)
        for (size_t i = 0; i < train_option_count; i++) {
            snprintf(start, sizeof start, "complete -c %s", programs[p]);
            fish_option(f, start, &train_options[i], devices);
        }
    return close_page(f);
}

bool write_completions(const char *to, const char *devices)
{
    return write_bash(to, devices) && write_zsh(to, devices) && write_fish(to, devices);
}
