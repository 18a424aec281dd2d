#pragma once

#include <ingot/ingot.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A test is a function; a check that does not hold is counted and told, and the test goes on. */
typedef struct {
  const char* name;
  void (*run)(void);
} TestCase;

extern int failed_checks;
void tell_failure(const char* file, int line, const char* what);
/* A file of the build's temporary folder of this run. The string lives until the next call but seven. */
const char* temporary(const char* name);
/* A file of the repository. The same holds. */
const char* source_file(const char* name);

#define CHECK(condition) ((condition) ? (void)0 : tell_failure(__FILE__, __LINE__, #condition))
/* The call succeeds; what ingot_last_error() says is told where it does not. */
#define CHECK_OK(call) ((call) == INGOT_OK ? (void)0 : tell_failure(__FILE__, __LINE__, NULL))
/* The call fails with this status, and its message has `part`. */
#define CHECK_FAILS(status_, part, call) check_fails(__FILE__, __LINE__, #call, (status_), (part), (call))
void check_fails(const char* file, int line, const char* text, IngotStatus wanted, const char* part,
                 IngotStatus got);
#define NEAR(a, b) (fabs((double)(a) - (double)(b)) <= 1e-5 * (1 + fabs((double)(b))))
