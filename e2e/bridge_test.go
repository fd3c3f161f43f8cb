package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/api"
)

// Addresses of a machine in a network of its own, and of another machine that reaches it.
const bridgedAddress, outsideAddress = "10.79.0.1", "10.79.0.2"

// bridged is a machine in a network namespace of its own, and what reaches it from outside.
type bridged struct {
	*machine
	network, outside int // processes in them
}

func newBridged(t *testing.T) *bridged {
	t.Helper()
	b := preparedBridged(t)
	b.start()
	return b
}

// preparedBridged is one whose agent has not been started.
func preparedBridged(t *testing.T) *bridged {
	t.Helper()
	b := &bridged{machine: prepare(t, false), network: namespace(t), outside: namespace(t)}
	networks := filepath.Join(b.root, "networks.hcl")
	must(t, os.WriteFile(networks, []byte(`
client {
  network_interface          = "eth0"
  bridge_network_subnet_ipv6 = "fd00:be::/64"
  host_network "lan" { interface = "lan0" }
}
`), 0o600))
	c := &cluster{t: t}
	c.ip(b.network, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(b.outside))
	c.ip(b.network, "link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
	for _, end := range []struct {
		network       int
		link, address string
	}{{b.network, "eth0", bridgedAddress}, {b.outside, "eth0", outsideAddress}, {b.network, "lan0", "10.80.0.1"}} {
		c.ip(end.network, "addr", "add", end.address+"/24", "dev", end.link)
		c.ip(end.network, "link", "set", end.link, "up")
		c.ip(end.network, "link", "set", "lo", "up")
	}
	b.wrap = func(cmd *exec.Cmd) {
		agent := slices.Concat([]string{cmd.Path}, cmd.Args[1:], []string{"-config", networks})
		cmd.Args = inNetwork(b.network, agent...)
		path, err := exec.LookPath(cmd.Args[0])
		must(t, err)
		cmd.Path = path
	}
	return b
}

// dial is a shell's line that prints what is answered at an address.
func dial(host string, port int) string {
	return fmt.Sprintf("exec 3<>/dev/tcp/%s/%d && cat <&3", host, port)
}

// call connects from a network of the test.
func (b *bridged) call(network int, host string, port int) (string, error) {
	args := inNetwork(network, "timeout", "5", "bash", "-c", dial(host, port))
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// callFrom connects from within an alloc.
func (b *bridged) callFrom(alloc, host string, port int) (string, error) {
	out, code := b.cli("alloc", "exec", alloc, "timeout", "5", "bash", "-c", dial(host, port))
	if code != 0 {
		return out, fmt.Errorf("exit code %d", code)
	}
	return strings.TrimSpace(out), nil
}

// answering is a task that answers each connection with the name of its host and the caller's address.
const answering = `use IO::Socket::INET; use Sys::Hostname; $| = 1;
my $s = IO::Socket::INET->new(LocalPort => $ENV{NOMAD_PORT_http}, Listen => 9, ReuseAddr => 1) or die;
while (my $c = $s->accept) { print $c hostname(), " ", $c->peerhost, "\n"; close $c }`

const pair = `
job "pair" {
  group "web" {
    network {
      mode     = "bridge"
      hostname = "web-${NOMAD_ALLOC_INDEX}"
      dns {
        servers  = ["192.0.2.53"]
        searches = ["example"]
      }
      port "http" {
        static = 8080
        to     = 80
      }
      port "lan" {
        static       = 8080
        to           = 80
        host_network = "lan"
      }
    }
    task "serve" {
      driver = "exec"
      config {
        command = "perl"
        args    = ["-e", <<S
%s
S
        ]
      }
    }
  }
  group "peer" {
    network {
      mode = "bridge"
    }
    task "wait" {
      driver = "raw_exec"
      config {
        command = "sleep"
        args    = ["100000"]
      }
    }
  }
}`

// of is the running alloc of a group.
func (b *bridged) running(group string) *api.Allocation {
	b.t.Helper()
	a := b.of("pair", group, func(a *api.AllocationListStub) bool {
		return a.ClientStatus == api.AllocClientStatusRunning
	})
	var full *api.Allocation
	b.eventually("the network of group "+group, func() bool {
		got, _, err := b.api.Allocations().Get(b.t.Context(), a.ID, nil)
		must(b.t, err)
		full = got
		return got.NetworkStatus != nil && got.NetworkStatus.Address != ""
	})
	return full
}

// reached says from where the port of the alloc answers, and whom it sees there.
func (b *bridged) reached(when string, web, peer *api.Allocation) {
	b.t.Helper()
	gateway := "172.26.64.1"
	for _, c := range []struct {
		from string
		call func() (string, error)
		sees string
	}{
		{"another machine", func() (string, error) { return b.call(b.outside, bridgedAddress, 8080) }, outsideAddress},
		{"the node", func() (string, error) { return b.call(b.network, bridgedAddress, 8080) }, bridgedAddress},
		{"the node's loopback", func() (string, error) { return b.call(b.network, "127.0.0.1", 8080) }, gateway},
		{"the host network", func() (string, error) { return b.call(b.network, "10.80.0.1", 8080) }, "10.80.0.1"},
		{"another alloc by the node", func() (string, error) { return b.callFrom(peer.ID, bridgedAddress, 8080) },
			gateway},
		{"another alloc", func() (string, error) { return b.callFrom(peer.ID, web.NetworkStatus.Address, 80) },
			peer.NetworkStatus.Address},
	} {
		got, err := c.call()
		if want := "web-0 " + c.sees; err != nil || got != want {
			b.t.Errorf("%s, %s: %q, %v; want %q", when, c.from, got, err, want)
		}
	}
}

// TestAllocsHaveNetworksOfTheirOwn: given a service with a port and its neighbour, both in mode bridge, then the port
// is reached from everywhere, the task sees the names that its group asks for, and all of that goes on while the agent
// is dead and after it has come back; when the job has ended, no link of an alloc, no directory and no mount is left,
// and when the agent has, no bridge.
func TestAllocsHaveNetworksOfTheirOwn(t *testing.T) {
	b := newBridged(t)
	b.run(fmt.Sprintf(pair, strings.ReplaceAll(answering, "${", "$${")))
	web, peer := b.running("web"), b.running("peer")
	b.eventually("the task to listen", func() bool {
		_, err := b.call(b.network, web.NetworkStatus.Address, 80)
		return err == nil
	})
	b.reached("at first", web, peer)
	for command, want := range map[string]string{
		"hostname":             "web-0",
		"cat /etc/hostname":    "web-0",
		"cat /etc/resolv.conf": "nameserver 192.0.2.53\nsearch example",
		"ls /sys/class/net":    "eth0\nlo",
		"tail -n 2 /etc/hosts": web.NetworkStatus.Address + " web-0\n" + web.NetworkStatus.AddressIPv6 + " web-0",
		"sh -c 'echo $NOMAD_PORT_http $NOMAD_HOST_ADDR_http $NOMAD_ALLOC_ADDR_http'": "80 " + bridgedAddress +
			":8080 " + web.NetworkStatus.Address + ":80",
	} {
		args := append([]string{"alloc", "exec", web.ID}, strings.Fields(command)...)
		if line, is := strings.CutPrefix(command, "sh -c "); is {
			args = []string{"alloc", "exec", web.ID, "sh", "-c", strings.Trim(line, "'")}
		}
		if out, _ := b.cli(args...); strings.TrimSpace(out) != want {
			t.Errorf("%s: %q, want %q", command, out, want)
		}
	}
	if out := b.mustCLI("alloc", "status", web.ID); !strings.Contains(out, bridgedAddress+":8080 -> 80") ||
		!strings.Contains(out, web.NetworkStatus.Address) {
		t.Errorf("alloc status does not show ports and address:\n%s", out)
	}
	b.kill()
	if got, err := b.call(b.outside, bridgedAddress, 8080); err != nil {
		t.Errorf("while the agent is dead: %q, %v", got, err)
	}
	b.start()
	again := b.running("web")
	if again.ID != web.ID || again.NetworkStatus.Address != web.NetworkStatus.Address {
		t.Errorf("after the agent's restart it is alloc %s at %s", again.ID, again.NetworkStatus.Address)
	}
	b.reached("after the agent's restart", again, b.running("peer"))
	b.stopJob("pair")
	b.eventually("nothing of networks to be left but the bridge, which waits for the next alloc", func() bool {
		dirs, err := os.ReadDir(filepath.Join(b.data, "networks"))
		must(t, err)
		return b.links() == 1 && len(dirs) == 0
	})
	must(t, b.stop())
	if n := b.links(); n != 0 {
		t.Errorf("%d links are left when the agent has ended", n)
	}
}

// links counts those in the node's network that its agent has made.
func (b *bridged) links() int {
	b.t.Helper()
	args := inNetwork(b.network, "ip", "-o", "link")
	all, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	must(b.t, err)
	n := 0
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, "berth") {
			n++
		}
	}
	return n
}

