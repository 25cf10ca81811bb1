dim lanes = $lanes, lane = $lane, state = $state, tap = $tap, one = 1
%if groups == 1
dim inner = lanes * lane, mixed = inner + 2 * state, all = inner + mixed + lanes
%else
dim groups = $groups, member = lanes / groups, keys = groups * state
dim inner = lanes * lane, mixed = inner + 2 * keys, all = inner + mixed + lanes
%end
