#!/bin/bash
# Shows what Berth is for: a real database keeps its data on a real volume through the crash of its agent, a stop, a
# snapshot and a clone; and at the end nothing is left on the machine. Needs root, bin/berth (make build) and Debian's
# redis-server. Everything happens beneath one new directory in /tmp, on ports of the loopback interface.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
keys=10000
# shellcheck source=scripts/demo-common.sh
. "$here/scripts/demo-common.sh"
needs redis-server redis-cli mkfs.ext4 losetup pgrep

dir=$(mktemp -d /tmp/demo-XXXXXX)
agent=

# --- the agent -------------------------------------------------------------------------------------------------------
free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 10000))
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}
port=$(free_port)
export BERTH_ADDR=http://127.0.0.1:$port

plugin_healthy() { [ "$("$berth" plugin status -t '{{.NodesHealthy}} {{.ControllersHealthy}}' local-csi)" = "1 1" ]; }
start_agent() {
	# A session of its own: Ctrl-C in the terminal is for this script, which then stops the agent.
	setsid "$berth" agent -dev -data-dir "$dir/data" -http-port "$port" >>"$dir/agent.log" 2>&1 &
	agent=$!
	until_true "the agent's storage to be ready (its log: $dir/agent.log)" plugin_healthy
}
# stop_agent ends the agent as Ctrl-C does; its tasks end with it.
stop_agent() {
	[ -n "$agent" ] || return 0
	kill -INT "$agent" 2>/dev/null || true
	wait "$agent" || fail "the agent did not stop cleanly: $(tail -n 3 "$dir/agent.log")"
	agent=
}

# --- what is on the machine because of this demo ----------------------------------------------------------------------
# By the directory in its arguments or environment, or by the cgroup of an allocation: redis overwrites its environment.
processes() {
	local p pattern
	pattern=$dir/data$(cd "$dir/data/alloc" 2>/dev/null && printf '\n%s' *-*)
	for p in /proc/[0-9]*; do
		if [ "${p#/proc/}" != "$$" ] && cat "$p/cmdline" "$p/environ" "$p/cgroup" 2>/dev/null | tr '\0' '\n' | grep -qF "$pattern"; then
			echo "process ${p#/proc/} $(tr '\0' ' ' <"$p/cmdline" 2>/dev/null | cut -c1-70)"
		fi
	done
}
left() {
	mounts
	loops
	processes
}

# cleanup runs at every end of the script, also after Ctrl-C and after a failure half-way.
cleanup() {
	local status=$? what
	trap - EXIT
	trap '' INT TERM
	set +e
	if [ -z "$agent" ] && [ -n "$(left)" ]; then
		setsid "$berth" agent -dev -data-dir "$dir/data" -http-port "$port" >>"$dir/agent.log" 2>&1 & # it knows how to end them
		agent=$!
		sleep 2
	fi
	if [ -n "$agent" ]; then
		kill -INT "$agent" 2>/dev/null
		wait "$agent" 2>/dev/null
	fi
	while read -r what id rest; do # what even that has not ended
		case $what in
		process) kill -KILL "$id" ;;
		mount) umount -l "$id" ;;
		loop) losetup -d "${rest%% on *}" ;;
		esac
	done < <(processes && mounts | tac && loops)
	if [ $status -ge 128 ]; then
		printf '\ndemo: interrupted; what it had made is taken away\n' >&2
	elif [ $status -ne 0 ] && [ -s "$dir/agent.log" ]; then
		printf '\nThe end of the agent'"'"'s log:\n' >&2
		tail -n 20 "$dir/agent.log" >&2
	fi
	rm -rf --one-file-system "$dir"
	exit $status
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- the database ----------------------------------------------------------------------------------------------------
port_of() { "$berth" alloc exec -job "$1" sh -c 'echo $NOMAD_PORT_redis' </dev/null; }
pid_of() { pgrep -f "^redis-server 127.0.0.1:$1"; }

# ======================================================================================================================
title "Before: nothing of this demo is on the machine"
[ -z "$(left)" ] || fail "there is already: $(left)"
say "no mount, no loop device, no process beneath $dir"

title "Start a server and a node in one process"
say "\$ bin/berth agent -dev -data-dir $dir/data -http-port $port &"
start_agent
say "it runs as process $agent; its bundled storage plugin runs as a job of its own:"
run "$berth" plugin status local-csi

