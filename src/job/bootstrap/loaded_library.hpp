// Libraries that others brought into this process. A language binding loads its MPI without adding
// it to the global symbols, so dlsym alone does not find it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skerry::job {

// A symbol of the program itself, or else of a loaded library whose file name begins with `prefix`
// ("libmpi"). Null: none.
void* find_loaded_symbol(std::string_view prefix, const char* symbol);

// Paths of loaded libraries whose file name begins with `prefix`, of this process or of another
// that may be read ("" otherwise).
std::vector<std::string> loaded_here(std::string_view prefix);
std::string loaded_in_process(int pid, std::string_view prefix);

}  // namespace skerry::job
