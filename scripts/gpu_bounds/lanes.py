"""lanes - what the 32 lanes of a warp hold: an int where all lanes hold it, a list of 32, or None where nobody knows.

Numbers are 32 bits, without sign. In a list None is a lane whose number nobody knows. A predicate is a pair of masks: the lanes
where it is true, and those where nobody knows."""

WIDTH = 32
ALL = (1 << WIDTH) - 1
M = 0xFFFFFFFF
TRUE, FALSE, UNKNOWN = (ALL, 0), (0, 0), (0, ALL)


def tidy(x):
    return x[0] if x.count(x[0]) == WIDTH else x


def each(f, *args):
    """f of each lane; f gets ints and gives one."""
    lists = False
    for a in args:
        if a is None:
            return None
        if a.__class__ is list:
            lists = True
    if not lists:
        return f(*args)
    columns = [a if a.__class__ is list else [a] * WIDTH for a in args]
    return tidy([None if None in row else f(*row) for row in zip(*columns)])


def lane(x, i):
    return x[i] if x.__class__ is list else x


def spread(x):
    return x if x.__class__ is list else [x] * WIDTH


def merge(old, new, mask):
    """new where the mask is set, old elsewhere."""
    if mask == ALL:
        return new
    a, b = spread(old), spread(new)
    return tidy([b[i] if mask >> i & 1 else a[i] for i in range(WIDTH)])


def mask_of(bools):
    """The predicate of lanes that hold 1, 0 or None; of an int all lanes have."""
    if bools is None:
        return UNKNOWN
    if bools.__class__ is not list:
        return TRUE if bools else FALSE
    t = u = 0
    for i, b in enumerate(bools):
        if b is None:
            u |= 1 << i
        elif b:
            t |= 1 << i
    return t, u


def not_(p):
    return ALL & ~(p[0] | p[1]), p[1]


def and_(p, q):
    t = p[0] & q[0]
    return t, (p[0] | p[1]) & (q[0] | q[1]) & ~t


def or_(p, q):
    t = p[0] | q[0]
    return t, (p[1] | q[1]) & ~t


def merge_predicate(old, new, mask):
    return old[0] & ~mask | new[0] & mask, old[1] & ~mask | new[1] & mask


def bits_of(p):
    """The predicate as lanes of 1, 0 or None."""
    if p[1] == 0 and p[0] in (0, ALL):
        return int(p[0] == ALL)
    return [None if p[1] >> i & 1 else p[0] >> i & 1 for i in range(WIDTH)]


def signed(x):
    return x - (1 << 32) if x >> 31 else x
