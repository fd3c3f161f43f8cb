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
