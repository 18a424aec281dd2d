// Matmuls with packed weights by AVX-512 with VNNI: included into the namespace of the files that need them,
// after their target attributes.
#include "ingot/kernels/cpu/x86/vectors512.h"

constexpr int kMaxRows = 12, kPairRows = 6;  // 12 whole-numbered and 12 float sums of 32 registers
constexpr bool kSignedBytes = false, kSumsWords = false;

INGOT_INLINE Ints dot(Ints sum, Ints codes, Ints x) { return _mm512_dpbusd_epi32(sum, codes, x); }
// Never called.
INGOT_INLINE Ints dot_signed(Ints sum, Ints, Ints) { return sum; }
INGOT_INLINE Ints pair_products(Ints codes, Ints) { return codes; }
INGOT_INLINE Ints in_order(Ints a) { return a; }
INGOT_INLINE Ints add_words(Ints a, Ints) { return a; }
INGOT_INLINE Ints add_pairs(Ints sum, Ints) { return sum; }

#include "ingot/kernels/cpu/x86/quantized-inl.h"
