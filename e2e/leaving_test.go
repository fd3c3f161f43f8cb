package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/api"
)

// terminate ends the agent by a signal and waits for its end, which is a good one.
func (m *machine) terminate(by syscall.Signal) {
	m.t.Helper()
	must(m.t, m.cmd.Process.Signal(by))
	m.leaves()
}

// leaves waits until the agent, which was told to, has ended, which is a good end.
func (m *machine) leaves() {
	m.t.Helper()
	m.api.CloseIdle()
	select {
	case err := <-m.done:
		m.cmd = nil
		if err != nil {
			m.t.Errorf("it ends with %v\n%s", err, m.tail())
		}
	case <-time.After(patience):
		m.t.Fatalf("it does not end; %s", m.goroutines())
	}
}

// TestAgentsLeave: given three servers and a node whose configuration has them leave, when they are stopped by the
// signal that it names, then the one that leads has another lead and is off the list, the next too, and the last stays,
// as it says; by the other signal they stay. A node that holds nothing is down at once; one with a task is not, and the
// task runs on.
func TestAgentsLeave(t *testing.T) {
	all := three(t)
	first, third := all[0], all[2]
	n := elsewhere(t, "far", first.rpc(1))
	n.append("leave_on_terminate = true\n")
	first.joinToken(n)
	n.launch()
	far := first.ready("far")
	first.run(fmt.Sprintf(quick, "task", "far"))
	pid := first.pid(first.running("task", 1)[0].ID, "t", "/bin/sleep")
	n.terminate(syscall.SIGTERM)
	if !n.logged("this node does not leave", "runs on") {
		t.Error("a node that leaves a task behind does not say so")
	}
	first.alive("its agent was stopped", pid)
	n.launch()
	n.eventually("it to be registered", func() bool { return n.logged("the node is registered") })
	first.stopJob("task")
	first.mustCLI("system", "gc")
	n.eventually("it to hold nothing", func() bool { // its answer comes after what it had to do
		s, err := first.api.Nodes().Stats(t.Context(), far.ID, nil)
		return err == nil && s.Uptime > 0
	})
	n.terminate(syscall.SIGTERM)
	await(first, "the node to have left", first.api.Nodes().List, func(list []*api.NodeListStub) bool {
		return slices.ContainsFunc(list, func(s *api.NodeListStub) bool {
			return s.ID == far.ID && s.Status == api.NodeStatusDown && s.StatusDescription == "its agent has left"
		})
	})

	for _, m := range all {
		m.append("leave_on_interrupt = true\n")
		m.kill()
		m.launch()
		m.answers()
		m.voters(3, 0)
	}
	third.terminate(syscall.SIGTERM)
	third.launch()
	third.answers()
	leads := first.voters(3, 0)
	at := slices.Index([]string{"s1.global", "s2.global", "s3.global"}, leads)
	leader := all[at]
	rest := slices.Delete(slices.Clone(all), at, at+1)
	leader.terminate(syscall.SIGINT)
	if !leader.logged("this server has left the cluster, for good", leads) {
		t.Errorf("it does not say that it has left\n%s", leader.tail())
	}
	if now := rest[0].voters(2, 0); now == leads {
		t.Errorf("%s leads", now)
	}
	rest[0].terminate(syscall.SIGINT)
	rest[1].voters(1, 0)
	rest[1].terminate(syscall.SIGINT)
	if !rest[1].logged("this server stays one of the cluster", "it is the only one") {
		t.Error("the last one does not say that it stays")
	}
	rest[1].launch()
	rest[1].answers()
	rest[1].voters(1, 0)
}

// several is a cluster of so many servers without nodes that leave when they are terminated; the last ones have these
// data directories.
func several(t *testing.T, count int, dirs ...string) []*machine {
	t.Helper()
	var all []*machine
	for i := range count {
		m := prepare(t, false)
		m.service = true
		if n := i - count + len(dirs); n >= 0 {
			m.data = dirs[n]
		}
		text := fmt.Sprintf("name = \"s%d\"\nleave_on_terminate = true\napi { socket = %q }\nacl { enabled = false }\n",
			i+1, m.socket()) + fmt.Sprintf(listens, 11+i, m.port)
		if i == 0 {
			text += "server { enabled = true }\n"
		} else {
			text += fmt.Sprintf("server {\n enabled = true\n server_join { retry_join = [%q] }\n"+
				" join_token_file = %q\n}\n", all[0].rpc(1), m.token())
		}
		must(t, os.WriteFile(filepath.Join(m.root, "agent.hcl"), []byte(text), 0o600))
		if i > 0 {
			all[0].joinToken(m, "-role", "server")
		}
		m.launch()
		m.answers()
		all = append(all, m)
		all[0].voters(i+1, 0)
		if i == 0 { // else each one that joins would be watched for ten seconds before it votes
			m.mustCLI("operator", "autopilot", "set-config", "-server-stabilization-time", "200ms")
		}
	}
	return all
}

// TestClusterServersThatAreTerminatedTogetherComeBack: given servers that leave when they are terminated, when all are
// at once, while namespaces are made, and are started again, then a majority of those that were there is one yet, one
// of them leads, and every namespace that was acknowledged is there.
func TestClusterServersThatAreTerminatedTogetherComeBack(t *testing.T) {
	long(t)
	for _, count := range []int{3, 3, 5, 5} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			all := several(t, count)
			var acknowledged []string
			var mu sync.Mutex
			var load sync.WaitGroup
			for i, m := range all {
				load.Go(func() {
					for n := 0; ; n++ {
						name := fmt.Sprintf("n-%d-%d", i, n)
						if m.api.Cluster().PutNamespace(t.Context(), &api.Namespace{Name: name}) != nil {
							return
						}
						mu.Lock()
						acknowledged = append(acknowledged, name)
						mu.Unlock()
					}
				})
			}
			all[0].eventually("something to be acknowledged", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(acknowledged) > 20
			})
			for _, m := range all {
				must(t, m.cmd.Process.Signal(syscall.SIGTERM))
			}
			var back []*machine
			for _, m := range all {
				m.leaves()
				if !m.logged("this server has left the cluster, for good") {
					back = append(back, m)
				}
			}
			load.Wait()
			if len(back)*2 <= count {
				t.Errorf("of %d servers %d stay", count, len(back))
			}
			for _, m := range back {
				m.launch()
			}
			for _, m := range back {
				m.answers()
			}
			back[0].voters(len(back), 0)
			list, _, err := back[0].api.Cluster().Namespaces(t.Context(), nil)
			must(t, err)
			for _, name := range acknowledged {
				if !slices.ContainsFunc(list, func(n *api.Namespace) bool { return n.Name == name }) {
					t.Errorf("namespace %s was acknowledged and is lost", name)
				}
			}
			t.Logf("%d of %d servers stay, %d namespaces", len(back), count, len(acknowledged))
		})
	}
}
