"""Random conversations, and what transformers makes of them.

chat.py --compare RENDER DIR [N]: renders N (500) random conversations with every template (*.jinja) of
DIR by transformers and by RENDER (the test program tests/tok/render.c), and prints for each template how
many have the same text, differ, are refused by both, or by one of the two only.
chat.py --golden: writes golden/chat.json, templates of the project's own with contexts and texts, for
tests/e2e/test_chat.py, which needs neither transformers nor Jinja.
"""

import datetime
import glob
import json
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = ("the a of light stone water river green 7 3.14 Zürich 東京 naïve emoji 🙂 \"quoted\" it's <b> & \\n {x} "
         "```code``` <think> </think> <|im_end|> [INST] \u2028 tab\there").split(" ")
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Says how the weather is — 'now'.", "parameters": {
            "type": "object", "properties": {
                "city": {"type": "string", "description": "The city, as \"Paris\"", "enum": ["Paris", "Zürich"]},
                "days": {"type": "integer", "description": "How many", "default": 3}},
            "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "add", "description": "Adds", "parameters": {
            "type": "object", "properties": {
                "a": {"type": "number"}, "list": {"type": "array", "items": {"type": "string"}},
                "o": {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}},
            "required": []}, "return": {"type": "number", "description": "the sum"}}},
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}},
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def text(r):
    t = " ".join(r.choice(WORDS) for _ in range(r.randrange(0, 14)))
    lines = t.replace(" the ", "\n").replace(" a ", "\n\n")
    if r.random() < 0.2:
        lines = r.choice([" ", "\n", "\t\n ", "\u00a0"]) + lines + r.choice([" ", "\n\n", ""])
    return lines


def arguments(r):
    return r.choice([{}, {"city": text(r)}, {"a": r.choice([1, 2.5, -3e22, 1e-7, 0.1, True, None]), "list": ["x", text(r)]},
                     {"o": {"x": None, "deep": [[], {}, [1, {"k": "é"}]]}}])


def call(r, as_text):
    a = arguments(r)
    return {"id": f"call{r.randrange(10**9):09d}"[:9], "type": "function",
            "function": {"name": r.choice(["get_weather", "add", "now"]), "arguments": json.dumps(a) if as_text else a}}


def conversation(r, kind=None):
    """Messages, and perhaps tools; of many kinds, among them such that templates refuse."""
    kind = kind or r.choice(["plain", "plain", "plain", "tools", "thinking", "odd"])
    messages = []
    if r.random() < 0.5:
        messages.append({"role": "system", "content": text(r)})
    for _ in range(r.randrange(1, 4)):
        messages.append({"role": "user", "content": text(r)})
        if kind == "tools" and r.random() < 0.7:
            calls = [call(r, r.random() < 0.2) for _ in range(1 if r.random() < 0.7 else 2)]
            m = {"role": "assistant", "content": r.choice(["", text(r)]), "tool_calls": calls}
            if r.random() < 0.2:
                m["content"] = None
            messages.append(m)
            for c in calls:
                messages.append({"role": "tool", "content": r.choice([text(r), '{"t": 3}']),
                                 "name": c["function"]["name"], "tool_call_id": c["id"]})
        m = {"role": "assistant", "content": text(r)}
        if kind == "thinking" and r.random() < 0.6:
            if r.random() < 0.5:
                m["content"] = "<think>\n" + text(r) + "\n</think>\n\n" + m["content"]
            else:
                m["reasoning_content"] = text(r)
        messages.append(m)
    if kind == "odd":
        at = r.randrange(len(messages))
        odd = r.random()
        if odd < 0.3:
            messages.insert(at, dict(messages[at]))
        elif odd < 0.5:
            del messages[at]
        elif odd < 0.7:
            messages[at]["content"] = [{"type": "text", "text": text(r)}, {"type": "text", "text": text(r)}]
        elif odd < 0.85:
            messages[at]["role"] = r.choice(["developer", "human", "tool", "ipython"])
        else:
            messages[at].pop("content", None)
    return messages, (TOOLS[:r.randrange(1, 4)] if kind == "tools" and r.random() < 0.9 else None)


