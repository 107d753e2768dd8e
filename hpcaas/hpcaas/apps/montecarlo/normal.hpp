// Inverse of the standard normal distribution, branch-free so that compilers can vectorise a loop
// over lanes. Rational approximations of M. J. Wichura, "Algorithm AS 241", Applied Statistics 37
// (1988), relative error 1e-16 in exact arithmetic. Its third region (p < 1.4e-11) cannot be
// reached: 32-bit points are never closer to 0 or 1 than 2^-33.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Source variant `plain` leaves inlining to the compiler, so that the variant axis shows what the
// hint is worth.
#if defined(HPCAAS_VARIANT_PLAIN)
#define HPCAAS_INLINE inline
#else
#define HPCAAS_INLINE [[gnu::always_inline]] inline
#endif

namespace montecarlo {

// Natural logarithm for normal positive doubles; 2 ulp. libm's log would stop vectorisation unless
// -ffast-math is given, and then the benchmark would measure the presence of libmvec rather than
// the compiler.
HPCAAS_INLINE double log_positive(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  // Mantissa into [sqrt(1/2), sqrt(2)): 0x3fe6a09e667f3bcd is sqrt(1/2).
  const std::uint64_t shifted = bits - 0x3fe6a09e667f3bcdULL;
  const std::int64_t exponent = static_cast<std::int64_t>(shifted) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
  // Adding 1.5 * 2^52 converts a small integer to double with integer operations only: AVX2 has no
  // 64-bit conversion.
  const double e = std::bit_cast<double>(static_cast<std::uint64_t>(exponent) +
                                         0x4338000000000000ULL) -
                   6755399441055744.0;
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  // 2 atanh(s): |s| <= 0.1716, so z^10 is below 1e-15.
  const double tail = z * (1.0 / 3 +
                           z * (1.0 / 5 +
                                z * (1.0 / 7 +
                                     z * (1.0 / 9 +
                                          z * (1.0 / 11 +
                                               z * (1.0 / 13 +
                                                    z * (1.0 / 15 + z * (1.0 / 17 + z / 19))))))));
  return e * 0.693147180559945309417 + 2.0 * (s + s * tail);
}

// u in (0, 1). Both regions are computed and one is chosen: cheaper than a branch that 15 % of the
// lanes take.
HPCAAS_INLINE double inverse_normal(double u) {
  const double q = u - 0.5;
  const double r = 0.180625 - q * q;
  const double central =
      q *
      (((((((r * 2509.0809287301226727 + 33430.575583588128105) * r + 67265.770927008700853) * r +
           45921.953931549871457) *
              r +
          13731.693765509461125) *
             r +
         1971.5909503065514427) *
            r +
        133.14166789178437745) *
           r +
       3.387132872796366608) /
      (((((((r * 5226.495278852545925 + 28729.085735721942674) * r + 39307.89580009271061) * r +
           21213.794301586595867) *
              r +
          5394.1960214247511077) *
             r +
         687.1870074920579083) *
            r +
        42.313330701600911252) *
           r +
       1.0);
  const double p = q < 0.0 ? u : 1.0 - u;
  const double t = std::sqrt(-log_positive(p)) - 1.6;
  const double outer = (((((((t * 7.7454501427834140764e-4 + 0.0227238449892691845833) * t +
                             0.24178072517745061177) *
                                t +
                            1.27045825245236838258) *
                               t +
                           3.64784832476320460504) *
                              t +
                          5.7694972214606914055) *
                             t +
                         4.6303378461565452959) *
                            t +
                        1.42343711074968357734) /
                       (((((((t * 1.05075007164441684324e-9 + 5.475938084995344946e-4) * t +
                             0.0151986665636164571966) *
                                t +
                            0.14810397642748007459) *
                               t +
                           0.68976733498510000455) *
                              t +
                          1.6763848301838038494) *
                             t +
                         2.05319162663775882187) *
                            t +
                        1.0);
  const double signed_outer = q < 0.0 ? -outer : outer;
  return r >= 0.0 ? central : signed_outer;
}

}  // namespace montecarlo
