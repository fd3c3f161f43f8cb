# What the demos share: how they tell what they do, wait, and look at a database. Sourced by them; $here is the tree, $dir the
# directory of the demo, and $keys how many keys the database is given.
# shellcheck shell=bash disable=SC2154 # who sources it has set them
berth=$here/bin/berth

fail() {
	printf '\ndemo: %s\n' "$*" >&2
	exit 1
}

# needs says what is missing before anything is begun.
needs() {
	local program
	[ "$(id -u)" -eq 0 ] || fail "volumes are mounted, so run it as root: sudo make demo"
	[ -x "$berth" ] || fail "there is no bin/berth yet: make build"
	for program in "$@"; do
		command -v "$program" >/dev/null || fail "$program is missing: scripts/install-debian.sh"
	done
}

# --- telling ---------------------------------------------------------------------------------------------------------
step=0
begun=$SECONDS
bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
[ -t 1 ] || bold='' dim='' plain=''
title() {
	step=$((step + 1))
	printf '\n%s%d. %s%s\n' "$bold" "$step" "$*" "$plain"
}
say() { printf '   %s\n' "$*"; }
# brief runs a command, and shows the last line of what it says.
brief() { run "$@" | sed '1b;$!d'; }
# run shows a command as one would type it, then runs it.
run() {
	local shown="${*//$here\//}"
	printf '   %s$ %s%s\n' "$dim" "${shown//$dir\//}" "$plain"
	"$@" </dev/null 2>&1 | sed 's/^/     /'
}

# until_true tries a command until it succeeds, for at most a minute.
until_true() {
	local what=$1 end=$((SECONDS + 60))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "waited 60 s for $what"
		sleep 0.05
	done
}

# --- the database ----------------------------------------------------------------------------------------------------
# Both run a program in the task of a job: with its files, its network and its environment.
in_redis() { "$berth" alloc exec -job "$1" sh -c "redis-cli -p \$NOMAD_PORT_redis $2"; }
answers() { [ "$(in_redis "$1" ping </dev/null)" = PONG ]; }
write_keys() { seq "$keys" | sed 's/.*/SET key:& value-&/' | in_redis "$1" --pipe | sed 's/^/     /'; }
count() { in_redis "$1" dbsize </dev/null; }
# spot_check says what a few keys hold; each must hold what was written.
spot_check() {
	local n
	for n in 1 $((keys / 2)) "$keys"; do
		[ "$(in_redis "$1" "get key:$n" </dev/null)" = "value-$n" ] || fail "key:$n of $1 is wrong"
	done
	[ "$(count "$1")" -ge "$keys" ] || fail "$1 has lost keys"
	say "$1 has $(count "$1") keys; key:1, key:$((keys / 2)) and key:$keys hold what was written"
}
volume_free() { [ "$("$berth" volume status -t '{{len .WriteAllocs}}' "$1")" = 0 ]; }

# --- what is on the machine because of a demo --------------------------------------------------------------------
mounts() { awk -v d="$dir/" 'index($5, d) == 1 { print "mount " $5 }' /proc/self/mountinfo; }
loops() { losetup --list --noheadings --output NAME,BACK-FILE | awk -v d="$dir/" 'index($2, d) == 1 { print "loop device " $1 " on " $2 }'; }

# --- namespaces of the demo's own --------------------------------------------------------------------------------------
# allocs are the names of control groups: those of tasks that were killed with the namespace are empty, and stay.
allocs() { find "$dir" -maxdepth 4 -path '*/data/alloc/*-*' -printf '%f\n' 2>/dev/null || true; }
groups() { while read -r id; do find /sys/fs/cgroup -depth -type d -path "*$id*"; done < <(allocs); }
away() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	set +e
	if [ -n "$inner" ]; then
		first=$(pgrep -P "$inner")
		kill -KILL "$inner" 2>/dev/null
		wait "$inner" 2>/dev/null
		# A first process is over when all others of its namespace are.
		while grep -qs '^State:.[^ZX]' "/proc/${first:-none}/status"; do sleep 0.05; done
	fi
	groups | while read -r group; do
		until rmdir "$group" 2>/dev/null || [ ! -d "$group" ]; do sleep 0.05; done # the kernel ends its processes
	done
	loops | while read -r _ _ name _; do losetup -d "$name"; done
	if [ $status -ge 128 ]; then
		printf '\ndemo: interrupted; what it had made is taken away\n' >&2
	elif [ $status -ne 0 ]; then
		tail -n 8 "$dir"/*/agent.log >&2
	fi
	rm -rf --one-file-system "$dir"
	exit $status
}
# enclosed plays the demo, which finds its directory in BERTH_DEMO_DIR, in namespaces of its own: of processes, mounts and
# the network. With the first process there the kernel ends all of it, however the demo ends. It leaves in the file step
# how far it came.
enclosed() {
	local what
	dir=$(mktemp -d "${TMPDIR:-/tmp}/demo-XXXXXX")
	inner=
	trap away EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	BERTH_DEMO_DIR=$dir unshare --net --mount --pid --fork --kill-child --mount-proc "$0" &
	inner=$!
	wait "$inner" || fail "it did not go as it should"
	inner=
	step=$(cat "$dir/step")
	title "After: nothing is left that was not there before"
	what=$(mounts; loops; groups)
	[ -z "$what" ] || fail "left behind: $what"
	rm -rf --one-file-system "$dir" || fail "$dir could not be removed"
	say "no mount, no loop device, no control group; the namespaces are gone with their processes; $dir is removed"
	printf '\n%sAll of that took %d s.%s\n' "$bold" $((SECONDS - begun)) "$plain"
}
