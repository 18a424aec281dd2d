// The operations of quantized-inl.h on 512-bit vectors, but for dot(). Included into the namespace of each
// instruction set that has them, after its target attributes.
using Ints = __m512i;
using Floats = __m512;
constexpr std::int64_t kLanes = 16;

INGOT_INLINE Ints zero_ints() { return _mm512_setzero_si512(); }
INGOT_INLINE Floats zero_floats() { return _mm512_setzero_ps(); }
INGOT_INLINE Ints load(const void* p) { return _mm512_load_si512(p); }
INGOT_INLINE Ints splat(std::int32_t value) { return _mm512_set1_epi32(value); }
INGOT_INLINE Floats splat(float value) { return _mm512_set1_ps(value); }
INGOT_INLINE Ints splat_byte(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }
INGOT_INLINE Ints splat_word(const std::uint8_t* p) {
  std::int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}
INGOT_INLINE Floats splat_float(const std::uint8_t* p) {
  float value;
  __builtin_memcpy(&value, p, 4);
  return _mm512_set1_ps(value);
}
INGOT_INLINE Ints load_table(const std::uint8_t* p) {
  return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}
// Byte by byte; indices are below 16.
INGOT_INLINE Ints look_up(Ints table, Ints indices) { return _mm512_shuffle_epi8(table, indices); }
INGOT_INLINE Ints bits_and(Ints a, Ints b) { return _mm512_and_si512(a, b); }
INGOT_INLINE Ints add_bytes(Ints a, Ints b) { return _mm512_add_epi8(a, b); }
INGOT_INLINE Ints or_masked(Ints a, Ints b, Ints mask) {  // a | (b & mask)
  return _mm512_ternarylogic_epi32(a, b, mask, 0xf8);
}
INGOT_INLINE Ints shift_left(Ints a, int n) { return _mm512_slli_epi32(a, static_cast<unsigned>(n)); }
INGOT_INLINE Ints shift_right(Ints a, int n) { return _mm512_srli_epi32(a, static_cast<unsigned>(n)); }
INGOT_INLINE Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
INGOT_INLINE Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
INGOT_INLINE Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
INGOT_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
INGOT_INLINE Floats negative_multiply_add(Floats a, Floats b, Floats c) { return _mm512_fnmadd_ps(a, b, c); }
INGOT_INLINE Floats load_halves(const std::uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
}
INGOT_INLINE Floats load_unsigned_bytes(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))));
}
INGOT_INLINE Floats load_signed_bytes(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))));
}
INGOT_INLINE __mmask16 first_lanes(std::int64_t n) {
  return n >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1U << n) - 1);
}
INGOT_INLINE Floats load_floats(const float* p, std::int64_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
INGOT_INLINE Floats load_all_floats(const void* p) { return _mm512_load_ps(p); }
INGOT_INLINE void store_floats(float* p, Floats v, std::int64_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), v);
}
INGOT_INLINE Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
INGOT_INLINE Floats absolute(Floats a) { return _mm512_abs_ps(a); }
INGOT_INLINE Floats maximum(Floats a, Floats b) { return _mm512_max_ps(a, b); }
INGOT_INLINE Floats unless_below(Floats top, Floats least, Floats x) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(top, least, _CMP_NLT_UQ), x);
}
INGOT_INLINE Ints to_ints(Floats a) { return _mm512_cvtps_epi32(a); }
INGOT_INLINE Ints least_bytes(Ints a, Ints b) { return _mm512_min_epu8(a, b); }
INGOT_INLINE Ints most_bytes(Ints a, Ints b) { return _mm512_max_epu8(a, b); }
INGOT_INLINE void store(void* p, Ints v) { _mm512_store_si512(p, v); }
