#pragma once

#include "check.h"

/* A model directory in the temporary folder: a Llama of two layers with random weights (of
   tests/models/goldens), a tokenizer of single characters, and a chat template. */
const char* tiny_model(void);
/* That model, opened as it is stored. */
IngotSession* tiny_session(void);
void write_file(const char* path, const char* text);
void copy_file(const char* from, const char* to);
