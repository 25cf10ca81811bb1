/* text.cc - reads PTX; see the PTX ISA, "Syntax". Comments and debugging directives are skipped. */
#include "tests/ptx/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

namespace ptx
{

bool Statement::has(const char *word) const
{
    for (size_t i = 1; i < words.size(); i++)
        if (words[i] == word)
            return true;
    return false;
}

unsigned type_bytes(const std::string &type)
{
    if (type == "f16x2" || type == "bf16x2" || type == "tf32")
        return 4;
    if (type == "bf16")
        return 2;
    if (type.size() < 2 || !strchr("busf", type[0]))
        return 0;
    char *end;
    const long bits = strtol(type.c_str() + 1, &end, 10);
    const bool is = !*end && (bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128);
    return is ? (unsigned)bits / 8 : 0;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

struct Reader {
    const char *at;
    int line = 1;

    [[noreturn]] void wrong(const std::string &what) const
    {
        throw Unknown("line " + std::to_string(line) + ": " + what);
    }
    void step()
    {
        line += *at++ == '\n';
    }
    void skip_line()
    {
        while (*at && *at != '\n')
            step();
    }
    void space()
    {
        for (;;) {
            if (isspace((unsigned char)*at)) {
                step();
            } else if (at[0] == '/' && at[1] == '/') {
                skip_line();
            } else if (at[0] == '/' && at[1] == '*') {
                while (*at && !(at[0] == '*' && at[1] == '/'))
                    step();
                at += *at ? 2 : 0;
            } else {
                return;
            }
        }
    }
    bool take(char c)
    {
        space();
        if (*at != c)
            return false;
        step();
        return true;
    }
    void need(char c)
    {
        if (!take(c))
            wrong(std::string("'") + c +
                  "' is missing before: " + std::string(at, strnlen(at, 30)));
    }
    /* Letters, digits, _ $ %; "" if there are none. */
    std::string word()
    {
        space();
        const char *from = at;
        while (is_word(*at))
            at++;
        return std::string(from, at);
    }
    /* The same with dots, and colons that are in pairs. */
    std::string dotted()
    {
        space();
        const char *from = at;
        while (is_word(*at) || *at == '.' || (at[0] == ':' && at[1] == ':'))
            at += *at == ':' ? 2 : 1;
        return std::string(from, at);
    }

    /* ---- operands ---- */

    bool at_number()
    {
        space();
        return isdigit((unsigned char)*at) || (*at == '-' && isdigit((unsigned char)at[1]));
    }
    Operand number()
    {
        Operand o;
        char *end;
        const bool minus = take('-');
        o.kind = Operand::INTEGER;
        if (at[0] == '0' && strchr("fFdD", at[1]) && at[1]) {
            const bool single = at[1] == 'f' || at[1] == 'F';
            o.kind = single ? Operand::SINGLE : Operand::DOUBLE;
            o.number =
                strtoull(std::string(at + 2, strnlen(at + 2, single ? 8 : 16)).c_str(), &end, 16);
            at += single ? 10 : 18;
            return o;
        }
        o.number = strtoull(at, &end, 0);
        at = end + (*end == 'U');
        o.number = minus ? 0 - o.number : o.number;
        return o;
    }
    Operand list(Operand::Kind kind, char close)
    {
        Operand o;
        o.kind = kind;
        do {
            o.parts.push_back(operand());
            while (kind == Operand::ADDRESS && (take('+') || at_number()))
                o.number += number().number;
        } while (take(','));
        need(close);
        return o;
    }
    Operand operand()
    {
        Operand o;
        if (take('{'))
            return list(Operand::VECTOR, '}');
        if (take('['))
            return list(Operand::ADDRESS, ']');
        if (at_number())
            return number();
        o.negated = take('!');
        o.name = dotted();
        if (o.name.empty())
            wrong("an operand is missing before: " + std::string(at, strnlen(at, 30)));
        if (take('+'))
            o.number = number().number;
        if (!take('|'))
            return o;
        Operand pair;
        pair.kind = Operand::PAIR;
        pair.parts = {o, operand()};
        return pair;
    }
    std::vector<Operand> operands()
    {
        std::vector<Operand> all;
        if (take(';'))
            return all;
        do
            all.push_back(operand());
        while (take(','));
        need(';');
        return all;
    }

    /* ---- declarations ---- */

    /* "{1, 2}" as the bytes of elements of that many bytes. */
    std::string initial(unsigned bytes)
    {
        std::string s;
        const bool many = take('{');
        do {
            if (!at_number())
                wrong("an initial value that is no number");
            const uint64_t x = number().number;
            s.append((const char *)&x, bytes);
        } while (many && take(','));
        if (many)
            need('}');
        return s;
    }
    /* After the space's name: .align 4 .b8 name[16] = {...} */
    Variable variable(const std::string &space, bool is_extern)
    {
        Variable v;
        unsigned bytes = 0;
        v.space = space;
        v.is_extern = is_extern;
        for (std::string w = dotted(); w[0] == '.'; w = dotted()) {
            if (w == ".align")
                v.align = strtoull(word().c_str(), NULL, 10);
            else if ((bytes = type_bytes(w.substr(1))) == 0)
                wrong("the declaration's " + w + " is not known");
            if (v.align < bytes)
                v.align = bytes;
            this->space();
            if (*at != '.')
                break;
        }
        v.name = word();
        v.bytes = bytes;
        while (take('[')) {
            const std::string n = word();
            v.bytes *= n.empty() ? 0 : strtoull(n.c_str(), NULL, 10);
            need(']');
        }
        if (take('='))
            v.start = initial(bytes);
        return v;
    }
    /* After .reg: .b32 %r<8> or .pred p, q */
    void registers(std::vector<Statement> &to, int from_line)
    {
        Statement s;
        s.kind = Statement::REGISTERS;
        s.line = from_line;
        s.type = dotted().substr(1);
        do {
            s.name = word();
            s.count = 0;
            if (take('<')) {
                s.count = atoi(word().c_str());
                need('>');
            }
            to.push_back(s);
        } while (take(','));
        need(';');
    }

    /* ---- entries ---- */

    void directive(Entry &e)
    {
        const int from_line = line;
        const std::string w = dotted();
        if (w == ".reg") {
            registers(e.body, from_line);
        } else if (w == ".local" || w == ".shared") {
            Statement s;
            s.kind = Statement::VARIABLE;
            s.line = from_line;
            s.variable = (int)e.variables.size();
            e.variables.push_back(variable(w.substr(1), false));
            need(';');
            e.body.push_back(s);
        } else if (w == ".pragma") {
            while (*at && *at != ';')
                step();
            need(';');
        } else if (w == ".loc") {
            skip_line();
        } else {
            wrong("the directive " + w + " is not known");
        }
    }
    void statement(Entry &e)
    {
        Statement s;
        s.line = line;
        const char *from = at;
        if (take('@')) {
            s.guard_not = take('!');
            s.guard = word();
        }
        const std::string opcode = dotted();
        for (size_t i = 0, dot; i <= opcode.size(); i = dot + 1) {
            dot = opcode.find('.', i);
            dot = dot == std::string::npos ? opcode.size() : dot;
            s.words.push_back(opcode.substr(i, dot - i));
        }
        if (opcode.empty())
            wrong("an instruction is missing before: " + std::string(at, strnlen(at, 30)));
        s.operands = operands();
        s.text = std::string(from, at);
        e.body.push_back(s);
    }
    bool label(Entry &e)
    {
        const char *from = at;
        const int from_line = line;
        Statement s;
        s.kind = Statement::LABEL;
        s.line = line;
        s.name = word();
        if (s.name.empty() || !(space(), *at == ':') || at[1] == ':') {
            at = from;
            line = from_line;
            return false;
        }
        step();
        space();
        if (strncmp(at, ".branchtargets", 14) == 0) {
            at += 14;
            s.kind = Statement::TARGETS;
            s.operands = operands();
        }
        e.body.push_back(s);
        return true;
    }
    void body(Entry &e)
    {
        int depth = 1;
        Statement s;
        while (depth > 0) {
            space();
            s.line = line;
            if (!*at)
                wrong("the text ends within an entry");
            if (take('{')) {
                s.kind = Statement::OPEN;
                e.body.push_back(s);
                depth++;
            } else if (take('}')) {
                s.kind = Statement::CLOSE;
                e.body.push_back(s);
                depth--;
            } else if (*at == '.') {
                directive(e);
            } else if (!label(e)) {
                statement(e);
            }
        }
    }
    void parameters(Entry &e)
    {
        if (!take('('))
            return;
        while (!take(')')) {
            if (dotted() != ".param")
                wrong("a parameter is missing");
            const Variable v = variable("param", false);
            Parameter p;
            p.name = v.name;
            p.align = v.align;
            p.bytes = v.bytes;
            p.at = (e.parameter_bytes + v.align - 1) / v.align * v.align;
            e.parameter_bytes = p.at + p.bytes;
            e.parameters.push_back(p);
            take(',');
        }
    }
    void entry(Text &t)
    {
        Entry e;
        e.name = word();
        parameters(e);
        while (!take('{')) {
            const std::string w = dotted();
            unsigned n[3] = {1, 1, 1};
            for (int i = 0; at_number() && i < 3; i++) {
                n[i] = (unsigned)number().number;
                take(',');
            }
            if (w == ".maxntid" || w == ".reqntid")
                e.threads_max = n[0] * n[1] * n[2];
            else if (w != ".minnctapersm" && w != ".maxnreg")
                wrong("the directive " + w + " of an entry is not known");
        }
        body(e);
        t.entries.push_back(e);
    }
    Text all()
    {
        Text t;
        bool is_extern = false;
        for (space(); *at; space()) {
            const std::string w = dotted();
            if (w == ".version" || w == ".address_size" || w == ".file") {
                skip_line();
            } else if (w == ".target") {
                t.target = word();
                skip_line();
            } else if (w == ".visible" || w == ".weak") {
                is_extern = false;
            } else if (w == ".extern") {
                is_extern = true;
            } else if (w == ".entry") {
                entry(t);
            } else if (w == ".shared" || w == ".global" || w == ".const") {
                t.variables.push_back(variable(w.substr(1), is_extern));
                need(';');
                is_extern = false;
            } else {
                wrong("the directive " + w + " is not known");
            }
        }
        return t;
    }
};

Text read_text(const std::string &ptx)
{
    Reader r;
    r.at = ptx.c_str();
    return r.all();
}

} // namespace ptx
