#include "core/pure/element.hpp"

namespace skerry {

Status check_operation(ElementType type, Operation operation) {
  if (has_operation(type, operation)) return {};
  const bool needs_order = facts_of(operation).needs == Needs::order;
  return error(Code::invalid, to_string(type), " elements have no ", to_string(operation), ": ",
               needs_order ? "complex numbers have no order"
                           : "logical and bitwise operations need integers");
}

}  // namespace skerry
