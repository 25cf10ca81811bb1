# sums.awk - sums of two numbers of three digits, a JSON object a line: 20,000 to learn in train.jsonl, 1,000 others in test.jsonl. The
# answer begins with its last digit, as one adds on paper.
BEGIN {
    srand(1)
    while (made < 21000) {
        a = int(1000 * rand())
        b = int(1000 * rand())
        if ((a, b) in seen)
            continue
        seen[a, b] = 1
        sum = sprintf("%04d", a + b)
        back = ""
        for (i = 4; i > 0; i--)
            back = back substr(sum, i, 1)
        printf "{\"question\": \"%03d+%03d=\", \"answer\": \"%s;\"}\n", a, b, back >(made++ < 20000 ? "train.jsonl" : "test.jsonl")
    }
}
