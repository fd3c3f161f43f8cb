#!/bin/bash
# Shows three machines that are one cluster, all on this computer: what goes on when the one that leads is killed, and how
# a database moves from machine to machine, or is refused where its volume is not. Needs root, bin/berth, bin/csi-proxy
# (make demo-cluster builds both) and Debian's redis-server.
#
# Everything lives in namespaces of its own, of processes, mounts and the network, in which each machine has one more of
# the latter two. With the first process of the outer one the kernel ends all of it, however the demo ends.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
keys=1000
# shellcheck source=scripts/demo-common.sh
. "$here/scripts/demo-common.sh"
fake=${BERTH_CSI_PROXY:-$here/bin/csi-proxy} # has the plugin for tests that all machines share

# ====================================================================================================================
# Outside: a directory, the namespaces, and what is to be looked at when they are gone.
if [ -z "${BERTH_DEMO_DIR:-}" ]; then
	needs redis-server redis-cli mkfs.ext4 losetup unshare nsenter ip
	[ -x "$fake" ] || fail "there is no bin/csi-proxy yet: make demo-cluster"
	enclosed
	exit 0
fi

# ====================================================================================================================
# Inside.
dir=$BERTH_DEMO_DIR
own=$dir/machine # as each machine sees its directory: the same everywhere, as on real ones
joined=0
declare -A holder=() agent=() address=([a]=10.77.0.1 [b]=10.77.0.2 [c]=10.77.0.3)

