%if turn < head
dim turn = $turn, still = head - turn
%end
%if neighbours
dim half = $turned_dim / 2, two = 2
%end
