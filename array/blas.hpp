// The matrix product of a BLAS: of the one that was linked (linked_blas.cpp), or of one found when
// it is first needed (loaded_blas.cpp). SKERRY_BLAS of the build chooses.
#pragma once

#include <cstdint>
#include <type_traits>

namespace sk {
inline namespace v0 {
namespace blas {

// Every BLAS has Fortran's symbols, not every one a C header. `Index` is int, or std::int64_t in a
// BLAS whose names end in 64_.
template <class Index, class T>
using Gemm = void(const char*, const char*, const Index*, const Index*, const Index*, const T*,
                  const T*, const Index*, const T*, const Index*, const T*, T*, const Index*);

struct Library {
  Gemm<int, float>* sgemm = nullptr;  // these, or all of the wide ones
  Gemm<int, double>* dgemm = nullptr;
  Gemm<std::int64_t, float>* wide_sgemm = nullptr;
  Gemm<std::int64_t, double>* wide_dgemm = nullptr;
  void (*set_threads)(int) = nullptr;  // both OpenBLAS only, null elsewhere
  int (*threads)() = nullptr;
};

// Throws Error (SKERRY_ERR_UNSUPPORTED) if there is none.
const Library& library();

// While it lives, the product has one thread: the ranks are the parallelism.
class OneThread {
 public:
  OneThread() : before_(library().threads ? library().threads() : 1) {
    if (before_ != 1) library().set_threads(1);
  }
  OneThread(const OneThread&) = delete;
  ~OneThread() {
    if (before_ != 1) library().set_threads(before_);
  }

 private:
  const int before_;
};

// Column-major c (m x n) = alpha op(a) op(b) + beta c. Extents are below 2^31.
template <class T>
void gemm(char ta, char tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a,
          std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
  const auto call = [&]<class Index>(Gemm<Index, T>* product) {
    const auto mm = static_cast<Index>(m), nn = static_cast<Index>(n), kk = static_cast<Index>(k);
    const auto la = static_cast<Index>(lda), lb = static_cast<Index>(ldb),
               lc = static_cast<Index>(ldc);
    product(&ta, &tb, &mm, &nn, &kk, &alpha, a, &la, b, &lb, &beta, c, &lc);
  };
  const Library& found = library();
  if constexpr (std::is_same_v<T, float>) found.sgemm ? call(found.sgemm) : call(found.wide_sgemm);
  else found.dgemm ? call(found.dgemm) : call(found.wide_dgemm);
}

}  // namespace blas
}  // namespace v0
}  // namespace sk
