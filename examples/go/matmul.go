// Ingot from Go, by cgo: CGO_CFLAGS="-I INCLUDE" CGO_LDFLAGS="-L LIB -lingot" go run matmul.go
package main

/*
#include <ingot/ingot.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// call runs f on one thread, as the last error is the thread's, and gives the error of a status that is not OK.
func call(f func() C.IngotStatus) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if f() == C.INGOT_OK {
		return nil
	}
	last := C.ingot_last_error()
	return errors.New(C.GoString(last.kind) + ": " + C.GoString(last.message))
}

func tensor(values []float32, shape []int64) (t *C.IngotTensor, err error) {
	err = call(func() C.IngotStatus {
		return C.ingot_tensor_from(unsafe.Pointer(&values[0]), C.size_t(4*len(values)), (*C.int64_t)(&shape[0]),
			C.int32_t(len(shape)), C.INGOT_F32, nil, &t)
	})
	return
}

func run() error {
	a, err := tensor([]float32{1, 2, 3, 4, 5, 6}, []int64{2, 3})
	if err != nil {
		return err
	}
	defer C.ingot_tensor_close(a)
	b, err := tensor([]float32{1, 4, 2, 5, 3, 6}, []int64{3, 2})
	if err != nil {
		return err
	}
	defer C.ingot_tensor_close(b)
	var product *C.IngotTensor
	if err := call(func() C.IngotStatus { return C.ingot_matmul(a, b, nil, &product) }); err != nil {
		return err
	}
	defer C.ingot_tensor_close(product)
	values := make([]float32, 4)
	if err := call(func() C.IngotStatus {
		return C.ingot_tensor_read(product, unsafe.Pointer(&values[0]), C.size_t(4*len(values)))
	}); err != nil {
		return err
	}
	fmt.Println("ingot", C.GoString(C.ingot_version()), values)
	if err := call(func() C.IngotStatus { return C.ingot_matmul(a, a, nil, &product) }); err != nil {
		fmt.Println("and an error is a value:", err)
		return nil
	}
	return errors.New("[2, 3] times [2, 3] gave a tensor")
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
