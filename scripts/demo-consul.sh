#!/bin/bash
# Shows services in Consul: tags that somebody changes there stay, and two services that speak through Consul's mesh, by
# its built-in proxy, until an intention denies it. Needs root, bin/berth, the program of Consul in BERTH_CONSUL (make
# demo-consul builds both) and Debian's python3, curl and jq.
#
# Everything lives in namespaces of its own, of processes, mounts and the network, in which the agents have their usual
# ports. With the first process of it the kernel ends all of it, however the demo ends.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
keys=0
# shellcheck source=scripts/demo-common.sh
. "$here/scripts/demo-common.sh"

if [ -z "${BERTH_DEMO_DIR:-}" ]; then
	needs python3 curl jq unshare ip
	[ -x "${BERTH_CONSUL:-}" ] || fail "BERTH_CONSUL names no program of Consul: make demo-consul builds one"
	enclosed
	exit 0
fi

# ====================================================================================================================
# Inside.
dir=$BERTH_DEMO_DIR
agent=
export BERTH_ADDR=unix://$dir/node/api.sock

start_agent() {
	"$berth" agent -config "$dir/node/agent.hcl" >>"$dir/node/agent.log" 2>&1 &
	agent=$!
	until_true "the node, and its Consul" node_ready
}
node_ready() { "$berth" node status -self -t '{{.Status}} {{index .Attributes "consul.version"}}' | grep -q '^ready [0-9]'; }
led() { curl -sf http://127.0.0.1:8500/v1/connect/ca/roots | jq -e .ActiveRootID; }
catalog() { curl -sf "http://127.0.0.1:8500/v1/catalog/service/$1"; }
tags() { catalog "$1" | jq -r '[.[].ServiceTags | join(" ")] | join(", ")'; }
has_tags() { [ "$(tags "$1")" = "$2" ]; }
# edit writes tags of a service into the catalog, as one does who wants requests sent elsewhere.
edit() {
	catalog "$1" | jq --arg tag "$2" '.[0] | {Node, SkipNodeUpdate: true, Service: {ID: .ServiceID, Service: .ServiceName,
		Address: .ServiceAddress, Port: .ServicePort, Tags: [$tag], Meta: .ServiceMeta, EnableTagOverride: true}}' |
		curl -sf -X PUT --data-binary @- http://127.0.0.1:8500/v1/catalog/register >/dev/null
}
agent_says() { curl -sf http://127.0.0.1:8500/v1/agent/services | jq -e --arg tag "$2" ".[] | select(.Service == \"$1\") | .Tags == [\$tag]"; }
task() { # NAME COMMAND ARGUMENTS...: a task of a job
	local name=$1 command=$2
	shift 2
	printf 'task "%s" {\n driver = "raw_exec"\n config {\n command = "%s"\n args = [%s]\n }\n' "$name" "$command" "$(printf '"%s",' "$@")"
	printf 'resources {\n cpu = 20\n memory = 64\n }\n'
}
# web writes a job with a service whose tags others may change.
web() { # TAG TEAM
	cat >"$dir/web.nomad.hcl" <<-END
		job "web" {
		  group "web" {
		    network {
		      port "http" {}
		    }
		    update { min_healthy_time = "0s" }
		    $(task serve /usr/bin/python3 -m http.server '${NOMAD_PORT_http}' --directory '${NOMAD_TASK_DIR}')
		      service {
		        name                = "web"
		        port                = "http"
		        tags                = ["$1"]
		        enable_tag_override = true
		        meta { team = "$2" }
		        check {
		          type     = "tcp"
		          interval = "1s"
		          timeout  = "1s"
		        }
		      }
		    }
		  }
		}
	END
}
called() { "$berth" alloc exec -job -group web -task wait mesh sh -c 'curl -sf -m 5 http://$NOMAD_UPSTREAM_ADDR_api/greeting' </dev/null; }
greeted() { [ "$(called)" = "hello by the mesh" ]; }
denied() { ! called; }

ip link set lo up
ip link add eth0 type veth peer name eth1
ip address add 10.77.0.1/24 dev eth0
ip link set eth0 up && ip link set eth1 up
mkdir -p "$dir/node" "$dir/bin" "$dir/consul"
mount --bind "$dir/node" /mnt # paths of sockets are short
ln -s "$BERTH_CONSUL" "$dir/bin/consul"
export PATH=$dir/bin:$PATH

