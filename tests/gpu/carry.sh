#!/usr/bin/env bash
# tests/gpu/carry.sh FILE.tar.gz: packs what a machine with a GPU and without network needs for tests/gpu/run: the
# source tree. That machine needs nvcc, cmake, ninja and the packages of deploy/debian-packages.txt. It refuses more than 64 MiB.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
file=${1:?tests/gpu/carry.sh FILE.tar.gz}
limit=$((64 << 20))
git ls-files -z -co --exclude-standard | tar --null -T - -czf "$file" --transform 's,^,stoker/,'
size=$(stat -c %s "$file")
if [ "$size" -gt "$limit" ]; then
  echo "tests/gpu/carry.sh: $file has $size bytes, more than the $limit that may be carried" >&2
  exit 1
fi
echo "$file: $size bytes; there: tar xzf $(basename "$file") && stoker/tests/gpu/run"
