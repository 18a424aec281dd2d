#!/bin/sh
# run_foreign.sh LANGUAGE LIBINGOT.SO INCLUDE BUILD: builds and runs the example of a language, as a test. 77: no compiler.
set -eu
language=$1 library=$2 include=$3 build=$4
here=$(dirname "$0")
folder=$(dirname "$library")
program=$build/example_$language

skip() {
  echo "skipped: $1"
  exit 77
}

case $language in
  rust)
    rustc --version || skip "rustc is not here"
    rustc -O "$here/rust/matmul.rs" -L "$folder" -C link-arg=-Wl,-rpath,"$folder" -o "$program"
    set -- "$program"
    ;;
  go)
    go version || skip "go is not here"
    export CGO_ENABLED=1 CGO_CFLAGS="-I$include" CGO_LDFLAGS="-L$folder -lingot -Wl,-rpath,$folder"
    export GOCACHE="$build/go-cache" GO111MODULE=off
    go build -o "$program" "$here/go/matmul.go"
    set -- "$program"
    ;;
  java)
    # One of several that are installed may be new enough.
    java='' newest=0
    for each in "${JAVA_HOME:-/nowhere}/bin/java" java /usr/lib/jvm/*/bin/java; do
      major=$("$each" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p') || continue
      [ "${major:-0}" -le "$newest" ] || { java=$each newest=$major; }
      [ "$newest" -lt 22 ] || break
    done
    [ "$newest" -gt 0 ] || skip "the foreign function API needs Java 22; here is none"
    [ "$newest" -ge 22 ] || skip "the foreign function API needs Java 22; the newest here is $newest"
    set -- "$java" --enable-native-access=ALL-UNNAMED "$here/java/Matmul.java" "$library"
    ;;
esac
"$@" >"$program.txt"
cat "$program.txt"
grep -q '14.*32.*32.*77' "$program.txt"  # the product
grep -q 'shape_mismatch' "$program.txt"  # and an error, in the language's own form
