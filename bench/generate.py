#!/usr/bin/env python3
"""A token of a model beside transformers' generate with its cache on this processor, and what it costs beside reading the weights.

    bench/generate.py [BUILD] [--model llama_56m|qwen2_0_5b] [--precision f32|bf16] [--sequences 1,8] [--lengths 128,3968]
                      [--window 512] [--tokens 100] [--rounds 3] [--threads 1] [--no-torch]

Both are greedy, in the same precision, on as many threads, and take turns; weights are random. What is said is seconds for a
token of each sequence, the difference of a longer and a shorter run, and the bytes that have to be read for it, weights and caches,
beside those that a program that only reads reads in the same time. On one thread seconds are those of the processor, without the
system: other programs on the machine are then not counted, but for what they take of memory. On several they are those of a clock.
What only reads has 16 streams of 64 MiB for each thread, on huge pages. --lengths: of prompts; the program has room for 4096 tokens. --window: of the attention of all layers (llama_56m),
beside Mistral's: then a token costs the same after any length.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
ROOM = 4096
# layers, hidden, kv_heads, group, head, ffn, vocab, whether the head is the table of tokens
SHAPES = {"llama_56m": (8, 512, 4, 2, 64, 1376, 32000, False), "qwen2_0_5b": (24, 896, 2, 7, 64, 4864, 151936, True)}
READER = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
typedef float v __attribute__((vector_size(64)));
enum { STREAMS = 16 };
static v *x, out[64];
static long n, threads;
static double now(void)
{
    struct timespec t;
    clock_gettime(threads > 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static void *work(void *p)
{
    long k = (long)p;
    v s[8] = {0};
    v *from = x + n / threads * k;
    long each = n / threads / STREAMS / 8 * 8;
    for (long i = 0; i < each; i += 8)
        for (int stream = 0; stream < STREAMS; stream++)
            for (int j = 0; j < 8; j++) s[j] += from[stream * each + i + j];
    for (int j = 1; j < 8; j++) s[0] += s[j];
    out[k] = s[0];
    return 0;
}
int main(int argc, char **argv)
{
    (void)argc;
    threads = atol(argv[1]), n = threads << 24;
    x = aligned_alloc(2 << 20, n * sizeof *x);
    madvise(x, n * sizeof *x, MADV_HUGEPAGE);
    for (long i = 0; i < 16 * n; i++) ((volatile float *)x)[i] = 1;
    double best = 0;
    for (int r = 0; r < 4; r++) {
        pthread_t t[64];
        double from = now();
        for (long k = 0; k < threads; k++) pthread_create(&t[k], 0, work, (void *)k);
        for (long k = 0; k < threads; k++) pthread_join(t[k], 0);
        double rate = n * sizeof *x / (now() - from);
        best = rate > best ? rate : best;
    }
    printf("%g %g\n", best, (double)out[0][0]);
}
"""


class Shape:
    def __init__(self, model, precision, window):
        self.model, self.precision, self.each, self.window = model, precision, 2 if precision == "bf16" else 4, window or ROOM
        self.layers, self.hidden, self.kv, self.group, self.head, self.ffn, self.vocab, self.tied = SHAPES[model]
        heads = self.kv * (2 * self.group + 2)
        self.weights = self.each * (self.layers * (self.hidden * self.head * heads + 3 * self.hidden * self.ffn) + self.vocab * self.hidden)

    def cache(self, keys):
        return self.each * 2 * self.layers * self.kv * self.head * min(keys, self.window)

    def prompt(self, sequence, length):
        return [(i * 7919 + 17 * sequence) % self.vocab for i in range(length)]


def clock(threads, ours):
    """Seconds so far: of a clock, or of the processor, by programs that have ended or by this one."""
    return time.monotonic() if threads > 1 else resource.getrusage(resource.RUSAGE_CHILDREN if ours else resource.RUSAGE_SELF).ru_utime


