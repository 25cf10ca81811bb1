/* rule.c - whether a program is started again; see rule.h. */
#include "runtime/elastic/rule.h"

#include "runtime/run.h"

rt_outcome rt_outcome_of(int code, bool by_signal)
{
    if (by_signal || code == RT_LOST || code == RT_BROKE || code == RT_IO)
        return RT_ENDED_LOST;
    return code == RT_DONE      ? RT_ENDED_WELL
           : code == RT_STOPPED ? RT_ENDED_STOPPED
           : code == RT_CORRUPT ? RT_ENDED_CORRUPT
                                : RT_ENDED_FOR_GOOD;
}

rt_ruling rt_rule_next(rt_rule *r, int64_t died, int *wait)
{
    const bool first = r->same == 0, same = !first && died == r->died;
    r->same = same ? r->same + 1 : 1;
    r->futile = !first && died <= r->died ? r->futile + 1 : 0;
    r->died = died;
    *wait = 0;
    if (r->restarts >= r->most)
        return RT_TOO_MANY;
    if (r->same >= RT_SAME_STEP)
        return RT_TOO_OFTEN_HERE;
    r->restarts++;
    if (r->futile)
        *wait = r->futile > 6 ? RT_WAIT_MAX : 1 << (r->futile - 1);
    return RT_RESTART;
}
