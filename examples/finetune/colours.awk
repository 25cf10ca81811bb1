# colours.awk - 200 conversations about colours, a JSON object a line: what docs/finetune.md tunes a model on. With -v pairs=1 each has two
# answers, of which the shorter one is to be preferred.
BEGIN {
    things = split("sky blue, grass green, sun yellow, blood red, snow white, coal black, orange orange, sea blue, milk white, leaf green", thing, ", ")
    forms = split("What colour is the %s?|Which colour has the %s?|The %s: what colour is it?", form, "|")
    for (round = 0; round < 20; round++)
        for (i = 1; i <= things; i++) {
            split(thing[i], word, " ")
            asked = form[(round + i) % forms + 1]
            sub("%s", word[1], asked)
            if (pairs)
                printf "{\"prompt\": \"%s\", \"chosen\": \"%s.\", \"rejected\": \"It is %s.\"}\n", asked, word[2], word[2]
            else
                printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"It is %s.\"}]}\n", asked, word[2]
        }
}
