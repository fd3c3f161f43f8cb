#!/bin/bash
# Builds the program of an earlier commit and has this one take over its data directory, with volumes in use.
# usage: scripts/upgrade.sh COMMIT [TEST]
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d /tmp/berth-earlier.XXXXXX)
trap 'rm -rf "$dir"' EXIT
git archive "$1" | tar -x -C "$dir"
make -C "$dir" --no-print-directory build
BERTH_EARLIER="$dir/bin/berth" go test -count=1 -timeout 10m -run "^${2:-TestAnUpgradeTouchesNothing}\$" -v ./e2e/
