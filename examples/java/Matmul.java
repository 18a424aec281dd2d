import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;

/** Ingot from Java 22 and later, by the foreign function API: java --enable-native-access=ALL-UNNAMED Matmul.java LIBINGOT.SO */
public class Matmul {
  static final int OK = 0, F32 = 0;
  static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
  static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
  static final java.lang.foreign.AddressLayout POINTER = ValueLayout.ADDRESS;

  final Linker linker = Linker.nativeLinker();
  final SymbolLookup library;
  final MethodHandle version, lastError, from, transpose, matmul, read, close;

  Matmul(String path, Arena arena) {
    library = SymbolLookup.libraryLookup(path, arena);
    version = function("ingot_version", FunctionDescriptor.of(POINTER));
    lastError = function("ingot_last_error", FunctionDescriptor.of(POINTER));
    from = function("ingot_tensor_from", FunctionDescriptor.of(INT, POINTER, LONG, POINTER, INT, INT, POINTER, POINTER));
    transpose = function("ingot_tensor_transpose", FunctionDescriptor.of(INT, POINTER, INT, INT, POINTER));
    matmul = function("ingot_matmul", FunctionDescriptor.of(INT, POINTER, POINTER, POINTER, POINTER));
    read = function("ingot_tensor_read", FunctionDescriptor.of(INT, POINTER, POINTER, LONG));
    close = function("ingot_tensor_close", FunctionDescriptor.of(INT, POINTER));
  }

  MethodHandle function(String name, FunctionDescriptor type) {
    return linker.downcallHandle(library.find(name).orElseThrow(), type);
  }

  static String text(MemorySegment pointer) {
    return pointer.reinterpret(Long.MAX_VALUE).getString(0);
  }

  /** IngotError begins with the status, then come the pointers to kind and message. */
  void check(int status) throws Throwable {
    if (status == OK) return;
    MemorySegment error = ((MemorySegment) lastError.invokeExact()).reinterpret(24);
    throw new IllegalStateException(text(error.get(POINTER, 8)) + ": " + text(error.get(POINTER, 16)));
  }

  void run(Arena arena) throws Throwable {
    MemorySegment out = arena.allocate(POINTER);
    MemorySegment values = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 2, 3, 4, 5, 6);
    MemorySegment shape = arena.allocateFrom(LONG, 2, 3);
    check((int) from.invokeExact(values, 24L, shape, 2, F32, MemorySegment.NULL, out));
    MemorySegment a = out.get(POINTER, 0);
    check((int) transpose.invokeExact(a, 0, 1, out));
    MemorySegment b = out.get(POINTER, 0);
    check((int) matmul.invokeExact(a, b, MemorySegment.NULL, out));
    MemorySegment product = out.get(POINTER, 0);
    MemorySegment result = arena.allocate(ValueLayout.JAVA_FLOAT, 4);
    check((int) read.invokeExact(product, result, 16L));
    System.out.println("ingot " + text((MemorySegment) version.invokeExact()) + ": "
        + Arrays.toString(result.toArray(ValueLayout.JAVA_FLOAT)));
    try {
      check((int) matmul.invokeExact(a, a, MemorySegment.NULL, out));
      throw new AssertionError("[2, 3] times [2, 3] gave a tensor");
    } catch (IllegalStateException problem) {
      System.out.println("and an error is an exception: " + problem.getMessage());
    }
    for (MemorySegment tensor : new MemorySegment[] {a, b, product}) check((int) close.invokeExact(tensor));
  }

  public static void main(String[] arguments) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      new Matmul(arguments[0], arena).run(arena);
    }
  }
}
