#!/bin/bash
# Shows containers: a storage plugin runs in one, and a program in another keeps what it writes on a volume of that plugin
# through kill -9 of the agent, of the Docker daemon, and a stop; and at the end nothing is left on the machine. Needs root,
# bin/berth (make build) and Debian's docker.io and busybox-static. The Docker daemon is one of the demo's own, and all that
# it has is beneath one new directory in /tmp.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
keys=0
# shellcheck source=scripts/demo-common.sh
. "$here/scripts/demo-common.sh"
needs dockerd containerd busybox mkfs.ext4 losetup curl

dir=$(mktemp -d /tmp/dd-XXXXXX)
agent='' daemon='' holder=''
port=$((20000 + RANDOM % 10000))
export BERTH_ADDR=http://127.0.0.1:$port
image=demo/busybox:1

docker_api() { # METHOD PATH [curl options]: a call of the demo's daemon
	local method=$1 path=$2
	shift 2
	curl -sf --unix-socket "$dir/docker.sock" -X "$method" "$@" "http://docker$path"
}
containers() { docker_api GET '/containers/json?all=1' | grep -o '"Names":\["[^"]*' | cut -d/ -f2 || true; }
start_daemon() {
	dockerd --data-root "$dir/docker" --exec-root "$dir/x" --pidfile "$dir/docker.pid" --host "unix://$dir/docker.sock" \
		--config-file "$dir/docker.json" --containerd "$dir/c.sock" --cgroup-parent "/berth-${dir##*/}" --live-restore \
		--iptables=false --ip6tables=false --bridge=none >>"$dir/docker.log" 2>&1 &
	daemon=$!
	until_true "Docker to answer (its log: $dir/docker.log)" docker_api GET /_ping
}
start_agent() {
	setsid "$berth" agent -config "$dir/agent.hcl" >>"$dir/agent.log" 2>&1 &
	agent=$!
	until_true "the driver docker to be healthy (the log: $dir/agent.log)" driver_healthy
}
driver_healthy() { [ "$("$berth" node status -self -t '{{with index .Drivers "docker"}}{{.Healthy}}{{end}}')" = true ]; }
stop_agent() {
	[ -n "$agent" ] || return 0
	kill -INT "$agent" 2>/dev/null || true
	wait "$agent" || fail "the agent did not stop cleanly: $(tail -n 3 "$dir/agent.log")"
	agent=
}
stop_daemon() {
	local id at
	[ -n "$daemon" ] || return 0
	for id in $(docker_api GET '/containers/json?all=1' | grep -o '"Id":"[0-9a-f]*' | cut -d'"' -f4); do
		docker_api DELETE "/containers/$id?force=1" || true
	done
	kill "$daemon" && wait "$daemon" || true
	kill "$holder" && wait "$holder" || true
	daemon='' holder=''
	while read -r at; do umount -l "$at"; done < <(awk -v d="$dir/" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo | tac)
	rmdir "/sys/fs/cgroup/berth-${dir##*/}" /sys/fs/cgroup/*/"berth-${dir##*/}" 2>/dev/null || true
}
left() {
	awk -v d="$dir/" 'index($5, d) == 1 { print "mount " $5 }' /proc/self/mountinfo
	losetup -l -n -O NAME,BACK-FILE | awk -v d="$dir/" 'index($2, d) == 1 { print "loop " $1 }'
	pgrep -af "$dir/" | grep -v "^$$ " | sed 's/^/process /' || true
}
cleanup() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	set +e
	[ $status -eq 0 ] || tail -n 20 "$dir/agent.log" >&2
	if [ -n "$agent" ]; then
		"$berth" job stop -purge db >/dev/null 2>&1
		"$berth" job stop -purge store >/dev/null 2>&1
		kill -INT "$agent"
		wait "$agent"
	fi
	stop_daemon >/dev/null 2>&1
	rm -rf --one-file-system "$dir"
	exit $status
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ======================================================================================================================
title "A Docker daemon of the demo's own, and an image of a busybox"
mkdir -p "$dir/image/bin" "$dir/rig"
cp "$(command -v busybox)" "$dir/image/bin/busybox"
for name in $(busybox --list | grep -v '^busybox$'); do ln -s busybox "$dir/image/bin/$name"; done
cp "$berth" "$dir/rig/berth"
echo '{}' >"$dir/docker.json"
printf 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n' >"$dir/containerd.toml"
containerd --config "$dir/containerd.toml" --address "$dir/c.sock" --root "$dir/c" --state "$dir/s" >"$dir/containerd.log" 2>&1 &
holder=$!
until_true "containerd to listen" test -S "$dir/c.sock"
start_daemon
tar -C "$dir/image" -c . | docker_api POST "/images/create?fromSrc=-&repo=${image%:*}&tag=${image#*:}" \
	-H 'Content-Type: application/x-tar' --data-binary @- >/dev/null
