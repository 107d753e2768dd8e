// The BLAS that the library was linked with.
#include "blas.hpp"

extern "C" {
sk::blas::Gemm<int, float> sgemm_;
sk::blas::Gemm<int, double> dgemm_;
[[gnu::weak]] void openblas_set_num_threads(int);
[[gnu::weak]] int openblas_get_num_threads();
}

namespace sk {
inline namespace v0 {
namespace blas {

const Library& library() {
  static const Library linked = [] {
    Library found;
    found.sgemm = sgemm_;
    found.dgemm = dgemm_;
    if (openblas_set_num_threads && openblas_get_num_threads) {
      found.set_threads = openblas_set_num_threads;
      found.threads = openblas_get_num_threads;
    }
    return found;
  }();
  return linked;
}

}  // namespace blas
}  // namespace v0
}  // namespace sk
