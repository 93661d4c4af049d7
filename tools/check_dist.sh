#!/usr/bin/env bash
# Install what `make dist` built into a fresh environment, the way a user would, and use it there:
# the wheel with its extra for the command line first, then the sdist in its place.
#
#     tools/check_dist.sh [DIST]        DIST is the folder with both, dist/ by default
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
dist=$(cd "${1:-$root/dist}" && pwd)
python=${PYTHON:-$root/.venv/bin/python}
wheel=$(ls "$dist"/polysharp-*.whl)
sdist=$(ls "$dist"/polysharp-*.tar.gz)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # nothing of the checkout is importable from here

expected=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/src/polysharp/_version.py")
for file in "$wheel" "$sdist"; do
  case $file in
  *"polysharp-$expected"*) ;;
  *) echo "$file does not bear the version $expected" >&2 && exit 1 ;;
  esac
done
"$python" "$root/tools/shipped.py" "$wheel" "$sdist"

use() {
  polysharp --version
  test "$(polysharp --version)" = "polysharp $expected"
  python -c 'import polysharp, pathlib, sys; sys.exit("src" in pathlib.Path(polysharp.__file__).parts)'
  polysharp info >/dev/null
  polysharp serve --help >/dev/null
  polysharp demo --table rides.csv
  polysharp fit rides.csv --target power --max-terms 5 --max-inputs 4 --gamma 1 --quiet \
    --require-proof --output model.json --report report.html
  polysharp predict model.json rides.csv --output predictions.parquet
  grep -q '<html' report.html
  serve
  rm -f rides.csv model.json report.html predictions.parquet
}

# The page answers at the address it prints, and ends when told to.
serve() {
  polysharp serve --no-browser >address &
  page=$!
  until grep -q http address; do sleep 0.2; done
  python - "$(grep -o 'http[^ ]*' address)" <<'END'
import sys, urllib.request

for name in ("", "page.js", "page.css", "state"):
    with urllib.request.urlopen(sys.argv[1] + name) as reply:
        assert reply.status == 200 and reply.read(), name
END
  kill -TERM "$page" && wait "$page"
}

"$python" -m venv fresh
export PATH="$work/fresh/bin:$PATH"
unset PYTHONPATH VIRTUAL_ENV
install="python -m pip install --disable-pip-version-check --quiet --prefer-binary"

echo "== wheel: $(basename "$wheel")"
$install "$wheel[cli]"
use
echo "== sdist: $(basename "$sdist")"
python -m pip uninstall --quiet --yes polysharp
$install --no-deps "$sdist"
use
echo "both install and work"
