# talk.awk - questions about colours with a short and a long answer each. Writes talks.jsonl, conversations with either answer, to learn to
# talk; pairs.jsonl, in which the short one is preferred; and questions.jsonl, to ask.
BEGIN {
    things = split("sky blue, grass green, sun yellow, blood red, snow white, coal black, sea blue, milk white, leaf green, rose red", thing, ", ")
    forms = split("What colour is the %s?|Which colour has the %s?|The %s: what colour is it?", form, "|")
    user = "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}"
    for (i = 1; i <= things; i++)
        for (f = 1; f <= forms; f++) {
            split(thing[i], word, " ")
            asked = form[f]
            sub("%s", word[1], asked)
            short = word[2] "."
            long = "The " word[1] " is " word[2] "."
            printf user "]}\n", asked >"questions.jsonl"
            printf user ", {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", asked, short >"talks.jsonl"
            printf user ", {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", asked, long >"talks.jsonl"
            printf "{\"prompt\": \"%s\", \"chosen\": \"%s\", \"rejected\": \"%s\"}\n", asked, short, long >"pairs.jsonl"
        }
}
