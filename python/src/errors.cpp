// One path from sk::Error to the Python class of its code, with `code` set.
#include "binding.hpp"

namespace skpy {

namespace {

// A code of its own for dtype errors, which the C interface reports as INVALID.
struct DtypeProblem : sk::Error {
  explicit DtypeProblem(const std::string& message) : sk::Error(SKERRY_ERR_INVALID, message) {}
};

const char* class_name(int code) {
  switch (static_cast<skerry_status>(code)) {
    case SKERRY_OK: break;
    case SKERRY_ERR_INVALID: return "InvalidError";
    case SKERRY_ERR_RANGE: return "RangeError";
    case SKERRY_ERR_FREED: return "FreedError";
    case SKERRY_ERR_NO_MEMORY: return "NoMemoryError";
    case SKERRY_ERR_PEER_DEAD: return "PeerDeadError";
    case SKERRY_ERR_TIMEOUT: return "TimeoutError";
    case SKERRY_ERR_NETWORK: return "NetworkError";
    case SKERRY_ERR_CONFIG: return "ConfigError";
    case SKERRY_ERR_UNSUPPORTED: return "UnsupportedError";
    case SKERRY_ERR_FORKED: return "ForkedError";
    case SKERRY_ERR_THREAD: return "ThreadError";
    case SKERRY_ERR_INTERNAL: return "InternalError";
    case SKERRY_ERR_CONFLICT: return "ConflictError";
    case SKERRY_ERR_OWNER_DIED: break;  // Mutexes.lock tells it by its result
  }
  return "Error";
}

void raise(const char* name, const sk::Error& error) {
  const nb::object type = nb::module_::import_("skerry.errors").attr(name);
  const nb::object value = type(nb::str(error.what()));
  value.attr("code") = error.code();
  PyErr_SetObject(type.ptr(), value.ptr());
}

}  // namespace

void throw_dtype(const std::string& message) { throw DtypeProblem(message); }

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const DtypeProblem& error) {
      raise("DtypeError", error);
    } catch (const sk::Error& error) {
      raise(class_name(error.code()), error);
    }
  });
}

}  // namespace skpy
