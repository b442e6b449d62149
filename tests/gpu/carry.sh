#!/usr/bin/env bash
# tests/gpu/carry.sh FOLDER: fills FOLDER with what a machine with a GPU and without network needs for tests/gpu/run: the programs
# of build-cuda, stripped; the shared libraries that they need beside LibTorch, CUDA and the C library; the scripts; a text.
# There: FOLDER/tests/gpu/run OUT. It needs that machine's PyTorch of the same version. It refuses more than 64 MiB.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
folder=${1:?tests/gpu/carry.sh FOLDER}
limit=$((64 << 20))
programs=(gpu_kernels gpu_state gpu_speed stoker-train stoker-agent)

rm -rf "$folder/bin" "$folder/lib" "$folder/tests"
mkdir -p "$folder/bin" "$folder/lib" "$folder/tests/gpu"
for program in "${programs[@]}"; do
  strip -o "$folder/bin/$program" "build-cuda/bin/$program"
  { ldd "build-cuda/bin/$program" || true; } | awk '$3 ~ "^/" {print $3}' |
    grep -Ev '/site-packages/|/cuda[-0-9.]*/|/lib(c|m|dl|rt|pthread|resolv|util|cudart|gcc_s|stdc\+\+)\.so' || true
done | sort -u | xargs -r cp -Lt "$folder/lib"
cp build-cuda/bin/gpu_free_order.so "$folder/bin"
cp tests/gpu/run tests/gpu/*.py "$folder/tests/gpu"
cp LICENSE "$folder"
python3 tests/gpu/sources.py >"$folder/sources"
size=$(du -sb "$folder" | cut -f1)
if [ "$size" -gt "$limit" ]; then
  echo "tests/gpu/carry.sh: $folder has $size bytes, more than the $limit that may be carried" >&2
  exit 1
fi
echo "$folder: $size bytes; there: $folder/tests/gpu/run OUT"
