#include "types.hpp"

#include <skerry/skerry.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>

#include "errors.hpp"
#include "library.hpp"

namespace skerry::mpi {

constinit Registry<MPI_Datatype, const Type> known_types;

namespace {

// ---- predefined types ---------------------------------------------------------------------------

struct Named {
  std::string_view name;
  Sort sort;
  bool is_unsigned = false;
};

// By name, because MPIs differ in which of them exist. Sizes come from the library.
constexpr Named names[] = {
    {"MPI_CHAR", Sort::integer},
    {"MPI_SIGNED_CHAR", Sort::integer},
    {"MPI_UNSIGNED_CHAR", Sort::integer, true},
    {"MPI_SHORT", Sort::integer},
    {"MPI_UNSIGNED_SHORT", Sort::integer, true},
    {"MPI_INT", Sort::integer},
    {"MPI_UNSIGNED", Sort::integer, true},
    {"MPI_LONG", Sort::integer},
    {"MPI_UNSIGNED_LONG", Sort::integer, true},
    {"MPI_LONG_LONG", Sort::integer},
    {"MPI_LONG_LONG_INT", Sort::integer},
    {"MPI_UNSIGNED_LONG_LONG", Sort::integer, true},
    {"MPI_INT8_T", Sort::integer},
    {"MPI_INT16_T", Sort::integer},
    {"MPI_INT32_T", Sort::integer},
    {"MPI_INT64_T", Sort::integer},
    {"MPI_UINT8_T", Sort::integer, true},
    {"MPI_UINT16_T", Sort::integer, true},
    {"MPI_UINT32_T", Sort::integer, true},
    {"MPI_UINT64_T", Sort::integer, true},
    {"MPI_AINT", Sort::integer},
    {"MPI_OFFSET", Sort::integer},
    {"MPI_COUNT", Sort::integer},
    {"MPI_INTEGER", Sort::integer},
    {"MPI_INTEGER1", Sort::integer},
    {"MPI_INTEGER2", Sort::integer},
    {"MPI_INTEGER4", Sort::integer},
    {"MPI_INTEGER8", Sort::integer},
    {"MPI_INTEGER16", Sort::integer},
    {"MPI_FLOAT", Sort::real},
    {"MPI_DOUBLE", Sort::real},
    {"MPI_LONG_DOUBLE", Sort::real},
    {"MPI_REAL", Sort::real},
    {"MPI_REAL2", Sort::real},
    {"MPI_REAL4", Sort::real},
    {"MPI_REAL8", Sort::real},
    {"MPI_REAL16", Sort::real},
    {"MPI_DOUBLE_PRECISION", Sort::real},
    {"MPI_C_COMPLEX", Sort::complex},
    {"MPI_C_FLOAT_COMPLEX", Sort::complex},
    {"MPI_C_DOUBLE_COMPLEX", Sort::complex},
    {"MPI_C_LONG_DOUBLE_COMPLEX", Sort::complex},
    {"MPI_CXX_COMPLEX", Sort::complex},
    {"MPI_CXX_FLOAT_COMPLEX", Sort::complex},
    {"MPI_CXX_DOUBLE_COMPLEX", Sort::complex},
    {"MPI_CXX_LONG_DOUBLE_COMPLEX", Sort::complex},
    {"MPI_COMPLEX", Sort::complex},
    {"MPI_COMPLEX4", Sort::complex},
    {"MPI_COMPLEX8", Sort::complex},
    {"MPI_COMPLEX16", Sort::complex},
    {"MPI_COMPLEX32", Sort::complex},
    {"MPI_DOUBLE_COMPLEX", Sort::complex},
    {"MPI_LOGICAL", Sort::logical},
    {"MPI_LOGICAL1", Sort::logical},
    {"MPI_LOGICAL2", Sort::logical},
    {"MPI_LOGICAL4", Sort::logical},
    {"MPI_LOGICAL8", Sort::logical},
    {"MPI_LOGICAL16", Sort::logical},
    {"MPI_C_BOOL", Sort::logical},
    {"MPI_CXX_BOOL", Sort::logical},
    {"MPI_BYTE", Sort::byte, true},
    {"MPI_FLOAT_INT", Sort::pair},
    {"MPI_DOUBLE_INT", Sort::pair},
    {"MPI_LONG_INT", Sort::pair},
    {"MPI_2INT", Sort::pair},
    {"MPI_SHORT_INT", Sort::pair},
    {"MPI_LONG_DOUBLE_INT", Sort::pair},
    {"MPI_2REAL", Sort::pair},
    {"MPI_2DOUBLE_PRECISION", Sort::pair},
    {"MPI_2INTEGER", Sort::pair},
};

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
std::vector<Piece> data_of_pair(uint64_t size, uint64_t extent) {
  const uint64_t index_bytes = sizeof(int);
  if (size != 6) return {{0, size}};  // all but MPI_SHORT_INT have no gap inside
  return {{0, size - index_bytes}, {static_cast<int64_t>(extent - index_bytes), index_bytes}};
}

Type* make_named(MPI_Datatype type) {
  int size = 0, length = 0;
  MPI_Aint lb = 0, extent = 0;
  char name[MPI_MAX_OBJECT_NAME + 1] = {};
  if (real().Type_size(type, &size) != MPI_SUCCESS || size < 0) return nullptr;
  real().Type_get_extent(type, &lb, &extent);
  real().Type_get_name(type, name, &length);
  Named named{name, Sort::other};
  for (const Named& one : names)
    if (one.name == name) named = one;
  auto* const basic = new Basic;
  basic->type = type;
  basic->sort = named.sort;
  basic->bytes = static_cast<uint64_t>(extent);
  basic->skerry_type = size == extent ? skerry_type_of(named, basic->bytes) : -1;
  basic->align = basic->skerry_type >= 0 ? alignment_of(basic->skerry_type) : 1;
  auto* const made = new Type;
  made->basic = basic;
  made->bytes = static_cast<uint64_t>(size);
  made->extent = extent;
  made->pieces = named.sort == Sort::pair ? data_of_pair(made->bytes, basic->bytes)
                                          : std::vector<Piece>{{0, made->bytes}};
  made->pair_runs = {{0, basic->bytes}};
  return made;
}

// ---- derived types ------------------------------------------------------------------------------

void join(std::vector<Piece>& pieces, int64_t at, uint64_t bytes) {
  if (bytes == 0) return;
  if (!pieces.empty() && pieces.back().at + static_cast<int64_t>(pieces.back().bytes) == at)
    pieces.back().bytes += bytes;
  else pieces.push_back({at, bytes});
}

void add_each(const std::vector<Piece>& from, int64_t extent, int64_t at, int64_t count,
              std::vector<Piece>& to) {
  for (int64_t k = 0; k < count; ++k)
    for (const Piece& piece : from) join(to, at + k * extent + piece.at, piece.bytes);
}

// Collects the elements of other types that a type is made of.
class Builder {
 public:
  void add(const Type& of, int64_t at, int64_t count) {
    if (count <= 0 || of.bytes == 0) return;
    if (made_->bytes == 0) made_->basic = of.basic;
    else if (made_->basic != of.basic) made_->basic = nullptr;
    const bool dense = of.pieces.size() == 1 &&
                       static_cast<int64_t>(of.pieces[0].bytes) == of.extent && of.extent > 0;
    if (dense) {
      join(made_->pieces, at + of.pieces[0].at, of.pieces[0].bytes * static_cast<uint64_t>(count));
    } else {
      add_each(of.pieces, of.extent, at, count, made_->pieces);
    }
    if (of.basic != nullptr && of.basic->sort == Sort::pair)
      add_each(of.pair_runs, of.extent, at, count, made_->pair_runs);
    made_->bytes += of.bytes * static_cast<uint64_t>(count);
  }
  Type* take(int64_t extent) {
    made_->extent = extent;
    return made_;
  }

