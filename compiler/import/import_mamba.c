/* import_mamba.c - the .mg text of Mamba 2's mixer (Dao, Gu, 2024), and of the models that have it:
 * mamba2 in all layers, bamba beside attention. */
#include "compiler/import/import.h"

#include <inttypes.h>

void import_mixer_dims(const HfModel *h, FILE *out)
{
    fprintf(out,
            "dim lanes = %" PRId64 ", lane = %" PRId64 ", state = %" PRId64 ", tap = %" PRId64
            ", one = 1\n"
            "dim inner = lanes * lane, mixed = inner + 2 * state, all = inner + mixed + lanes\n",
            h->lanes, h->lane, h->state, h->taps);
}

/* The file's kernel begins with the oldest position. */
static void write_mixer(const HfModel *h, FILE *out)
{
    fprintf(out,
            "block conv(x[mixed]) {\n"
            "    w : param[mixed, one, tap] ~ uniform(-1 / sqrt(tap), 1 / sqrt(tap)) as "
            "\"weight\"\n"
            "    b : param[mixed] = 0 as \"bias\"\n"
            "    return silu(sum(x[seq = seq + tap - %" PRId64
            "] * w[one = 0], over tap) + b)\n}\n\n",
            h->taps - 1);
    fputs("block mixer(x[hidden]) {\n"
          "    win : param[hidden, all] ~ normal(std) as \"in_proj.weight\" [all, hidden]\n"
          "    bd : param[lanes] = 1 as \"dt_bias\"\n"
          "    rate : param[lanes] = log(1 + index(lanes)) as \"A_log\"\n"
          "    skip : param[lanes] = 1 as \"D\"\n"
          "    gain : param[lanes, lane] = 1 as \"norm.weight\" [(lanes lane)]\n"
          "    wo : param[lanes, lane, hidden] ~ normal(std / sqrt(2 * layers)) as "
          "\"out_proj.weight\" [hidden, (lanes lane)]\n"
          "    p = x @ win over hidden\n"
          "    z = p[all = 0 .. inner][inner -> (lanes, lane)]\n"
          "    c = conv(p[all = inner .. inner + mixed -> mixed]) as \"conv1d\"\n"
          "    u = c[mixed = 0 .. inner][inner -> (lanes, lane)]\n"
          "    k = c[mixed = inner .. inner + state -> state]\n"
          "    q = c[mixed = inner + state .. inner + 2 * state -> state]\n"
          "    r = p[all = inner + mixed .. all -> lanes] + bd\n"
          "    dt = log(1 + exp(-abs(r))) + max(r, 0)\n"
          "    h = expand(0, over (batch, lanes, lane, state))\n"
          "    scan seq {\n"
          "        h = exp(-exp(rate) * dt) * h + dt * u * k\n"
          "        read = q @ h over state\n"
          "    }\n"
          "    g = (read + skip * u) * silu(z)\n"
          "    return rmsnorm(g, gain, over (lanes, lane), eps = eps) @ wo over (lanes, lane)\n"
          "}\n\n",
          out);
}

static void write_end(const HfModel *h, FILE *out, const char *norm)
{
    if (!h->tied)
        fputs("    unembed : param[vocab, hidden] ~ normal(std) as \"lm_head.weight\"\n", out);
    fprintf(out,
            "    loss = cross_entropy((norm(x) as \"%s\") @ %s over hidden, next(tokens))\n}\n",
            norm, h->tied ? "embed" : "unembed");
}

void import_write_mamba2(const HfModel *h, FILE *out)
{
    import_write_norm(out);
    write_mixer(h, out);
    fputs("model mamba2(tokens[batch, seq] : token(vocab)) {\n"
          "    embed : param[vocab, hidden] ~ normal(std) as \"backbone.embeddings.weight\"\n"
          "    x = embed[tokens]\n"
          "    repeat layers as \"backbone.layers.{}\" {\n"
          "        x = x + mixer(norm(x) as \"norm\") as \"mixer\"\n    }\n",
          out);
    write_end(h, out, "backbone.norm_f");
}

/* The layers that attend, as a number with the iteration l: (l == 9) + (l == 18). */
static const char *attending(const HfModel *h)
{
    const char *text = "";
    size_t i;
    json_t *layer;
    json_array_foreach(h->attending, i, layer)
        text = arena_printf(h->s->arena, "%s%s(l == %" JSON_INTEGER_FORMAT ")", text,
                            *text ? " + " : "", json_integer_value(layer));
    return text;
}

void import_write_bamba(const HfModel *h, FILE *out)
{
    const char *chosen = attending(h);
    import_write_norm(out);
    if (*chosen) {
        import_write_attention(h, out);
        fputc('\n', out);
    }
    write_mixer(h, out);
    import_write_mlp(h, out);
    fputs("model bamba(tokens[batch, seq] : token(vocab)) {\n"
          "    embed : param[vocab, hidden] ~ normal(std) as \"model.embed_tokens.weight\"\n"
          "    x = embed[tokens]\n",
          out);
    fprintf(out, "    repeat layers%s as \"model.layers.{}\" {\n", *chosen ? " at l" : "");
    if (*chosen)
        fprintf(out,
                "        h = norm(x) as \"input_layernorm\"\n"
                "        x = x + select(%s, attend(h) as \"self_attn\", mixer(h) as \"mamba\")\n",
                chosen);
    else
        fputs("        x = x + mixer(norm(x) as \"input_layernorm\") as \"mamba\"\n", out);
    fputs("        x = x + swiglu(norm(x) as \"pre_ff_layernorm\") as \"feed_forward\"\n    }\n",
          out);
    write_end(h, out, "model.final_layernorm");
}
