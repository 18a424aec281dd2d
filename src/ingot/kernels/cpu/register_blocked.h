#pragma once

namespace ingot::kernels::cpu {

// As in register.h: convolutions of images in blocks of channels.
void register_blocked_conv_library();
void register_quantized_conv_simd();
void register_winograd_conv_simd();

void register_blocked_conv_reference();
void register_quantized_conv_reference();
void register_winograd_conv_reference();

}  // namespace ingot::kernels::cpu
