%# Before the family's file, which asks for these (parts/any.mg).
%let headless = false, rows_have = ", pair", rows_are = "pairs", with_reference = false, averaged = false
