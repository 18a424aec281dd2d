/* Memory of one's own as a tensor, a matmul on it, and DLPack, by which other libraries share it: no value is
 * copied. */
#include <dlpack/dlpack.h>
#include <ingot/ingot.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != INGOT_OK) return fprintf(stderr, "error: %s\n", ingot_last_error()->message), 1

int main(void) {
  float mine[] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  IngotTensor *a = NULL, *b = NULL, *product = NULL, *shared = NULL;
  TRY(ingot_tensor_view(mine, shape, NULL, 2, INGOT_F32, "cpu", NULL, NULL, &a));
  TRY(ingot_tensor_transpose(a, 0, 1, &b));
  TRY(ingot_matmul(a, b, NULL, &product));

  struct DLManagedTensor* capsule = NULL;
  TRY(ingot_tensor_to_dlpack(product, &capsule)); /* what torch.from_dlpack and its like take */
  const float* values = capsule->dl_tensor.data;
  printf("[[%g, %g], [%g, %g]]\n", values[0], values[1], values[2], values[3]);
  TRY(ingot_tensor_from_dlpack(capsule, &shared)); /* the other way; it owns the capsule now */

  IngotTensor* all[] = {a, b, product, shared};
  for (int i = 0; i < 4; ++i) TRY(ingot_tensor_close(all[i]));
  return 0;
}
