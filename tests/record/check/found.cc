/* found.cc - what the rules found. */
#include "tests/record/check/check.h"

#include <cstdarg>
#include <cstdio>

namespace check
{

static std::map<std::string, long> counts;
static std::map<int, std::string> names;

void name_action(int action, const std::string &name)
{
    names[action] = name;
}

int actions()
{
    return names.empty() ? 0 : names.rbegin()->first + 1;
}

void found(const char *rule, long line, int action, const char *fmt, ...)
{
    enum { PRINTED = 5 }; /* of a rule */
    if (++counts[rule] > PRINTED)
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const std::string name = names.count(action) ? names[action] : "";
    printf("%s: line %ld, action %d %s: %s\n", rule, line, action, name.c_str(), text);
}

long findings()
{
    long all = 0;
    for (const auto &c : counts)
        all += c.second;
    return all;
}

} // namespace check
