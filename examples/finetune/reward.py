"""Rewards of answers, for --reward: the share of capital letters in an answer of bytes. A line of JSON in, a line with a number out."""

import json
import sys

for line in sys.stdin:
    answer = json.loads(line)["answer_tokens"]
    print(sum(65 <= token <= 90 for token in answer) / len(answer))