# new_machine makes a machine: a network of its own with a cable to the bridge, and a directory of its own.
new_machine() {
	local m=$1
	mkdir -p "$dir/$m" "$own"
	unshare --net --mount sh -c "mount --bind '$dir/$m' '$own' && exec sleep infinity" &
	holder[$m]=$!
	until_true "the namespaces of machine $m" grep -q " $own " "/proc/${holder[$m]}/mountinfo"
	ip link add "to-$m" type veth peer name eth0 netns "${holder[$m]}"
	ip link set "to-$m" master bridge up
	on "$m" ip address add "${address[$m]}/24" dev eth0
	on "$m" ip link set eth0 up
	on "$m" ip link set lo up
}
# on runs a command on a machine.
on() {
	local m=$1
	shift
	nsenter --target "${holder[$m]}" --net --mount "$@"
}
# at has the commands that follow ask the agent of a machine, as root does who sits there.
at() { export BERTH_ADDR=unix://$dir/$1/api.sock; }

configure() {
	local m=$1 join=''
	[ "$m" = a ] || join="
  server_join { retry_join = [\"10.77.0.1:4647\"] }
  join_token_file = \"$own/join-token\""
	cat >"$dir/$m/agent.hcl" <<-EOF
		name = "$m"
		data_dir = "$own/data"
		addresses { rpc = "${address[$m]}" }
		server {
		  enabled          = true
		  bootstrap_expect = 3$join
		}
		client {
		  enabled   = true
		  local_csi = $([ "$m" = a ] && echo true || echo false)
		}
		plugin "raw_exec" {
		  config { enabled = true }
		}
		api { socket = "$own/api.sock" }
	EOF
}
start_agent() {
	# Not by "on", whose shell would stand between: $! is the agent.
	nsenter --target "${holder[$1]}" --net --mount "$berth" agent -config "$own/agent.hcl" >>"$dir/$1/agent.log" 2>&1 &
	agent[$1]=$!
}
# look asks for one thing by a template, of whoever is asked now.
look() { "$berth" "$@" 2>/dev/null || true; }
healthy_servers() { [ "$(look operator autopilot health -t '{{$n := 0}}{{range .Servers}}{{if .Healthy}}x{{end}}{{end}}' | tr -cd x | wc -c)" = "$1" ]; }
leader() { look operator autopilot health -t '{{.Leader}}' | sed 's/\.global$//'; }
ready_nodes() { [ "$(look node status -t '{{range .}}{{if eq .Status "ready"}}x{{end}}{{end}}' | tr -cd x | wc -c)" = "$1" ]; }
plugin_healthy() { [ "$(look plugin status -t '{{.NodesHealthy}}' "$1")" = "$2" ]; }
test_leads() { [ "$(leader)" = "$1" ]; }
another_leads() { local l; l=$(leader); [ -n "$l" ] && [ "$l" != "$1" ]; }
# redis_pid finds the database of a machine by the network that it is in.
redis_pid() {
	local p
	for p in $(pgrep -f '^redis-server 127.0.0.1'); do
		[ "$(readlink "/proc/$p/ns/net")" != "$(readlink "/proc/${holder[$1]}/ns/net")" ] || echo "$p"
	done
}
# direct asks the database without any agent.
direct() { on a redis-cli -p "$(tr '\0' ' ' <"/proc/$1/cmdline" | sed 's/.*:\([0-9]*\).*/\1/')" "$2"; }
# put writes the example's job for a node and a volume.
put() {
	sed "s/^  group \"redis\" {/&\n    constraint {\n      attribute = \"\${node.unique.name}\"\n      value     = \"$2\"\n    }\n/" \
		"$here/examples/redis.nomad.hcl" >"$dir/$1"
}

ip link set lo up
ip link add bridge type bridge
ip link set bridge up
cp "$fake" "$dir/csi-proxy"

title "Three machines: a, b and c, each with a network of its own, connected by a bridge"
for m in a b c; do
	new_machine "$m"
	configure "$m"
	say "machine $m is ${address[$m]}"
done

title "Machine a begins: an agent with a server and a node"
start_agent a
at a
until_true "the server of a to lead" test_leads a
run "$berth" server members

until_true "the bundled storage plugin" plugin_healthy local-csi 1

title "Machines b and c join, each with a token that is good once"
for m in b c; do
	"$berth" operator join-token create -role server 2>/dev/null | sed -n 's/^\(berth-join-.*\)/\1/p' >"$dir/$m/join-token"
	chmod 600 "$dir/$m/join-token"
	start_agent "$m"
	until_true "the server of $m to vote" healthy_servers "$((++joined + 1))"
	rm "$dir/$m/join-token"
done
until_true "three nodes" ready_nodes 3
say "the servers, of which one leads and any two are a majority:"
run "$berth" operator raft list-peers
say "the nodes, which run what the servers give them:"
run "$berth" node status

title "Access control: whoever comes by the port of the API needs a token, and may do what its policy says"
say "the first token may do everything, and there is one such chance; root at a machine's socket needs none"
"$berth" acl bootstrap >"$dir/first-token"
run sed -n 's/Secret ID.*/Secret ID = ... (shown once, and not here)/;1,2p' "$dir/first-token"
cat >"$dir/team.hcl" <<-'EOF'
	namespace "default" { policy = "write" }
	node { policy = "read" }
EOF
run "$berth" acl policy apply team "$dir/team.hcl"
secret=$("$berth" acl token create -name "the team" -policy team -t '{{.SecretID}}')
by_port() { on a env BERTH_ADDR=http://127.0.0.1:4646 "$@"; }
refused() { # what must not succeed, shown with its reason
	local said
	! said=$("$@" </dev/null 2>&1) || fail "this should have been refused: $*"
	sed 's/^/     /' <<<"$said"
}
put db-a.nomad.hcl a
run "$berth" volume create "$here/examples/redis-data.volume.hcl"
say "\$ bin/berth job run db-a.nomad.hcl                    # by the port, without a token"
refused by_port "$berth" job run "$dir/db-a.nomad.hcl"
say "\$ BERTH_TOKEN=... bin/berth job run db-a.nomad.hcl    # with the team's; it goes to node a, where the volume is"
by_port env BERTH_TOKEN="$secret" "$berth" job run "$dir/db-a.nomad.hcl" </dev/null 2>&1 | sed 's/^/     /;$!d'

title "Write $keys keys into the database"
until_true "redis to answer" answers redis
write_keys redis
spot_check redis

title "Kill the agent that leads with -9, as a crash would"
killed=$(leader)
for m in a b c; do
	[ "$m" = "$killed" ] || other=$m
done
pid=$(redis_pid a)
at "$other"
kill -9 "${agent[$killed]}"
wait "${agent[$killed]}" 2>/dev/null || true
from=$(date +%s%N)
[ -n "$pid" ] || fail "redis does not run on machine a"
say "the server and the node of $killed are dead; redis on machine a is process $pid and answers: $(direct "$pid" dbsize) keys"
until_true "another leader" another_leads "$killed"
now=$(leader)
until_true "something to be written" "$berth" operator join-token create
took=$(($(date +%s%N) - from))
say "$now leads; $(printf '%d.%d' $((took / 1000000000)) $((took / 100000000 % 10))) s after the kill it has written what $other was asked for"
[ "$(redis_pid a)" = "$pid" ] || fail "redis was process $pid, and is '$(redis_pid a)'"
say "redis is process $pid, as before"
run "$berth" server members

title "The one that was killed comes back by itself when its agent starts"
start_agent "$killed"
until_true "three servers" healthy_servers 3
until_true "three nodes" ready_nodes 3
until_true "redis to answer" answers redis
[ "$(redis_pid a)" = "$pid" ] || fail "redis is another process now"
run "$berth" operator raft list-peers
spot_check redis

title "Move the database by hand: stop it on a, run it on b. Its volume is an image file on a: refused, and why"
brief "$berth" job stop redis
until_true "the volume to be free" volume_free redis-data
put db-b.nomad.hcl b
say "\$ bin/berth job run db-b.nomad.hcl"
refused timeout 5 "$berth" job run "$dir/db-b.nomad.hcl"
brief "$berth" job stop redis

title "The same with storage that all machines reach: a plugin that runs on each of them"
say "this one is made for tests, and keeps its volumes in one directory that all three see"
cat >"$dir/shared.nomad.hcl" <<-EOF
	job "shared" {
	  type = "system"
	  group "plugin" {
	    update { min_healthy_time = "1s" }
	    task "plugin" {
	      driver = "raw_exec"
	      config {
	        command = "$dir/csi-proxy"
	        args    = ["-serve-fake", "{\"Dir\": \"$dir/shared\", \"NodeID\": \"\${node.unique.name}\"}"]
	      }
	      csi_plugin {
	        id        = "shared"
	        type      = "monolith"
	        mount_dir = "/csi"
	      }
	      resources {
	        cpu    = 20
	        memory = 64
	      }
	    }
	  }
	}
EOF
brief "$berth" job run "$dir/shared.nomad.hcl"
until_true "the plugin on three nodes" plugin_healthy shared 3
sed -e 's/^\(id\|name\) .*/\1 = "redis-far"/' -e 's/^plugin_id.*/plugin_id = "shared"/' \
	"$here/examples/redis-data.volume.hcl" >"$dir/redis-far.volume.hcl"
run "$berth" volume create "$dir/redis-far.volume.hcl"
brief "$berth" job run -var volume=redis-far "$dir/db-a.nomad.hcl"
until_true "redis to answer" answers redis
write_keys redis
brief "$berth" job stop redis
until_true "the volume to be free" volume_free redis-far
say "stopped on a: there it is unmounted and detached, and only then attached to b:"
brief "$berth" job run -var volume=redis-far "$dir/db-b.nomad.hcl"
until_true "redis to answer" answers redis
[ -n "$(redis_pid b)" ] && [ -z "$(redis_pid a)" ] || fail "it does not run on b alone"
say "redis is process $(redis_pid b) on machine b:"
spot_check redis

title "Delete everything, and stop the agents as systemd does"
brief "$berth" job stop redis
run "$berth" volume delete -wait 30s redis-far
run "$berth" volume delete -wait 30s redis-data
brief "$berth" job stop shared
brief "$berth" job stop -namespace berth local-csi
for m in a b c; do
	kill -TERM "${agent[$m]}"
	wait "${agent[$m]}" || fail "the agent of $m did not stop cleanly"
done
echo "$step" >"$dir/step" # what is left is looked for outside
