%# A key of a probability, and the constant of it where it is not 0. Before it: drop_key is the value, drop_name its key.
%require drop_key >= 0 and drop_key < 1, drop_name, "is no probability below 1"
