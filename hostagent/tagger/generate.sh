#!/bin/sh
# Compiles bpf/tagger.c. It needs clang, llvm-strip and libbpf's headers (Debian:
# clang llvm libbpf-dev), the same clang for the same bytes. With an argument it
# writes there instead, and leaves SHA256SUMS alone.
set -eu
cd "$(dirname "$0")"
out=${1:-tagger_bpfel.o}
# Relative names, so that the folder's own is not in the object; the kernel's
# headers for this machine are below its name where Debian keeps them.
${CLANG:-clang} -O2 -g -Wall -Wextra -Werror -target bpfel -mcpu=v3 \
	-I"/usr/include/$(uname -m)-linux-gnu" -fdebug-compilation-dir=. \
	-c bpf/tagger.c -o "$out"
${LLVM_STRIP:-llvm-strip} -g "$out"
if [ $# -eq 0 ]; then
	{
		echo "# $(${CLANG:-clang} --version | head -1)"
		sha256sum bpf/tagger.c tagger_bpfel.o
	} >SHA256SUMS
fi
