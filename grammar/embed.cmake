# embed.cmake - cmake -DIN=file -DOUT=file.c -DNAME=symbol -P embed.cmake: a text as a C array.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((....,)(....,)(....,)(....,)(....,)(....,)(....,)(....,))" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")
