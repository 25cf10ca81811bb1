" Files of mgc's language.
autocmd BufRead,BufNewFile *.mg setfiletype mg