def contexts(n, seed):
    r = random.Random(seed)
    out = []
    for _ in range(n):
        messages, tools = conversation(r)
        cut = r.randrange(len(messages)) if r.random() < 0.2 else len(messages)
        out.append({"messages": messages[:cut], "tools": tools, "documents": None,
                    "add_generation_prompt": r.random() < 0.3, **TOKENS})
    return out


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(1700000000, tz)


def theirs(template, lines):
    """Of each context the text and the parts of `generation`; None where it is refused."""
    from transformers.utils import chat_template_utils as utils
    utils.datetime = Frozen
    compiled = utils._compile_jinja_template(template)
    out = []
    for c in lines:
        rest = {k: v for k, v in c.items() if k not in ("messages", "tools", "documents", "add_generation_prompt")}
        try:
            whole, parts = utils._render_with_assistant_indices(
                compiled_template=compiled, messages=c.get("messages"), tools=c.get("tools"), documents=c.get("documents"),
                add_generation_prompt=c.get("add_generation_prompt"), **rest)
            out.append((whole, [[len(whole[:a].encode()), len(whole[:b].encode())] for a, b in parts]))
        except Exception as e:  # noqa: BLE001 of any kind: refused is refused
            out.append(f"{type(e).__name__}: {e}")
    return out


def ours(render, path, lines):
    data = "".join(json.dumps(c) + "\n" for c in lines)
    p = subprocess.run([render, path], input=data, capture_output=True, text=True)
    if p.returncode == 1:
        return json.loads(p.stdout)
    if p.returncode:
        raise RuntimeError(p.stderr[-2000:])
    return [json.loads(line) for line in p.stdout.split("\n") if line]


def compare(render, folder, n):
    lines = contexts(n, 1)
    total = [0, 0, 0, 0, 0]
    reasons = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        name = os.path.basename(path)
        with open(path, encoding="utf-8", newline="") as f:
            template = f.read()
        try:
            a = theirs(template, lines)
        except Exception as e:  # noqa: BLE001
            print(f"| {name} | their parser: {e} | {str(ours(render, path, lines))[:80]}", flush=True)
            continue
        b = ours(render, path, lines)
        if isinstance(b, dict):
            print(f"| {name} | not built: {b['line']}:{b['column']}: {b['error']}", flush=True)
            reasons[b["error"]] = reasons.get(b["error"], 0) + 1
            total[3] += n
            continue
        count = [0, 0, 0, 0, 0]
        said = ""
        for c, x, y in zip(lines, a, b, strict=True):
            if isinstance(x, str):
                k = 2 if "error" in y else 4
                said = said or (k == 4 and f"theirs refuses: {x}")
            elif "error" in y:
                k = 3
                said = said or f"{y['line']}:{y['column']}: {y['error']}"
            else:
                k = 0 if (y["text"], y["generation"]) == x else 1
                if k == 1 and not said:
                    said = f"{json.dumps(c)}\n{x!r}\n{y!r}"
            count[k] += 1
        total = [s + t for s, t in zip(total, count, strict=True)]
        print(f"| {name} | {' | '.join(map(str, count))} | {said}", flush=True)
    print(f"same {total[0]}, differ {total[1]}, refused by both {total[2]}, by mgc only {total[3]}, by transformers only {total[4]}")
    for k, v in sorted(reasons.items()):
        print(v, k)


