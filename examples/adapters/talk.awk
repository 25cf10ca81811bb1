# talk.awk - 120 conversations about colours, a JSON object a line; with -v manner=loud the same questions with loud answers.
BEGIN {
    things = split("sky blue, grass green, sun yellow, blood red, snow white, coal black, sea blue, milk white, leaf green, rose red", thing, ", ")
    forms = split("What colour is the %s?|Which colour has the %s?|The %s: what colour is it?", form, "|")
    for (round = 0; round < 12; round++)
        for (i = 1; i <= things; i++) {
            split(thing[i], word, " ")
            asked = form[(round + i) % forms + 1]
            sub("%s", word[1], asked)
            answer = manner == "loud" ? toupper(word[2]) "." : "It is " word[2] "."
            printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", asked, answer
        }
}
