// tasks.hpp: work that balances itself. The members of a group draw tasks, each task goes to one of
// them, once. Link libskerry_array.
//
//   sk::Tasks tasks(a);                    // the tiles of an array
//   while (auto tile = tasks.next()) work(*tile);
//   a.sync();                              // the loop does not wait for the others
//
// A member begins with the tiles of its own block. Then it helps the fullest of its node, then
// other nodes, the next one first. A draw is one fetch-and-add; while much is left it takes more.
#ifndef SKERRY_TASKS_HPP
#define SKERRY_TASKS_HPP

#include <optional>

#include "skerry/array.hpp"

namespace sk {
inline namespace v0 {

class SKERRY_API Tasks {
 public:
  // Collective. `tile`: edges, one per dimension; empty: some 32 tiles a member. Of a mirrored
  // array the members share all tiles. Errors: INVALID.
  explicit Tasks(const AnyArray& array, std::span<const std::int64_t> tile = {});
  // The numbers 0 .. count - 1: next() is {i, i + 1}. Collective. Errors: INVALID.
  Tasks(const Group& group, std::int64_t count);
  Tasks(Tasks&&) noexcept;
  Tasks& operator=(Tasks&&) noexcept;
  ~Tasks();  // collective, as every owner of skerry.hpp

  // One-sided; one thread at a time. Nothing: all tasks are drawn, though others may be at work.
  std::optional<Patch> next();
  std::int64_t size() const;   // tasks of all members
  std::int64_t drawn() const;  // so far by all members; one-sided

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace sk
#endif  // SKERRY_TASKS_HPP