# Templates of the project's own, of the constructs that published ones are written in.
OWN = [
    "{% for m in messages %}\n  {%- if loop.first %}first{% endif %}\n  {{- m.role }}{{ ', ' if not loop.last }}\n{% endfor %}\n",
    "{% for m in messages %}\n    {% if m['role'] == 'user' %}\nU\n    {% elif m.role in ['assistant', 'system'] %}\nA\n    {% else %}\n"
    "O\n    {%+ endif %}\n{% endfor %} \n",
    "a {#- comment -#} b {# another #}\n c{#+ third +#}\nd\n  {# line #}\n  {% set x = 1 %}\n  {{ x }}\n\n",
    "{%- macro show(x, y='-', z=none) -%}\n[{{ x }}{{ y }}{{ z }}]{%- endmacro -%}{{ show(1) }}{{ show(2, z='q') }}{{ show('a', 'b') }}",
    "{%- macro deep(v) %}{%- if v is mapping %}{{ '{' }}{%- for k, x in v.items() | sort(attribute='0') %}{{ k }}={{ deep(x) }};{%- endfor %}"
    "{{ '}' }}{%- elif v is string %}'{{ v }}'{%- elif v is iterable %}[{%- for x in v %}{{ deep(x) }},{%- endfor %}]{%- else %}{{ v }}"
    "{%- endif %}{%- endmacro %}{% if tools %}{{ deep(tools[0]) }}{% endif %}",
    "{% set ns = namespace(n=0, found=false, out='') %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.n = ns.n + 1 %}"
    "{% set ns.out = ns.out ~ m.role[0] ~ ns.n %}{% endif %}{% endfor %}{{ ns.n }}{{ ns.found }}{{ ns.out }}",
    "{% set x = 'outer' %}{% for m in messages %}{{ x }}{% set x = 'inner' %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 'if' %}{% endif %}{{ x }}",
    "{% for m in messages if m.role != 'system' %}{{ loop.index }}/{{ loop.length }}{{ loop.revindex0 }}{{ loop.previtem.role if loop.previtem "
    "is defined }}{{ (loop.nextitem | default({'role': '-'})).role }} {% else %}none{% endfor %}",
    "{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{% if loop.index0 > 2 %}{% break %}{% endif %}{{ m.role }};{% endfor %}",
    "{% for m in messages[::-1] %}{{ m.role }} {% endfor %}{% for m in messages[1:-1] %}{{ loop.index }}{% endfor %}{{ messages[-1].role }}"
    "{{ messages[99] is defined }}{{ messages[0]['role'][1:] }}{{ messages[0].role[-2:] }}",
    "{% if tools is not none and tools is defined %}{{ tools | tojson }}\n{{ tools | tojson(indent=2) }}\n{{ tools | length }}{% endif %}",
    "{% for t in tools or [] %}{{ t.function.parameters.properties | dictsort | map(attribute='0') | join('|') }}{% for k, v in t.function.items() %}"
    "{{ k }}:{{ v | string | length }},{% endfor %}{% endfor %}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | length }}"
    "{{ messages | rejectattr('role', 'in', ['user', 'tool']) | list | length }}{{ (messages | first).role }}{{ (messages | last).role }}",
    "{% set c %}  block {{ bos_token }}\n {% endset %}[{{ c | trim }}]{{ c | length }}{{ c.strip() == c | trim }}",
    "{% for m in messages %}{{ (m.content or '') | trim | replace('\n', ' / ') | upper if (m.content or '').isascii is not defined else '' }}{% endfor %}",
    "{{ 'a,b,,c'.split(',') }}{{ '  x y  z '.split() }}{{ 'a--b--c'.split('--', 1) }}{{ 'a--b--c'.rsplit('--', 1)[0] }}{{ 'x\ny\r\n'.splitlines() }}",
    "{{ '  pad '.lstrip() }}|{{ '  pad '.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'hello world'.title() }}|{{ 'hello-world it\\'s' | title }}|{{ 'hELLO' | "
    "capitalize }}|{{ 'Straße'.startswith('Str') }}|{{ 'abc'.endswith(('x', 'c')) }}|{{ 'aXbX'.replace('X', '-', 1) }}|{{ 'é'.upper() }}",
    "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7.5 // 2 }} {{ 2 * 'ab' }} {{ [1] + [2, 3] }} {{ (1, 2) + (3,) }} {{ 1 ~ 'x' ~ none }}",
    "{{ 1 < 2 < 3 }}{{ 1 == 1.0 }}{{ true == 1 }}{{ 'a' < 'b' }}{{ 'b' in 'abc' }}{{ 4 not in [1, 2] }}{{ not true or true and false }}{{ 'x' if false }}|"
    "{{ none is none }}{{ nothing is defined }}{{ nothing or 'other' }}{{ nothing | default('d') }}{{ '' | default('e', true) }}",
    "{{ [1, 2.0, 1e20, 1e-7, 0.1, true, none, 'it\\'s \"q\"', 'nl\n\t\\\\', 'é\u200b'] }}{{ {'a': 1, 'b': [], 'c': {}} }}{{ () }}{{ (1,) }}",
    "{{ {'a': [1, {'b': None}], 'é': '\u2028<>&', 'q': '\"\\\\\n\x7f'} | tojson }}{{ {'b': 1, 'a': [ ]} | tojson(indent=4, sort_keys=true) }}"
    "{{ [1, [2]] | tojson(separators=(',', ':')) }}{{ 'é🙂' | tojson(ensure_ascii=true) }}",
    "{{ 'line one\nline two\n\nlast' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent('> ', blank=true) }}",
    "{{ range(3) | list }}{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}{{ dict(a=1) }}{{ [3, 1, 2] | sort }}{{ ['b', 'A', 'a'] | sort | join }}"
    "{{ ['a', 'B', 'A'] | unique | list }}{{ [1, 2, 3] | reverse | list }}{{ 'abc' | reverse }}{{ [3, 1] | min }}{{ '12' | int + 1 }}{{ 'x' | int }}{{ 2.7 | int }}",
    "{{ messages[0].content is string }}{{ messages is sequence }}{{ messages[0] is mapping }}{{ 3 is number }}{{ true is boolean }}{{ 3 is odd }}"
    "{{ 4 is divisibleby(2) }}{{ 3 is integer }}{{ 3.0 is float }}{{ 'a' is in ['a'] }}{{ 1 is eq 1 }}{{ [] is iterable }}{{ true is true }}{{ 1 is true }}",
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<a>' }}{% generation %}{{ m.content }}é{% set inner = 1 %}{% endgeneration %}"
    "{{ inner is defined }}{% else %}{{ m.role }}{% endif %}{% endfor %}",
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{{ m.role }}{% endfor %}",
    "{{ strftime_now('%Y') | length }}{{ '{} and {0}'.format('x') if false else '{}-{}'.format('x', 1) }}{{ '%' }}{{ \"it's\" 'two' }}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}{{ {'a': 1}.get('b', 'none') }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.keys() | list }}"
    "{{ {'x': {'y': 5}}.x.y }}{{ {'items': 3}['items'] }}",
    "{{ messages[0].nothing.more }}", "{{ nothing.more }}", "{{ 1 + 'a' }}", "{{ messages.append(1) }}", "{{ 'a' | unknown }}", "{% if %}",
    "{% for m in messages %}{% set m = 3 %}", "{{ none | length }}", "{{ [1, 2] < [3] if false else 'ok' }}", "{{ 5 | tojson }}{{ 'a\\tb' }}{{ 'c\\x41\\u00e9' }}",
    "\n{{ 'first line is empty' }}\r\nand\rreturns\n\n", "{{- ' x ' -}}   y   {{- 'z' }}   \n\n{%- if true -%}\n\n  w  \n{%- endif %}",
    "{{ ('a' if messages | length > 2 else 'b') ~ (messages | length if tools else '') }}{{ -1 | abs }}{{ - 3 + 5 }}{{ +2 }}",
    "{{ 'a' | safe }}{{ '<b>' | safe ~ '<c>' }}{{ ('<b>' | safe) + '<c>' }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = (1, [2, 3]) %}{{ t[1][0] }}{% for x, y in [(1, 2), [3, 4]] %}{{ x * y }},{% endfor %}",
]


def golden():
    r = random.Random(5)
    some = contexts(12, 9)
    cases = []
    for template in OWN:
        used = [some[0], *r.sample(some[1:], 4)] if "messages" in template or "tools" in template else [some[0]]
        try:
            texts = [None if isinstance(x, str) else x[0] for x in theirs(template, used)]
        except Exception:  # noqa: BLE001 of the parser
            texts = [None] * len(used)
        cases.append({"template": template, "contexts": used, "texts": texts})
    with open(os.path.join(HERE, "golden/chat.json"), "w", encoding="utf-8") as f:
        json.dump(cases, f, indent=0, ensure_ascii=True)
        f.write("\n")


def main():
    if sys.argv[1:2] == ["--compare"]:
        compare(sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 500)
    elif sys.argv[1:] == ["--golden"]:
        golden()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