 private:
  Type* made_ = new Type;
};

// What a type was made from, in the order of the call that made it. The numbers of large-count
// calls are all in one list; those of the others are integers and addresses.
struct Contents {
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Count> counts;
  std::vector<MPI_Datatype> types;
  bool is_large = false;
  size_t integer = 0, address = 0, count = 0;

  int64_t next_integer() { return integers.at(integer++); }
  int64_t next_count() { return is_large ? counts.at(count++) : next_integer(); }
  int64_t next_address() { return is_large ? counts.at(count++) : addresses.at(address++); }
  std::vector<int64_t> next_integers(int64_t n) {
    std::vector<int64_t> found;
    for (int64_t k = 0; k < n; ++k) found.push_back(next_integer());
    return found;
  }
  std::vector<int64_t> next_counts(int64_t n) {
    std::vector<int64_t> found;
    for (int64_t k = 0; k < n; ++k) found.push_back(next_count());
    return found;
  }
};

bool read_contents(MPI_Datatype type, int* combiner, Contents* contents) {
#ifdef SKERRY_MPI_LARGE
  MPI_Count integers = 0, addresses = 0, counts = 0, types = 0;
  if (real().Type_get_envelope_c(type, &integers, &addresses, &counts, &types, combiner) !=
      MPI_SUCCESS)
    return false;
#else
  int integers = 0, addresses = 0, counts = 0, types = 0;
  if (real().Type_get_envelope(type, &integers, &addresses, &types, combiner) != MPI_SUCCESS)
    return false;
#endif
  if (*combiner == MPI_COMBINER_NAMED) return true;
  contents->integers.resize(static_cast<size_t>(integers));
  contents->addresses.resize(static_cast<size_t>(addresses));
  contents->counts.resize(static_cast<size_t>(counts));
  contents->types.resize(static_cast<size_t>(types));
  contents->is_large = counts > 0;
#ifdef SKERRY_MPI_LARGE
  return real().Type_get_contents_c(type, integers, addresses, counts, types,
                                    contents->integers.data(), contents->addresses.data(),
                                    contents->counts.data(), contents->types.data()) == MPI_SUCCESS;
#else
  return real().Type_get_contents(type, integers, addresses, types, contents->integers.data(),
                                  contents->addresses.data(),
                                  contents->types.data()) == MPI_SUCCESS;
#endif
}

// The element types of a derived one, looked up or made; temporary handles are freed.
class Children {
 public:
  explicit Children(const std::vector<MPI_Datatype>& types) : types_(types) {
    for (MPI_Datatype type : types_) found_.push_back(make_type(type));
  }
  ~Children() {
    for (MPI_Datatype type : types_) free_if_derived(type);
  }
  Children(const Children&) = delete;
  bool all() const {
    for (const Type* type : found_)
      if (type == nullptr) return false;
    return true;
  }
  const Type& operator[](size_t k) const { return *found_[k]; }

