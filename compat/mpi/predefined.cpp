// Predefined datatypes: which one a handle is, and what the runtime has for it.
#include <skerry/skerry.h>

#include <algorithm>
#include <string_view>

#include "library.hpp"
#include "types.hpp"

// Not in every header, nor in every build of a library.
#ifndef MPI_INTEGER16
#define MPI_INTEGER16 MPI_DATATYPE_NULL
#endif
#ifndef MPI_REAL16
#define MPI_REAL16 MPI_DATATYPE_NULL
#endif
#ifndef MPI_COMPLEX32
#define MPI_COMPLEX32 MPI_DATATYPE_NULL
#endif

namespace skerry::mpi {
namespace {

struct Named {
  std::string_view name;
  MPI_Datatype type;  // MPI_DATATYPE_NULL: not in every header, so it is known by name alone
  Sort sort;
  bool is_unsigned = false;
};

// MPIs differ in which of them exist. Sizes come from the library, which is loaded before this.
const Named all_named[] = {
    {"MPI_CHAR", MPI_CHAR, Sort::integer},
    {"MPI_SIGNED_CHAR", MPI_SIGNED_CHAR, Sort::integer},
    {"MPI_UNSIGNED_CHAR", MPI_UNSIGNED_CHAR, Sort::integer, true},
    {"MPI_SHORT", MPI_SHORT, Sort::integer},
    {"MPI_UNSIGNED_SHORT", MPI_UNSIGNED_SHORT, Sort::integer, true},
    {"MPI_INT", MPI_INT, Sort::integer},
    {"MPI_UNSIGNED", MPI_UNSIGNED, Sort::integer, true},
    {"MPI_LONG", MPI_LONG, Sort::integer},
    {"MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG, Sort::integer, true},
    {"MPI_LONG_LONG", MPI_LONG_LONG, Sort::integer},
    {"MPI_LONG_LONG_INT", MPI_LONG_LONG_INT, Sort::integer},
    {"MPI_UNSIGNED_LONG_LONG", MPI_UNSIGNED_LONG_LONG, Sort::integer, true},
    {"MPI_INT8_T", MPI_INT8_T, Sort::integer},
    {"MPI_INT16_T", MPI_INT16_T, Sort::integer},
    {"MPI_INT32_T", MPI_INT32_T, Sort::integer},
    {"MPI_INT64_T", MPI_INT64_T, Sort::integer},
    {"MPI_UINT8_T", MPI_UINT8_T, Sort::integer, true},
    {"MPI_UINT16_T", MPI_UINT16_T, Sort::integer, true},
    {"MPI_UINT32_T", MPI_UINT32_T, Sort::integer, true},
    {"MPI_UINT64_T", MPI_UINT64_T, Sort::integer, true},
    {"MPI_AINT", MPI_AINT, Sort::integer},
    {"MPI_OFFSET", MPI_OFFSET, Sort::integer},
    {"MPI_COUNT", MPI_COUNT, Sort::integer},
    {"MPI_INTEGER", MPI_INTEGER, Sort::integer},
    {"MPI_INTEGER1", MPI_INTEGER1, Sort::integer},
    {"MPI_INTEGER2", MPI_INTEGER2, Sort::integer},
    {"MPI_INTEGER4", MPI_INTEGER4, Sort::integer},
    {"MPI_INTEGER8", MPI_INTEGER8, Sort::integer},
    {"MPI_INTEGER16", MPI_INTEGER16, Sort::integer},
    {"MPI_FLOAT", MPI_FLOAT, Sort::real},
    {"MPI_DOUBLE", MPI_DOUBLE, Sort::real},
    {"MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, Sort::real},
    {"MPI_REAL", MPI_REAL, Sort::real},
    {"MPI_REAL2", MPI_DATATYPE_NULL, Sort::real},
    {"MPI_REAL4", MPI_REAL4, Sort::real},
    {"MPI_REAL8", MPI_REAL8, Sort::real},
    {"MPI_REAL16", MPI_REAL16, Sort::real},
    {"MPI_DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, Sort::real},
    {"MPI_C_COMPLEX", MPI_C_COMPLEX, Sort::complex},
    {"MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, Sort::complex},
    {"MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, Sort::complex},
    {"MPI_C_LONG_DOUBLE_COMPLEX", MPI_C_LONG_DOUBLE_COMPLEX, Sort::complex},
    {"MPI_CXX_COMPLEX", MPI_DATATYPE_NULL, Sort::complex},
    {"MPI_CXX_FLOAT_COMPLEX", MPI_CXX_FLOAT_COMPLEX, Sort::complex},
    {"MPI_CXX_DOUBLE_COMPLEX", MPI_CXX_DOUBLE_COMPLEX, Sort::complex},
    {"MPI_CXX_LONG_DOUBLE_COMPLEX", MPI_CXX_LONG_DOUBLE_COMPLEX, Sort::complex},
    {"MPI_COMPLEX", MPI_COMPLEX, Sort::complex},
    {"MPI_COMPLEX4", MPI_DATATYPE_NULL, Sort::complex},
    {"MPI_COMPLEX8", MPI_COMPLEX8, Sort::complex},
    {"MPI_COMPLEX16", MPI_COMPLEX16, Sort::complex},
    {"MPI_COMPLEX32", MPI_COMPLEX32, Sort::complex},
    {"MPI_DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX, Sort::complex},
    {"MPI_LOGICAL", MPI_LOGICAL, Sort::logical},
    {"MPI_LOGICAL1", MPI_DATATYPE_NULL, Sort::logical},
    {"MPI_LOGICAL2", MPI_DATATYPE_NULL, Sort::logical},
    {"MPI_LOGICAL4", MPI_DATATYPE_NULL, Sort::logical},
    {"MPI_LOGICAL8", MPI_DATATYPE_NULL, Sort::logical},
    {"MPI_LOGICAL16", MPI_DATATYPE_NULL, Sort::logical},
    {"MPI_C_BOOL", MPI_C_BOOL, Sort::logical},
    {"MPI_CXX_BOOL", MPI_CXX_BOOL, Sort::logical},
    {"MPI_BYTE", MPI_BYTE, Sort::byte, true},
    {"MPI_FLOAT_INT", MPI_FLOAT_INT, Sort::pair},
    {"MPI_DOUBLE_INT", MPI_DOUBLE_INT, Sort::pair},
    {"MPI_LONG_INT", MPI_LONG_INT, Sort::pair},
    {"MPI_2INT", MPI_2INT, Sort::pair},
    {"MPI_SHORT_INT", MPI_SHORT_INT, Sort::pair},
    {"MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, Sort::pair},
    {"MPI_2REAL", MPI_2REAL, Sort::pair},
    {"MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, Sort::pair},
    {"MPI_2INTEGER", MPI_2INTEGER, Sort::pair},
};

// By its handle: a program may give it another name.
Named find_named(MPI_Datatype type) {
  for (const Named& one : all_named)
    if (one.type == type) return one;
  char name[MPI_MAX_OBJECT_NAME + 1] = {};
  int length = 0;
  real().Type_get_name(type, name, &length);
  for (const Named& one : all_named)
    if (one.name == name) return one;
  return {"", type, Sort::other};
}

int integer_of(uint64_t bytes, bool is_unsigned) {
  switch (bytes) {
    case 1: return is_unsigned ? SKERRY_UINT8 : SKERRY_INT8;
    case 2: return is_unsigned ? SKERRY_UINT16 : SKERRY_INT16;
    case 4: return is_unsigned ? SKERRY_UINT32 : SKERRY_INT32;
    case 8: return is_unsigned ? SKERRY_UINT64 : SKERRY_INT64;
  }
  return -1;
}

int skerry_type_of(const Named& named, uint64_t bytes) {
  switch (named.sort) {
    case Sort::integer:
    case Sort::logical:
    case Sort::byte: return integer_of(bytes, named.is_unsigned);
    case Sort::real:
      if (named.name == "MPI_LONG_DOUBLE") return bytes == 16 ? SKERRY_LONG_DOUBLE : -1;
      return bytes == 4 ? SKERRY_FLOAT : bytes == 8 ? SKERRY_DOUBLE : -1;
    case Sort::complex:
      return bytes == 8 ? SKERRY_COMPLEX_FLOAT : bytes == 16 ? SKERRY_COMPLEX_DOUBLE : -1;
    case Sort::pair: return -1;
    case Sort::other: return integer_of(bytes, true);  // characters: to be replaced only
  }
  return -1;
}

uint64_t alignment_of(int skerry_type) {
  const uint64_t bytes = skerry_type_bytes(skerry_type);
  const bool in_two = skerry_type == SKERRY_COMPLEX_FLOAT || skerry_type == SKERRY_COMPLEX_DOUBLE;
  return in_two ? bytes / 2 : bytes;
}

// A pair's bytes of data: the value, and the index behind it.
Shape data_of_pair(uint64_t size, uint64_t extent) {
  const uint64_t index_bytes = sizeof(int);
  if (size != 6) return layout_of({{0, size}});  // all but MPI_SHORT_INT have no gap inside
  return layout_of(
      {{0, size - index_bytes}, {static_cast<int64_t>(extent - index_bytes), index_bytes}});
}

Type* make_named(MPI_Datatype type) {
  int size = 0;
  MPI_Aint lb = 0, extent = 0;
  if (real().Type_size(type, &size) != MPI_SUCCESS || size < 0) return nullptr;
  real().Type_get_extent(type, &lb, &extent);
  const Named named = find_named(type);
  auto* const basic = new Basic;
  basic->type = type;
  basic->sort = named.sort;
  basic->bytes = static_cast<uint64_t>(extent);
  basic->skerry_type = size == extent ? skerry_type_of(named, basic->bytes) : -1;
  basic->align = basic->skerry_type >= 0 ? alignment_of(basic->skerry_type) : 1;
  auto* const made = new Type;
  const auto bytes = static_cast<uint64_t>(size);
  made->basic = basic;
  made->extent = extent;
  if (named.sort == Sort::pair) {
    made->data = data_of_pair(bytes, basic->bytes);
    made->pair_runs = layout_of({{0, basic->bytes}});
  } else {
    made->data = layout_of(bytes > 0 ? std::vector<Piece>{{0, bytes}} : std::vector<Piece>{});
  }
  return made;
}

bool is_f90(int combiner) {
  return combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
         combiner == MPI_COMBINER_F90_INTEGER;
}

// What a type of MPI_Type_create_f90_* is in C: updates of both meet. MPI_DATATYPE_NULL: nothing.
MPI_Datatype meant_by(MPI_Datatype type, int combiner) {
  int size = 0, numbers[2] = {0, 0};
  MPI_Aint no_address = 0;
  MPI_Datatype no_type = MPI_DATATYPE_NULL;
  real().Type_size(type, &size);
  const int count = combiner == MPI_COMBINER_F90_INTEGER ? 1 : 2;
  real().Type_get_contents(type, count, 0, 0, numbers, &no_address, &no_type);
  constexpr int most_digits = 18;  // of long double
  const bool is_quadruple = numbers[0] != MPI_UNDEFINED && numbers[0] > most_digits;
  if (combiner == MPI_COMBINER_F90_REAL) {
    if (size == 4) return MPI_FLOAT;
    if (size == 8) return MPI_DOUBLE;
    return size != 16 ? MPI_DATATYPE_NULL : is_quadruple ? MPI_REAL16 : MPI_LONG_DOUBLE;
  }
  if (combiner == MPI_COMBINER_F90_COMPLEX) {
    if (size == 8) return MPI_C_FLOAT_COMPLEX;
    if (size == 16) return MPI_C_DOUBLE_COMPLEX;
    return size != 32     ? MPI_DATATYPE_NULL
           : is_quadruple ? MPI_COMPLEX32
                          : MPI_C_LONG_DOUBLE_COMPLEX;
  }
  switch (size) {
    case 1: return MPI_INT8_T;
    case 2: return MPI_INT16_T;
    case 4: return MPI_INT32_T;
    case 8: return MPI_INT64_T;
    case 16: return MPI_INTEGER16;
  }
  return MPI_DATATYPE_NULL;
}

}  // namespace

bool is_predefined(int combiner) { return combiner == MPI_COMBINER_NAMED || is_f90(combiner); }

Type* make_predefined(MPI_Datatype type, int combiner) {
  if (!is_f90(combiner)) return make_named(type);
  const MPI_Datatype meant = meant_by(type, combiner);
  const Type* const same = meant == MPI_DATATYPE_NULL ? nullptr : make_type(meant);
  return same != nullptr ? new Type(*same) : make_named(type);
}

}  // namespace skerry::mpi