title "Create a volume: a real file system of a fixed size"
run "$berth" volume create "$here/examples/redis-data.volume.hcl"

title "Run a database on it: Debian's redis-server, isolated, its files on the volume"
say "the command ends when the database is healthy: its job asks for 2 s without a restart"
run "$berth" job run "$here/examples/redis.nomad.hcl"
until_true "redis to answer" answers redis
redis_port=$(port_of redis)
redis_pid=$(pid_of "$redis_port")
redis_user=$(stat -c %U "/proc/$redis_pid")
[ "$redis_user" = nobody ] || fail "redis runs as $redis_user"
say "it runs as $redis_user, to whom the new volume was given:"
run "$berth" alloc exec -job redis sh -c 'id -un; ls -ld /data'
say "the volume is mounted by the node, and seen by the task as /data:"
run "$berth" alloc exec -job redis df -h /data

title "Write $keys keys"
write_keys redis
spot_check redis

title "Kill the agent with -9, as a crash would"
kill -9 "$agent"
wait "$agent" 2>/dev/null || true
agent=
say "the agent is dead; redis is process $redis_pid and answers on port $redis_port:"
run redis-cli -p "$redis_port" set while-the-agent-was-dead still-writing

title "Start the agent again: it finds what runs, and touches nothing"
start_agent
until_true "redis to be known as running" answers redis
[ "$(pid_of "$redis_port")" = "$redis_pid" ] || fail "redis is another process now"
say "redis is still process $redis_pid, up for $(redis-cli -p "$redis_port" info server | awk -F: '/uptime_in_seconds/ { print $2 + 0 }') s"
run "$berth" job allocs redis
spot_check redis

title "Stop the job, and run it again: another process, the same data"
run "$berth" job stop redis
until_true "the volume to be free" volume_free redis-data
say "redis is gone, its volume unmounted, its claim ended:"
run "$berth" volume status
run "$berth" job run "$here/examples/redis.nomad.hcl"
until_true "redis to answer" answers redis
spot_check redis
say "what was written while the agent was dead: $(in_redis redis "get while-the-agent-was-dead" </dev/null)"

title "Take a snapshot of the volume while it is in use"
run "$berth" volume snapshot create redis-data before-the-copy
snapshot=$("$berth" volume snapshot list -plugin local-csi -t '{{range .}}{{.ID}}{{end}}')

title "Make a second volume from the snapshot, and run a second database on it"
sed -e 's/^id .*/id          = "redis-copy"/' -e 's/^name .*/name        = "redis-copy"/' \
	-e "s/^plugin_id .*/plugin_id   = \"local-csi\"\nsnapshot_id = \"$snapshot\"/" "$here/examples/redis-data.volume.hcl" >"$dir/redis-copy.volume.hcl"
run "$berth" volume create "$dir/redis-copy.volume.hcl"
run "$berth" job run -var name=redis-copy -var volume=redis-copy "$here/examples/redis.nomad.hcl"
until_true "the copy to answer" answers redis-copy
spot_check redis-copy

title "What is in use is not deleted by mistake"
if "$berth" volume delete redis-data >"$dir/refusal" 2>&1; then
	fail "a volume in use was deleted"
fi
printf '   %s$ bin/berth volume delete redis-data%s\n' "$dim" "$plain"
sed 's/^/     /' "$dir/refusal"

title "Delete everything"
run "$berth" job stop redis
run "$berth" job stop redis-copy
run "$berth" volume delete -wait 30s redis-copy
run "$berth" volume snapshot delete local-csi "$snapshot"
run "$berth" volume delete -wait 30s redis-data
claims=$("$berth" volume status 2>&1)
say "volumes and claims: $(tail -n 1 <<<"$claims")"
grep -q redis <<<"$claims" && fail "there is still a volume: $claims"

title "Stop the agent as Ctrl-C does"
stop_agent

title "After: nothing is left that was not there before"
[ -z "$(left)" ] || fail "left behind: $(left)"
rm -rf --one-file-system "$dir" || fail "$dir could not be removed"
say "no mount, no loop device, no process, no claim; $dir is removed"
printf '\n%sAll of that took %d s.%s\n' "$bold" $((SECONDS - begun)) "$plain"