say "it is process $daemon, and has the image $image"

title "Start a server and a node in one process"
cat >"$dir/agent.hcl" <<END
data_dir = "$dir/data"
ports { http = $port }
acl { enabled = false }
api {
  unsafe_open = true
  socket      = "$dir/api.sock"
}
server { enabled = true }
client { enabled = true }
plugin "docker" {
  config {
    endpoint         = "unix://$dir/docker.sock"
    allow_privileged = true
    volumes { enabled = true }
  }
}
END
start_agent
say "Docker $("$berth" node status -self -t '{{with index .Drivers "docker"}}{{index .Attributes "driver.docker.version"}}{{end}}')"

title "A storage plugin, in a container"
cat >"$dir/store.nomad.hcl" <<END
job "store" {
  type = "system"
  group "g" {
    task "plugin" {
      driver = "docker"
      config {
        image   = "$image"
        command = "/rig/berth"
        args    = ["plugin", "local-csi", "--data-dir", "/rig/images", "--node-id", "\${node.unique.id}"]
        volumes = ["/usr:/usr:ro", "/usr/lib:/lib:ro", "/lib64:/lib64:ro", "$dir/rig:/rig"]
      }
      env {
        PATH = "/usr/sbin:/usr/bin:/bin"
      }
      csi_plugin {
        id                     = "store"
        type                   = "monolith"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
      }
      resources {
        cpu    = 50
        memory = 256
      }
    }
  }
}
END
run "$berth" job run "$dir/store.nomad.hcl"
plugin_healthy() { [ "$("$berth" plugin status -t '{{.NodesHealthy}} {{.ControllersHealthy}}' store)" = "1 1" ]; }
until_true "the plugin to be healthy" plugin_healthy
run "$berth" plugin status store

title "A volume of it, and a program in a container that writes to it"
sed -e 's/^id .*/id        = "data"/' -e 's/^name .*/name      = "data"/' -e 's/^plugin_id .*/plugin_id = "store"/' \
	"$here/examples/redis-data.volume.hcl" >"$dir/data.volume.hcl"
run "$berth" volume create "$dir/data.volume.hcl"
cat >"$dir/db.nomad.hcl" <<END
job "db" {
  group "g" {
    network {
      mode = "bridge"
    }
    volume "data" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "docker"
      config {
        image   = "$image"
        command = "sh"
        args    = ["-c", "echo a run >>/data/runs; httpd -f -p 8080 -h /data"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
END
run "$berth" job run "$dir/db.nomad.hcl"
served() { "$berth" alloc exec -job db wget -qO- http://127.0.0.1:8080/runs </dev/null; }
until_true "what it wrote to be served" served
say "served in the allocation's own network: $(served)"
pids() { for name in $(containers); do docker_api GET "/containers/$name/json" | grep -o '"Pid":[0-9]*'; done | sort; }
before=$(pids)
say "the containers: $(containers | tr '\n' ' ')"

title "Kill the agent with -9, and start it again"
kill -9 "$agent"
wait "$agent" 2>/dev/null || true
start_agent
until_true "what it wrote to be served" served
[ "$(pids)" = "$before" ] || fail "the processes are others"
say "the same processes:" $before

title "Kill the Docker daemon with -9, and start it again"
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
start_daemon
until_true "what it wrote to be served" served
[ "$(pids)" = "$before" ] || fail "the processes are others"
say "the same processes:" $before

title "Stop the job, and run it again: another container, the same data"
run "$berth" job stop db
run "$berth" job run "$dir/db.nomad.hcl"
until_true "what it wrote to be served" served
[ "$(served | wc -l)" -eq 2 ] || fail "the volume has lost something: $(served)"
say "served: $(served | tr '\n' ',')"

title "Delete everything, and stop"
run "$berth" job stop -purge db
run "$berth" volume delete -wait 30s data
run "$berth" job stop -purge store
no_container() { [ -z "$(containers)" ]; }
until_true "the containers to be gone" no_container
stop_agent
stop_daemon
[ -z "$(left)" ] || fail "left behind: $(left)"
rm -rf --one-file-system "$dir" || fail "$dir could not be removed"
say "no container, no mount, no loop device, no process; $dir is removed"
printf '\n%sAll of that took %d s.%s\n' "$bold" $((SECONDS - begun)) "$plain"
