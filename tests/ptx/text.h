/* text.h - the text of PTX as statements, each with its operands and the line that it is from.
 * Nothing is known here of what an instruction means; see decode.h. */
#ifndef PTX_TEXT_H
#define PTX_TEXT_H

#include <stdexcept>
#include <stdint.h>
#include <string>
#include <vector>

namespace ptx
{

/* A text that is not understood, or an instruction that is not known. */
struct Unknown : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Operand {
    enum Kind {
        NAME,    /* of a register, a variable or a label */
        INTEGER, /* number */
        SINGLE,  /* the bits of a float */
        DOUBLE,  /* the bits of a double */
        VECTOR,  /* {parts} */
        PAIR,    /* parts[0] | parts[1] */
        ADDRESS  /* [parts[0] + number], further parts after commas */
    };
    Kind kind = NAME;
    std::string name;
    bool negated = false; /* !name */
    uint64_t number = 0;
    std::vector<Operand> parts;
};

struct Statement {
    enum Kind { INSTRUCTION, LABEL, OPEN, CLOSE, REGISTERS, VARIABLE, TARGETS };
    Kind kind = INSTRUCTION;
    int line = 0;
    std::string text;               /* as it is written */
    std::vector<std::string> words; /* INSTRUCTION: the opcode's, which dots separate */
    std::vector<Operand> operands;  /* TARGETS: labels */
    std::string guard;              /* a predicate, or "" */
    bool guard_not = false;
    std::string name; /* of a label */
    int variable = 0; /* VARIABLE: which of the entry's */
    /* REGISTERS: their type, and how many `name` stands for; 0: it is one name. */
    std::string type;
    int count = 0;

    /* Is it one of the opcode's words after the first? */
    bool has(const char *word) const;
};

struct Variable {
    std::string space, name; /* "shared", "local", "global", "const" */
    uint64_t align = 1, bytes = 0;
    bool is_extern = false; /* as large as the launch says */
    std::string start;      /* its first bytes; zeros follow */
};

struct Parameter {
    std::string name;
    uint64_t align = 1, bytes = 0, at = 0;
};

struct Entry {
    std::string name;
    std::vector<Parameter> parameters;
    uint64_t parameter_bytes = 0;
    unsigned threads_max = 0; /* of a block; 0: not said */
    std::vector<Variable> variables;
    std::vector<Statement> body;
};

struct Text {
    std::string target; /* "sm_90a" */
    std::vector<Variable> variables;
    std::vector<Entry> entries;
};

/* Throws Unknown, with the line. */
Text read_text(const std::string &ptx);

/* Bytes of "u32", "b8", "f64", "f16x2"; 0: no such type. "pred" has none. */
unsigned type_bytes(const std::string &type);

} // namespace ptx

#endif
