" Files of mgc's language; Vim's own rules take *.mg for Modula-3.
autocmd BufRead,BufNewFile *.mg set filetype=mg
