# embed.cmake - cmake -DIN=file.mg -DOUT=file.c -DNAME=symbol -P embed.cmake: a text as a C array. Comments are left
# out, for mgc reads it each time: lines and columns stay what they are.
file(READ ${IN} text)
string(REGEX REPLACE " *#[^\n]*" "" text "${text}")
string(HEX "${text}" hex)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((....,)(....,)(....,)(....,)(....,)(....,)(....,)(....,))" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")
