/* ptx-decode FILE...: reads PTX and decodes every kernel of it; says which instructions are not
 * known. */
#include "tests/ptx/launch.h"
#include "tests/ptx/text.h"

#include <fstream>
#include <iostream>
#include <sstream>

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) {
        std::ifstream file(argv[i]);
        std::stringstream text;
        text << file.rdbuf();
        size_t kernels = 0;
        try {
            ptx::Module m(text.str());
            for (const std::string &name : m.names())
                try {
                    kernels += m.find(name) != nullptr;
                } catch (const ptx::Unknown &e) {
                    std::cout << argv[i] << ": " << name << ": " << e.what() << "\n";
                    failed = 1;
                }
        } catch (const ptx::Unknown &e) {
            std::cout << argv[i] << ": " << e.what() << "\n";
            failed = 1;
        }
        std::cout << argv[i] << ": " << kernels << " kernels\n";
        failed |= !kernels;
    }
    return failed;
}
