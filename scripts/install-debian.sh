#!/bin/sh
# Installs the Debian packages that Berth's demo and tests use, by name, only those that are missing, and starts none
# of their services: while apt works, policy-rc.d forbids it, and is put back as it was in every case.
# Usage: install-debian.sh [package ...]      without names: all that the tests need
set -eu

all="zsh fish man-db xfsprogs btrfs-progs e2fsprogs redis-server redis-tools util-linux mount iproute2 procps gcc libc6-dev ca-certificates docker.io docker-registry busybox-static python3 curl jq postgresql-15 openjdk-17-jdk-headless qemu-system-x86"
if [ $# -eq 0 ]; then
	# shellcheck disable=SC2086 # a list of names
	set -- $all
fi

if ! command -v dpkg-query >/dev/null 2>&1; then
	echo "install-debian.sh: this is not a Debian system; install what these packages hold by other means: $*" >&2
	exit 1
fi

missing=""
for package in "$@"; do
	status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
	[ "$status" = "install ok installed" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null 2>&1; then
		echo "install-debian.sh: run as root to install:$missing" >&2
		exit 1
	fi
	as_root=sudo
fi

policy=/usr/sbin/policy-rc.d
kept=$policy.berth-kept
work=$(mktemp -d)

restore() {
	status=$?
	trap - EXIT
	if [ -e "$work/ours" ]; then
		if [ -e "$kept" ] || [ -L "$kept" ]; then
			$as_root mv -f "$kept" "$policy"
		else
			$as_root rm -f "$policy"
		fi
	fi
	rm -rf "$work"
	exit "$status"
}
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# A run that was killed outright left the machine's own policy aside: that one is the one to restore.
if [ ! -e "$kept" ] && [ ! -L "$kept" ] && { [ -e "$policy" ] || [ -L "$policy" ]; } && ! grep -qs 'berth: no service' "$policy"; then
	$as_root mv "$policy" "$kept"
fi
: >"$work/ours"
printf '#!/bin/sh\n# berth: no service starts while its packages are installed\nexit 101\n' >"$work/policy"
$as_root install -m 0755 "$work/policy" "$policy"

quiet() {
	if ! "$@" >"$work/log" 2>&1 </dev/null; then
		cat "$work/log" >&2
		echo "install-debian.sh: $* failed; needed:$missing" >&2
		return 1
	fi
}
apt() {
	quiet $as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

echo "installing Debian packages:$missing"
apt update
# shellcheck disable=SC2086 # a list of names
apt install --no-install-recommends $missing