 private:
  static void free_if_derived(MPI_Datatype type) {
    int combiner = MPI_COMBINER_NAMED;
    Contents unused;
#ifdef SKERRY_MPI_LARGE
    MPI_Count none = 0;
    real().Type_get_envelope_c(type, &none, &none, &none, &none, &combiner);
#else
    int none = 0;
    real().Type_get_envelope(type, &none, &none, &none, &combiner);
#endif
    const bool is_predefined = combiner == MPI_COMBINER_NAMED ||
                               combiner == MPI_COMBINER_F90_REAL ||
                               combiner == MPI_COMBINER_F90_COMPLEX ||
                               combiner == MPI_COMBINER_F90_INTEGER;
    if (!is_predefined) real().Type_free(&type);
  }
  std::vector<MPI_Datatype> types_;
  std::vector<const Type*> found_;
};

// The elements that one process of a distributed array holds in one dimension: {first, count}.
using Ranges = std::vector<std::array<int64_t, 2>>;

Ranges ranges_of(int64_t all, int64_t distribution, int64_t argument, int64_t processes,
                 int64_t process) {
  if (distribution == MPI_DISTRIBUTE_NONE) return {{{0, all}}};
  const bool is_block = distribution == MPI_DISTRIBUTE_BLOCK;
  int64_t block = argument;
  if (argument == MPI_DISTRIBUTE_DFLT_DARG)
    block = is_block ? (all + processes - 1) / processes : 1;
  Ranges found;
  for (int64_t first = process * block; first < all; first += processes * block) {
    found.push_back({{first, std::min(block, all - first)}});
    if (is_block) break;
  }
  return found;
}

// Blocks of an array of several dimensions; `ranges` and `sizes` with the fastest dimension last.
void add_blocks(Builder& builder, const Type& of, const std::vector<Ranges>& ranges,
                const std::vector<int64_t>& sizes, size_t dimension, int64_t element) {
  for (const auto& [first, count] : ranges[dimension]) {
    if (dimension + 1 == ranges.size()) {
      builder.add(of, (element * sizes[dimension] + first) * of.extent, count);
      continue;
    }
    for (int64_t k = 0; k < count; ++k)
      add_blocks(builder, of, ranges, sizes, dimension + 1, element * sizes[dimension] + first + k);
  }
}

template <class List>
void to_c_order(int64_t order, List& list) {
  if (order == MPI_ORDER_FORTRAN) list = List(list.rbegin(), list.rend());
}

void add_subarray(Builder& builder, const Type& of, Contents& from) {
  const int64_t dimensions = from.next_integer();
  std::vector<int64_t> sizes = from.next_counts(dimensions);
  const std::vector<int64_t> parts = from.next_counts(dimensions);
  const std::vector<int64_t> starts = from.next_counts(dimensions);
  const int64_t order = from.next_integer();
  std::vector<Ranges> ranges;
  for (size_t k = 0; k < sizes.size(); ++k) ranges.push_back({{{starts[k], parts[k]}}});
  to_c_order(order, sizes);
  to_c_order(order, ranges);
  add_blocks(builder, of, ranges, sizes, 0, 0);
}

void add_distributed(Builder& builder, const Type& of, Contents& from) {
  from.next_integer();  // the number of processes: the product of `grid`
  int64_t process = from.next_integer();
  const int64_t dimensions = from.next_integer();
  std::vector<int64_t> sizes = from.next_counts(dimensions);
  const std::vector<int64_t> distributions = from.next_integers(dimensions);
  const std::vector<int64_t> arguments = from.next_integers(dimensions);
  const std::vector<int64_t> grid = from.next_integers(dimensions);
  const int64_t order = from.next_integer();
  std::vector<Ranges> ranges(sizes.size());
  for (size_t k = sizes.size(); k-- > 0;) {  // processes are in C order in both orders
    ranges[k] = ranges_of(sizes[k], distributions[k], arguments[k], grid[k], process % grid[k]);
    process /= grid[k];
  }
  to_c_order(order, sizes);
  to_c_order(order, ranges);
  add_blocks(builder, of, ranges, sizes, 0, 0);
}

void add_vector(Builder& builder, const Type& of, Contents& from, bool in_bytes) {
  const int64_t count = from.next_count(), length = from.next_count();
  const int64_t stride = in_bytes ? from.next_address() : from.next_count() * of.extent;
  for (int64_t k = 0; k < count; ++k) builder.add(of, k * stride, length);
}

void add_indexed(Builder& builder, const Type& of, Contents& from, bool in_bytes) {
  const int64_t count = from.next_count();
  const std::vector<int64_t> lengths = from.next_counts(count);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t at = in_bytes ? from.next_address() : from.next_count() * of.extent;
    builder.add(of, at, lengths[static_cast<size_t>(k)]);
  }
}

void add_indexed_block(Builder& builder, const Type& of, Contents& from, bool in_bytes) {
  const int64_t count = from.next_count(), length = from.next_count();
  for (int64_t k = 0; k < count; ++k)
    builder.add(of, in_bytes ? from.next_address() : from.next_count() * of.extent, length);
}

void add_struct(Builder& builder, const Children& of, Contents& from) {
  const int64_t count = from.next_count();
  const std::vector<int64_t> lengths = from.next_counts(count);
  for (int64_t k = 0; k < count; ++k)
    builder.add(of[static_cast<size_t>(k)], from.next_address(), lengths[static_cast<size_t>(k)]);
}

bool add_combined(Builder& builder, int combiner, const Children& of, Contents& from) {
  switch (combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: builder.add(of[0], 0, 1); return true;
    case MPI_COMBINER_CONTIGUOUS: builder.add(of[0], 0, from.next_count()); return true;
    case MPI_COMBINER_VECTOR: add_vector(builder, of[0], from, false); return true;
    case MPI_COMBINER_HVECTOR: add_vector(builder, of[0], from, true); return true;
    case MPI_COMBINER_INDEXED: add_indexed(builder, of[0], from, false); return true;
    case MPI_COMBINER_HINDEXED: add_indexed(builder, of[0], from, true); return true;
    case MPI_COMBINER_INDEXED_BLOCK: add_indexed_block(builder, of[0], from, false); return true;
    case MPI_COMBINER_HINDEXED_BLOCK: add_indexed_block(builder, of[0], from, true); return true;
    case MPI_COMBINER_STRUCT: add_struct(builder, of, from); return true;
    case MPI_COMBINER_SUBARRAY: add_subarray(builder, of[0], from); return true;
    case MPI_COMBINER_DARRAY: add_distributed(builder, of[0], from); return true;
  }
  return false;
}

int64_t extent_of(MPI_Datatype type) {
#ifdef SKERRY_MPI_LARGE
  MPI_Count lb = 0, extent = 0;
  real().Type_get_extent_c(type, &lb, &extent);
#else
  MPI_Aint lb = 0, extent = 0;
  real().Type_get_extent(type, &lb, &extent);
#endif
  return extent;
}

Type* make_derived(MPI_Datatype type, int combiner, Contents& contents) {
  const Children of(contents.types);
  if (!of.all()) return nullptr;
  Builder builder;
  if (!add_combined(builder, combiner, of, contents)) {
    fail(MPI_ERR_TYPE, "a datatype of combiner ", combiner, " cannot be taken apart");
    return nullptr;
  }
  return builder.take(extent_of(type));
}

// ---- the cache ----------------------------------------------------------------------------------

int copy_nothing(MPI_Datatype, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

int forget(MPI_Datatype type, int, void*, void*) {
  delete known_types.remove(type);
  return MPI_SUCCESS;
}

int keyval() {
  static const int made = [] {
    int key = MPI_KEYVAL_INVALID;
    real().Type_create_keyval(copy_nothing, forget, &key, nullptr);
    return key;
  }();
  return made;
}

int64_t end_of(const Piece& piece) { return piece.at + static_cast<int64_t>(piece.bytes); }

void find_bounds(Type* made) {
  if (made->pieces.empty()) return;
  made->first = made->lowest = made->pieces[0].at;
  made->highest = end_of(made->pieces[0]);
  for (const Piece& piece : made->pieces) {
    made->lowest = std::min(made->lowest, piece.at);
    made->highest = std::max(made->highest, end_of(piece));
  }
  made->run_highest = made->highest;
  for (const Piece& run : made->runs())
    made->run_highest = std::max(made->run_highest, end_of(run));
}

void find_stride(Type* made) {
  const std::vector<Piece>& pieces = made->pieces;
  if (pieces.size() < 2) return;
  const int64_t stride = pieces[1].at - pieces[0].at;
  for (size_t k = 1; k < pieces.size(); ++k)
    if (pieces[k].bytes != pieces[0].bytes || pieces[k].at - pieces[k - 1].at != stride) return;
  made->block_bytes = pieces[0].bytes;
  made->stride = stride;
}

bool is_predefined(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

std::mutex& making() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

const Type* make_type(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) {
    fail(MPI_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
    return nullptr;
  }
  if (const Type* const found = known_types.find(type); found != nullptr) return found;
  int combiner = MPI_COMBINER_NAMED;
  Contents contents;
  if (!read_contents(type, &combiner, &contents)) {
    fail(MPI_ERR_TYPE, "the datatype is none");
    return nullptr;
  }
  Type* const made = is_predefined(combiner) ? make_named(type)
                                             : make_derived(type, combiner, contents);
  if (made == nullptr) return nullptr;
  find_bounds(made);
  find_stride(made);
  for (const Piece& run : made->runs()) made->run_bytes += run.bytes;
  made->is_contiguous = made->pieces.empty() ||
                        (made->pieces.size() == 1 &&
                         static_cast<int64_t>(made->pieces[0].bytes) == made->extent);
  const std::lock_guard guard(making());
  if (const Type* const found = known_types.find(type);
      found != nullptr) {  // another thread was faster
    delete made;
    return found;
  }
  known_types.add(type, made);
  if (!is_predefined(combiner)) real().Type_set_attr(type, keyval(), nullptr);
  return made;
}

int check_length(const Type& type, MPI_Count count, const char* whose) {
  if (count < 0) return fail(MPI_ERR_COUNT, whose, " count is ", count);
  if (count == 0 || type.bytes == 0) return MPI_SUCCESS;
  int64_t bytes = 0, last = 0, end = 0;
  const bool is_short = !__builtin_mul_overflow(count, std::max(type.bytes, type.run_bytes),
                                                &bytes) &&
                        !__builtin_mul_overflow(count - 1, type.extent, &last) &&
                        !__builtin_add_overflow(last, last < 0 ? type.lowest : type.run_highest,
                                                &end);
  if (is_short) [[likely]]
    return MPI_SUCCESS;
  return fail(MPI_ERR_COUNT, whose, " count is ", count, ", of a datatype of ", type.bytes,
              " bytes and extent ", type.extent, ": more bytes than 63 bits count");
}

}  // namespace skerry::mpi