# ======================================================================================================================
title "An agent of Consul, and beside it one of Berth, which registers there what runs here"
consul agent -dev -node=demo -bind=127.0.0.1 -hcl 'disable_update_check = true ports { dns = -1 }' >"$dir/consul/log" 2>&1 &
consul=$!
until_true "Consul to lead itself (its log: $dir/consul/log)" led
cat >"$dir/node/agent.hcl" <<END
data_dir = "/mnt/data"
acl { enabled = false }
api {
  unsafe_open = true
  socket      = "/mnt/api.sock"
}
server { enabled = true }
client {
  enabled           = true
  network_interface = "eth0"
}
consul {}
plugin "raw_exec" {
  config { enabled = true }
}
END
run cat "$dir/node/agent.hcl"
start_agent
say "Consul $("$berth" node status -self -t '{{index .Attributes "consul.version"}}'), process $consul; Berth, process $agent"

title "Act one: a service with the tag blue, whose tags others may change"
web blue shop
run "$berth" job run "$dir/web.nomad.hcl"
until_true "web to be found" has_tags web blue
say "its tags in Consul: $(tags web)"

title "Somebody writes the tag green into Consul's catalog"
edit web green
until_true "the agent of Consul to hear of it" agent_says web green
say "its tags in Consul: $(tags web)"

title "Another service comes, Berth is killed with -9 and comes back, the job changes its meta: green stays"
sed 's/"web"/"other"/g' "$dir/web.nomad.hcl" >"$dir/other.nomad.hcl"
brief "$berth" job run "$dir/other.nomad.hcl"
until_true "other to be found" has_tags other blue
kill -9 "$agent"
wait "$agent" 2>/dev/null || true
start_agent
web blue market
brief "$berth" job run "$dir/web.nomad.hcl"
new_meta() { catalog web | jq -e '.[0].ServiceMeta.team == "market"'; }
until_true "the new meta" new_meta
has_tags web green || fail "the tags are $(tags web)"
say "its meta is new, and its tags in Consul: $(tags web)"

title "The job's own tags change to red: who wrote last has them"
web red market
brief "$berth" job run "$dir/web.nomad.hcl"
until_true "red" has_tags web red
say "its tags in Consul: $(tags web)"
brief "$berth" job stop web
brief "$berth" job stop other
not_found() { [ "$(catalog "$1")" = "[]" ]; }
until_true "web to be gone" not_found web
say "with the job the service is gone from Consul"

title "Act two: api listens on the loopback of a network of its own; web reaches it through Consul's mesh alone"
cat >"$dir/mesh.nomad.hcl" <<END
job "mesh" {
  meta = {
    "connect.proxy" = "builtin"
  }
  update {
    min_healthy_time = "0s"
  }
  group "api" {
    network { mode = "bridge" }
    service {
      name = "api"
      port = "9001"
      connect {
        sidecar_service {}
      }
    }
    $(task serve sh -c 'cd $NOMAD_TASK_DIR && echo hello by the mesh >greeting && exec /usr/bin/python3 -m http.server 9001 --bind 127.0.0.1')
    }
  }
  group "web" {
    network { mode = "bridge" }
    service {
      name = "web"
      connect {
        sidecar_service {
          proxy {
            upstreams {
              destination_name = "api"
              local_bind_port  = 5000
            }
          }
        }
      }
    }
    $(task wait sleep infinity)
    }
  }
}
END
run "$berth" job run "$dir/mesh.nomad.hcl"
until_true "web to be greeted" greeted
say "in web: curl http://\$NOMAD_UPSTREAM_ADDR_api/greeting: $(called)"
run consul catalog services
say "beside each task runs its proxy:"
for group in api web; do
	"$berth" job allocs -t '{{range .}}{{.TaskGroup}}{{range $name, $s := .TaskStates}} {{$name}}{{end}}{{"\n"}}{{end}}' mesh |
		grep "^$group " | sed 's/^/     /'
done

title "An intention denies it, and lets it through again"
run consul intention create -deny web api
until_true "web to be kept out" denied
say "in web: curl ends with an error"
run consul intention create -replace -allow web api
until_true "web to be greeted again" greeted
say "in web: $(called)"

title "Stop the job, and both agents"
run "$berth" job stop -purge mesh
for name in api api-sidecar-proxy web web-sidecar-proxy; do until_true "$name to be gone" not_found $name; done
run consul catalog services
kill -TERM "$agent"
wait "$agent" || fail "the agent did not stop cleanly"
kill -TERM "$consul"
wait "$consul" || true # it calls that no clean end
umount /mnt
echo "$step" >"$dir/step" # what is left is looked for outside