class Program:
    def __init__(self, build, where, shape, sequences, threads):
        self.path, self.shape, self.sequences, self.threads = f"{where}/gen{sequences}", shape, sequences, threads
        source = f"{where}/{shape.model}.mg"
        with open(f"{ROOT}/models/{shape.model}.mg") as f, open(source, "w") as to:
            to.write(f.read().replace(", causal)", f", causal, window = {shape.window})" if shape.window < ROOM else ", causal)"))
        subprocess.run([f"{build}/bin/mgc", source, "-D", f"seq={ROOM}", "--precision", shape.precision, "--generate",
                        "--sequences", str(sequences), "-o", self.path], check=True, stdout=subprocess.DEVNULL)

    def run(self, length, tokens):
        args = [self.path, "--sample", str(tokens), "--temperature", "0", "--threads", str(self.threads)]
        for k in range(self.sequences):
            args += ["--prompt", " ".join(map(str, self.shape.prompt(k, length)))]
        was = clock(self.threads, True)
        subprocess.run(args, check=True, stdout=subprocess.DEVNULL)
        return clock(self.threads, True) - was

    def token(self, length, tokens):
        return (self.run(length, 20 + tokens) - self.run(length, 20)) / tokens


class Transformers:
    def __init__(self, shape, sequences, threads):
        import torch
        import transformers
        self.torch, self.shape, self.sequences, self.threads = torch, shape, sequences, threads
        torch.set_num_threads(threads)
        sizes = dict(vocab_size=shape.vocab, hidden_size=shape.hidden, intermediate_size=shape.ffn, num_hidden_layers=shape.layers,
                     num_attention_heads=shape.kv * shape.group, num_key_value_heads=shape.kv, max_position_embeddings=ROOM,
                     tie_word_embeddings=shape.tied, pad_token_id=0, eos_token_id=None)
        if shape.window < ROOM:
            one = transformers.MistralForCausalLM(transformers.MistralConfig(**sizes, sliding_window=shape.window))
        elif shape.tied:
            one = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes))
        else:
            one = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
        self.model = one.eval().to(torch.bfloat16 if shape.precision == "bf16" else torch.float32)

    def run(self, length, tokens):
        ids = self.torch.tensor([self.shape.prompt(k, length) for k in range(self.sequences)])
        was = clock(self.threads, False)
        with self.torch.no_grad():
            self.model.generate(ids, attention_mask=self.torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
        return clock(self.threads, False) - was

    def token(self, length, tokens):
        return (self.run(length, 20 + tokens) - self.run(length, 20)) / tokens


def reader(where, threads):
    with open(f"{where}/reader.c", "w") as f:
        f.write(READER)
    subprocess.run(["cc", "-O2", "-march=native", "-pthread", "-o", f"{where}/reader", f"{where}/reader.c"], check=True)
    return lambda: float(subprocess.run([f"{where}/reader", str(threads)], check=True, capture_output=True, text=True).stdout.split()[0])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=f"{ROOT}/build")
    p.add_argument("--model", default="llama_56m", choices=SHAPES)
    p.add_argument("--precision", default="f32", choices=("f32", "bf16"))
    p.add_argument("--sequences", default="1,8")
    p.add_argument("--lengths", default="128,3968")
    p.add_argument("--tokens", type=int, default=100)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--window", type=int)
    p.add_argument("--no-torch", action="store_true")
    o = p.parse_args()
    shape = Shape(o.model, o.precision, o.window)
    with tempfile.TemporaryDirectory() as where:
        reads = reader(where, o.threads)
        for sequences in map(int, o.sequences.split(",")):
            ours = Program(o.build, where, shape, sequences, o.threads)
            theirs = None if o.no_torch else Transformers(shape, sequences, o.threads)
            for length in map(int, o.lengths.split(",")):
                mine, other, rate = [], [], []
                for _ in range(o.rounds):
                    rate.append(reads())
                    mine.append(ours.token(length, o.tokens))
                    if theirs:
                        other.append(theirs.token(length, o.tokens))
                keys = length + 20 + o.tokens / 2
                all_bytes = shape.weights + shape.cache(keys) * sequences
                seconds = statistics.median(mine)
                share = all_bytes / seconds / statistics.median(rate)
                line = (f"{sequences} sequences after {length} tokens: {seconds * 1e3:.2f} ms a token of each; "
                        f"{all_bytes / 1e6:.0f} MB are {share:.0%} of what is read in that time")
                if theirs:
                    ratios = [b / a for a, b in zip(mine, other)]
                    line += f"; transformers {statistics.median(other) * 1e3:.2f} ms, {statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
                print(line, f"(load {os.getloadavg()[0]:.1f})", flush=True)


if __name__ == "__main__":
    main()