// TestAGroupWithoutNetworkHasItsLoopbackAlone.
func TestAGroupWithoutNetworkHasItsLoopbackAlone(t *testing.T) {
	b := newBridged(t)
	b.run(`
job "pair" {
  group "alone" {
    network {
      mode = "none"
    }
    task "wait" {
      driver = "exec"
      config {
        command = "sleep"
        args    = ["100000"]
      }
    }
  }
}`)
	a := b.of("pair", "alone", func(a *api.AllocationListStub) bool {
		return a.ClientStatus == api.AllocClientStatusRunning
	})
	if out := b.mustCLI("alloc", "exec", a.ID, "ls", "/sys/class/net"); strings.TrimSpace(out) != "lo" {
		t.Errorf("it has the links %q", out)
	}
	if out := b.mustCLI("alloc", "exec", a.ID, "cat", "/sys/class/net/lo/operstate", "/proc/net/if_inet6"); !strings.
		Contains(out, "00000000000000000000000000000001") {
		t.Errorf("its loopback is not up: %q", out)
	}
}

// plugin is a CNI plugin that gives each namespace a link with one address, and keeps a file for each.
const plugin = `#!/bin/sh
set -e
kept=$(sed -n 's/.*"kept": *"\([^"]*\)".*/\1/p')
case "$CNI_COMMAND" in
ADD)
	touch "$kept/$CNI_CONTAINERID"
	exec 3>&1 >&2
	nsenter --net="$CNI_NETNS" ip link add "$CNI_IFNAME" type veth peer name peer
	nsenter --net="$CNI_NETNS" ip address add 10.89.0.7/24 dev "$CNI_IFNAME"
	nsenter --net="$CNI_NETNS" ip link set "$CNI_IFNAME" up
	echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}],
		"ips": [{"address": "10.89.0.7/24", "interface": 0}]}' >&3
	;;
DEL)
	test -z "$CNI_NETNS" || nsenter --net="$CNI_NETNS" ip link delete "$CNI_IFNAME" 2>&- || true
	rm -f "$kept/$CNI_CONTAINERID"
	;;
*)
	echo 'CNI lab plugin v1.2.3' >&2
	;;
esac
`

