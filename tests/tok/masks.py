"""Masks of conversations, by words that say whose they are: masks.py DIR [N].

For each template of DIR (*.jinja), N (12) random conversations go through mgc tok with a tokenizer of
bytes. Every word of a conversation begins with a letter for its role. In the tokens that are learnt
there is no word of a user, a system or a tool; every word of an answer that the template writes is learnt;
and nothing that is learnt lies before the first word of an answer by more than a header without words.
"""

import array
import glob
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MGC = os.path.join(os.environ.get("MGC_BUILD", os.path.join(HERE, "../../build")), "mgc")


def byte_characters():
    out, n = [], 256
    for b in range(256):
        itself = 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE
        out.append(chr(b if itself else n))
        n += not itself
    return out


def byte_tokenizer(added):
    """Ids below 256 are bytes."""
    return {"model": {"type": "BPE", "vocab": {c: b for b, c in enumerate(byte_characters())}, "merges": []},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            "added_tokens": [{"id": 256 + i, "content": c, "special": True} for i, c in enumerate(added)]}


def read_corpus(out, weights):
    """Of each document its ids and its weights."""
    with open(out + ".idx", "rb") as f:
        index = f.read()
    (n,) = struct.unpack_from("<Q", index, 18)
    lengths = array.array("i", index[34:34 + 4 * n])
    with open(out + ".bin", "rb") as f:
        ids = array.array("H", f.read())
    with open(weights, "rb") as f:
        weights = f.read()
    documents, at = [], 0
    for k in lengths:
        documents.append((list(ids[at:at + k]), weights[at:at + k]))
        at += k
    return documents


def words(r, letter, least=1):
    return " ".join(f"{letter}{r.randrange(10**6):06d}q" for _ in range(r.randrange(least, 5)))


def conversation(r):
    messages = [{"role": "system", "content": words(r, "s")}] if r.random() < 0.4 else []
    tools = r.random() < 0.3
    for _ in range(r.randrange(1, 4)):
        messages.append({"role": "user", "content": words(r, "u")})
        if tools and r.random() < 0.7:
            messages.append({"role": "assistant", "content": "", "tool_calls": [{
                "id": "abcdefghi", "type": "function",
                "function": {"name": "find", "arguments": {"city": words(r, "a")}}}]})
            messages.append({"role": "tool", "content": words(r, "t"), "name": "find", "tool_call_id": "abcdefghi"})
        thought = f"<think>\n{words(r, 'h')}\n</think>\n\n" if r.random() < 0.2 else ""
        messages.append({"role": "assistant", "content": thought + words(r, "a")})
    record = {"messages": messages}
    if tools:
        record["tools"] = [{"type": "function", "function": {
            "name": "find", "description": "finds", "parameters": {
                "type": "object", "properties": {"city": {"type": "string", "description": "where"}}, "required": []}}}]
    return record


def check(ids, weights, tokens):
    """What is wrong with a mask, or None."""
    learnt = b"".join((bytes([i]) if i < 256 else tokens[i - 256].encode()) if w else b"\0"
                      for i, w in zip(ids, weights, strict=True)).decode(errors="replace")
    whole = b"".join(bytes([i]) if i < 256 else tokens[i - 256].encode() for i in ids).decode()
    if re.search(r"[sut]\d{6}q", learnt):
        return "a word of a user, a system or a tool is learnt"
    answers = re.findall(r"a\d{6}q", whole)
    if answers != re.findall(r"a\d{6}q", learnt):
        return "a word of an answer is not learnt"
    return None if any(weights) else "nothing is learnt"


def main():
    folder, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 12
    total = {"right": 0, "wrong": 0, "refused": 0}
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        with open(path, encoding="utf-8") as f:
            template = f.read()
        added = sorted(set(re.findall(r"<[|｜][^|｜<>\n]{1,40}[|｜]>|</?think>|</?s>|\[/?INST\]|<\w+_of_\w+>|<turn\|>|<\|turn>", template))
                       | {"</s>", "<s>"})
        r, said, count = random.Random(7), "", {"right": 0, "wrong": 0, "refused": 0}
        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/tokenizer.json", "w", encoding="utf-8") as f:
                json.dump(byte_tokenizer(added), f)
            with open(f"{d}/tokenizer_config.json", "w", encoding="utf-8") as f:
                json.dump({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": template}, f)
            for _ in range(n):
                record = conversation(r)
                with open(f"{d}/a.jsonl", "w", encoding="utf-8") as f:
                    f.write(json.dumps(record) + "\n")
                p = subprocess.run([MGC, "tok", "--tokenizer", f"{d}/tokenizer.json", "-o", f"{d}/o", f"{d}/a.jsonl"],
                                   capture_output=True, text=True)
                if p.returncode == 1:
                    count["refused"] += 1
                    said = said or p.stderr.split("error")[1].split("\n")[0][:150]
                    continue
                if p.returncode:
                    raise RuntimeError(p.stderr)
                ((ids, weights),) = read_corpus(f"{d}/o", f"{d}/o.bin.weights")
                wrong = check(ids, weights, added)
                count["wrong" if wrong else "right"] += 1
                if wrong:
                    said = f"{wrong}: {json.dumps(record)}"
        total = {k: total[k] + v for k, v in count.items()}
        print(f"| {os.path.basename(path)} | {' | '.join(f'{k} {v}' for k, v in count.items())} | {said}", flush=True)
    print(total)


if __name__ == "__main__":
    main()
