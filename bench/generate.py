#!/usr/bin/env python3
"""A token of llama_56m beside transformers' generate with its cache on this processor, and what it costs beside reading the weights.

    bench/generate.py [BUILD] [--sequences 1,8] [--lengths 128,3968] [--tokens 100] [--rounds 3] [--no-torch]

Both are greedy, in float32, on one thread, and take turns. What is said is seconds of the processor for a
token of each sequence, the difference of a longer and a shorter run (other programs on the machine are then not counted, but for
what they take of memory), and the bytes that have to be read for it, weights and caches, beside those that a program that only
reads reads in the same time. --lengths: of prompts; the program has room for 4096 tokens.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LAYERS, HIDDEN, KV, GROUP, HEAD, FFN, VOCAB, ROOM = 8, 512, 4, 2, 64, 1376, 32000, 4096
WEIGHTS = 4 * (LAYERS * (HIDDEN * HEAD * KV * (2 * GROUP + 2) + 3 * HIDDEN * FFN) + VOCAB * HIDDEN)
READER = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef float v __attribute__((vector_size(64)));
static v *x, out[64];
static long n, threads;
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static void *work(void *p)
{
    long k = (long)p;
    v s[8] = {0};
    for (v *a = x + n / threads * k, *end = a + n / threads / 8 * 8; a < end; a += 8)
        for (int j = 0; j < 8; j++) s[j] += a[j];
    for (int j = 1; j < 8; j++) s[0] += s[j];
    out[k] = s[0];
    return 0;
}
int main(int argc, char **argv)
{
    (void)argc;
    threads = atol(argv[1]), n = 3 << 20;
    x = aligned_alloc(64, n * sizeof *x);
    for (long i = 0; i < 16 * n; i++) ((volatile float *)x)[i] = 1;
    double best = 0;
    for (int r = 0; r < 8; r++) {
        pthread_t t[64];
        double from = cpu();
        for (long k = 0; k < threads; k++) pthread_create(&t[k], 0, work, (void *)k);
        for (long k = 0; k < threads; k++) pthread_join(t[k], 0);
        double rate = n * sizeof *x / (cpu() - from);
        best = rate > best ? rate : best;
    }
    printf("%g %g\n", best, (double)out[0][0]);
}
"""


def prompt(sequence, length):
    return [(i * 7919 + 17 * sequence) % VOCAB for i in range(length)]


class Program:
    def __init__(self, build, where, sequences):
        self.path, self.sequences = f"{where}/gen{sequences}", sequences
        subprocess.run([f"{build}/bin/mgc", f"{ROOT}/models/llama_56m.mg", "-D", f"seq={ROOM}", "--generate", "--sequences",
                        str(sequences), "-o", self.path], check=True, stdout=subprocess.DEVNULL)

    def run(self, length, tokens):
        args = [self.path, "--sample", str(tokens), "--temperature", "0", "--threads", "1"]
        for k in range(self.sequences):
            args += ["--prompt", " ".join(map(str, prompt(k, length)))]
        was = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(args, check=True, stdout=subprocess.DEVNULL)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        return now.ru_utime + now.ru_stime - was.ru_utime - was.ru_stime

    def token(self, length, tokens):
        return (self.run(length, 20 + tokens) - self.run(length, 20)) / tokens


class Transformers:
    def __init__(self, sequences):
        import torch
        import transformers
        self.torch, self.sequences = torch, sequences
        torch.set_num_threads(1)
        config = transformers.LlamaConfig(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
                                          num_attention_heads=KV * GROUP, num_key_value_heads=KV, max_position_embeddings=ROOM,
                                          tie_word_embeddings=False, pad_token_id=0, eos_token_id=None)
        self.model = transformers.LlamaForCausalLM(config).eval()

    def run(self, length, tokens):
        ids = self.torch.tensor([prompt(k, length) for k in range(self.sequences)])
        t = time.process_time()
        with self.torch.no_grad():
            self.model.generate(ids, attention_mask=self.torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
        return time.process_time() - t

    def token(self, length, tokens):
        return (self.run(length, 20 + tokens) - self.run(length, 20)) / tokens


def reader(where):
    with open(f"{where}/reader.c", "w") as f:
        f.write(READER)
    subprocess.run(["cc", "-O2", "-march=native", "-pthread", "-o", f"{where}/reader", f"{where}/reader.c"], check=True)
    return lambda: float(subprocess.run([f"{where}/reader", "1"], check=True, capture_output=True, text=True).stdout.split()[0])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=f"{ROOT}/build")
    p.add_argument("--sequences", default="1,8")
    p.add_argument("--lengths", default="128,3968")
    p.add_argument("--tokens", type=int, default=100)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--no-torch", action="store_true")
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as where:
        reads = reader(where)
        for sequences in map(int, o.sequences.split(",")):
            ours = Program(o.build, where, sequences)
            theirs = None if o.no_torch else Transformers(sequences)
            for length in map(int, o.lengths.split(",")):
                mine, other, rate = [], [], []
                for _ in range(o.rounds):
                    rate.append(reads())
                    mine.append(ours.token(length, o.tokens))
                    if theirs:
                        other.append(theirs.token(length, o.tokens))
                keys = length + 20 + o.tokens / 2
                cache = 4 * 2 * LAYERS * KV * HEAD * keys * sequences
                seconds = statistics.median(mine)
                share = (WEIGHTS + cache) / seconds / statistics.median(rate)
                line = (f"{sequences} sequences after {length} tokens: {seconds * 1e3:.2f} ms of the processor a token of each; "
                        f"{(WEIGHTS + cache) / 1e6:.0f} MB are {share:.0%} of what is read in that time")
                if theirs:
                    ratios = [b / a for a, b in zip(mine, other)]
                    line += f"; transformers {statistics.median(other) * 1e3:.2f} ms, {statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
                print(line, f"(load {os.getloadavg()[0]:.1f})", flush=True)


if __name__ == "__main__":
    main()