// TestAnAllocIsConnectedByPlugins: on a node that has the network; the alloc keeps its address over a crash of the
// agent, and when it has ended, its plugins keep nothing, though the agent was killed before.
func TestAnAllocIsConnectedByPlugins(t *testing.T) {
	m := prepare(t, false)
	dir := filepath.Join(m.rig, "cni")
	kept := filepath.Join(dir, "kept")
	must(t, os.MkdirAll(kept, 0o755))
	bin := filepath.Join(dir, "bin")
	must(t, os.MkdirAll(bin, 0o755))
	must(t, os.WriteFile(filepath.Join(bin, "lab"), []byte(plugin), 0o755)) //nolint:gosec // a program
	must(t, os.WriteFile(filepath.Join(dir, "lab.conflist"), fmt.Appendf(nil,
		`{"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "lab", "kept": %q}]}`, kept), 0o600))
	more := filepath.Join(m.rig, "cni.hcl")
	config := fmt.Sprintf("client {\n  cni_path = %q\n  cni_config_dir = %q\n}\n", bin, dir)
	must(t, os.WriteFile(more, []byte(config), 0o600))
	m.wrap = func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "-config", more) }
	m.start()
	m.runsTo(`
job "lab" {
  group "g" {
    network {
      mode = "cni/lab"
    }
    constraint {
      attribute = "$${attr.plugins.cni.version.lab}"
      operator  = "semver"
      value     = ">= 1.0.0"
    }
    update {
      min_healthy_time = "1s"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}
`, 0, "1 allocation, healthy")
	one := m.running("lab", 1)[0]
	sees := func() {
		t.Helper()
		out, code := m.cli("alloc", "exec", one.ID, "cat", "/proc/net/fib_trie")
		if code != 0 || !strings.Contains(out, "10.89.0.7") {
			t.Errorf("exit code %d: %s", code, out)
		}
	}
	sees()
	m.crash()
	m.start()
	sees()
	a, _, err := m.api.Allocations().Get(t.Context(), one.ID, nil)
	must(t, err)
	if a.NetworkStatus == nil || a.NetworkStatus.Address != "10.89.0.7" {
		t.Errorf("its network is %+v", a.NetworkStatus)
	}
	m.tellStop("lab")
	m.crash()
	m.start()
	m.ended("lab")
	m.eventually("the plugin to keep nothing", func() bool {
		left, err := os.ReadDir(kept)
		must(t, err)
		return len(left) == 0
	})
}
