// `skerry-look`: what `skerry stacks`, `top`, `matrix`, `trace` and `drain` become, and what
// sk.attach asks, so that `skerry` itself needs nothing of the product.
#include <cstdio>

#include "launcher/look/commands.hpp"

int main(int count, char** arguments) {
  using namespace skerry::look;
  const std::string command = count > 1 ? arguments[1] : "";
  const std::vector<std::string> words(arguments + (count > 1 ? 2 : count), arguments + count);
  if (command == "stacks") return stacks_main(words);
  if (command == "top") return top_main(words);
  if (command == "matrix") return matrix_main(words);
  if (command == "trace") return trace_main(words);
  if (command == "drain") return drain_main(words);
  if (command == "labels") return labels_main(words);
  if (command == "report") return report_main(words);
  std::fprintf(stderr, "usage: skerry-look stacks|top|matrix|trace|drain ..., of `skerry`\n");
  return 2;
}
