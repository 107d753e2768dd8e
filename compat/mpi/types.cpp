#include "types.hpp"

#include <skerry/skerry.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "errors.hpp"
#include "library.hpp"

namespace skerry::mpi {

constinit Registry<MPI_Datatype, const Type> known_types;

namespace {

// ---- derived types ------------------------------------------------------------------------------

// What is put together: the data of a type's elements, or the runs of its pairs.
enum class Part : uint8_t { data, pair_runs };

// Collects the elements of other types that a type is made of.
class Builder {
 public:
  explicit Builder(Part part) : part_(part) {}
  void add(const Type& of, int64_t at, int64_t count) {
    if (count > 0) note(of);
    made_.add(shape_of(of), at, count, of.extent);
  }
  // `length` elements, and that `count` times, `stride` bytes apart.
  void add_blocks(const Type& of, int64_t length, int64_t count, int64_t stride) {
    if (length <= 0 || count <= 0) return;
    note(of);
    LayoutBuilder block;
    block.add(shape_of(of), 0, length, of.extent);
    made_.add(block.take(), 0, count, stride);
  }
  void add(const Type& of, const Shape& made_of_it) {
    if (made_of_it->count > 0) note(of);
    made_.add(made_of_it, 0, 1, 0);
  }
  const Shape& shape_of(const Type& of) const {
    return part_ == Part::pair_runs && of.pair_runs != nullptr ? of.pair_runs : of.data;
  }
  // Of all elements; null: there are none, or they are of several.
  const Basic* basic() const { return basic_; }
  Shape take() { return made_.take(); }

 private:
  void note(const Type& of) {
    if (of.bytes == 0) return;
    if (is_first_) basic_ = of.basic;
    else if (!are_same(basic_, of.basic)) basic_ = nullptr;
    is_first_ = false;
  }
  const Part part_;
  LayoutBuilder made_;
  const Basic* basic_ = nullptr;
  bool is_first_ = true;
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

  void read_again() { integer = address = count = 0; }
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
    if (!is_predefined(combiner)) real().Type_free(&type);
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
void add_array(Builder& builder, const Type& of, const std::vector<Ranges>& ranges,
               const std::vector<int64_t>& sizes) {
  Shape made = builder.shape_of(of);
  int64_t stride = of.extent;
  for (size_t k = ranges.size(); k-- > 0;) {
    LayoutBuilder dimension;
    for (const auto& [first, count] : ranges[k]) dimension.add(made, first * stride, count, stride);
    made = dimension.take();
    stride *= sizes[k];
  }
  builder.add(of, made);
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
  add_array(builder, of, ranges, sizes);
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
  add_array(builder, of, ranges, sizes);
}

void add_vector(Builder& builder, const Type& of, Contents& from, bool in_bytes) {
  const int64_t count = from.next_count(), length = from.next_count();
  const int64_t stride = in_bytes ? from.next_address() : from.next_count() * of.extent;
  builder.add_blocks(of, length, count, stride);
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
  Builder data(Part::data);
  if (!add_combined(data, combiner, of, contents)) {
    fail(MPI_ERR_TYPE, "a datatype of combiner ", combiner, " cannot be taken apart");
    return nullptr;
  }
  auto* const made = new Type;
  made->basic = data.basic();
  made->data = data.take();
  made->extent = extent_of(type);
  if (made->basic != nullptr && made->basic->sort == Sort::pair) {
    Builder runs(Part::pair_runs);
    contents.read_again();
    add_combined(runs, combiner, of, contents);
    made->pair_runs = runs.take();
  }
  return made;
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

void find_stride(Type* made) {
  const Layout& data = *made->data;
  const std::vector<Piece>& pieces = data.pieces;
  if (data.loops.size() == 1 && data.loops[0].of == nullptr) {
    made->block_bytes = data.loops[0].bytes;
    made->stride = data.loops[0].stride;
  }
  if (pieces.size() < 2) return;
  const int64_t stride = pieces[1].at - pieces[0].at;
  for (size_t k = 1; k < pieces.size(); ++k)
    if (pieces[k].bytes != pieces[0].bytes || pieces[k].at - pieces[k - 1].at != stride) return;
  made->block_bytes = pieces[0].bytes;
  made->stride = stride;
}

void describe(Type* made) {
  const Layout &data = *made->data, &runs = made->runs();
  made->bytes = data.bytes;
  made->run_bytes = runs.bytes;
  made->first = data.first;
  made->lowest = data.lowest;
  made->highest = data.highest;
  made->run_highest = std::max(data.highest, runs.highest);
  made->is_contiguous = data.count == 0 ||
                        (data.count == 1 && static_cast<int64_t>(data.bytes) == made->extent);
  find_stride(made);
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
  Type* const made = is_predefined(combiner) ? make_predefined(type, combiner)
                                             : make_derived(type, combiner, contents);
  if (made == nullptr) return nullptr;
  describe(made);
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
