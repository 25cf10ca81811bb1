/* prompts.c - --prompts: texts that a model goes on with while it trains, for the log.
 *
 * A line of the file is a prompt; one that begins with a quote is a JSON string, which may hold
 * ends of lines. Text k draws by seed + k at each time, so that what changes from one to the next
 * is the model. The parameters are those of evaluation; the next step has the same bits as without.
 */
#include "runtime/checkpoint/followers.h"
#include "runtime/prompts.h"
#include "runtime/sample.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/json.h"

enum { LARGEST = 1 << 20, PROMPTS = 64, TOKENS = 64 };

struct rt_prompts {
    char *text[PROMPTS];
    int n;
};

static char *read_file(const char *path)
{
    size_t n;
    char *text = rt_file_need("--prompts ", path, LARGEST, &n);
    if (strlen(text) != n)
        rt_die(RT_BAD_DATA, "--prompts %s holds a byte of 0: it is no text", path);
    return text;
}

static char *prompt_of(const char *path, int line, const char *text, size_t n)
{
    rt_json j;
    if (*text != '"')
        return rt_printf("%.*s", (int)n, text);
    rt_json_begin(&j, text, n);
    if (!rt_json_string(&j) || !rt_json_end(&j))
        rt_die(RT_BAD_DATA, "--prompts %s:%d: a line that begins with a quote is a JSON string: %s",
               path, line, j.error);
    char *prompt = rt_printf("%s", j.text);
    rt_json_free(&j);
    return prompt;
}

rt_prompts *rt_prompts_open(mg_run *r)
{
    const char *path = r->options->prompts;
    if (!path)
        return NULL;
    rt_prompts *p = rt_alloc(1, sizeof *p);
    char *all = read_file(path);
    int line = 1;
    for (const char *s = all; *s; line++) {
        const size_t n = strcspn(s, "\n");
        if (n && p->n == PROMPTS)
            rt_die(RT_BAD_DATA, "--prompts %s has more than %d prompts", path, PROMPTS);
        if (n)
            rt_prompt_check(r, p->text[p->n++] = prompt_of(path, line, s, n));
        s += n + (s[n] == '\n');
    }
    free(all);
    if (!p->n)
        rt_die(RT_BAD_DATA, "--prompts %s has no line", path);
    return p;
}

void rt_prompts_close(rt_prompts *p)
{
    for (int i = 0; p && i < p->n; i++)
        free(p->text[i]);
    free(p);
}

void rt_prompts_log(mg_run *r)
{
    const rt_prompts *p = r->prompts;
    const int64_t tokens = r->options->sample == RT_UNSET ? TOKENS : r->options->sample,
                  begin = rt_now_ns();
    char *text[PROMPTS];
    int n = 0;
    rt_exchange_averages(r);
    for (; n < p->n && !rt_signal_stop(); n++)
        text[n] = rt_sample_text(r, p->text[n], n, tokens);
    rt_exchange_averages(r);
    if (!rt_signal_stop()) /* what it cut short is no sample */
        rt_log_samples(r->log, r->state.step, p->text, text, n,
                       (double)(rt_now_ns() - begin) / 1e9);
    while (n > 0)
        free(text[--n]);
}
