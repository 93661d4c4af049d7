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
"$python" - "$wheel" "$sdist" <<'END'
import sys, tarfile, zipfile

inside = [zipfile.ZipFile(sys.argv[1]).namelist(), tarfile.open(sys.argv[2]).getnames()]
for names in inside:
    for wanted in ("polysharp/py.typed", "polysharp/report/style.css", "polysharp/cli/__init__.py"):
        assert any(name.endswith(wanted) for name in names), f"{wanted} is not shipped"
END

use() {
  polysharp --version
  test "$(polysharp --version)" = "polysharp $expected"
  python -c 'import polysharp, pathlib, sys; sys.exit("src" in pathlib.Path(polysharp.__file__).parts)'
  polysharp info >/dev/null
  polysharp demo --table rides.csv
  polysharp fit rides.csv --target power --max-terms 5 --max-inputs 4 --gamma 1 --quiet \
    --require-proof --output model.json --report report.html
  polysharp predict model.json rides.csv --output predictions.parquet
  grep -q '<html' report.html
  rm -f rides.csv model.json report.html predictions.parquet
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
