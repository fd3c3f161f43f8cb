package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServersThatComeBack: given three servers, when one comes back under its name without what it had, then it is
// refused, and hears what to do; with what it had it votes again. When one comes back that was removed while it was
// off, then it says so and ends, and the one that leads goes on. When all were off and one starts alone, then it waits
// for another, and they go on together.
func TestServersThatComeBack(t *testing.T) {
	all := three(t)
	first := all[0]
	second, third := all[1], all[2]

	second.kill()
	dir := filepath.Join(second.data, "server")
	must(t, os.Rename(dir, dir+".old"))
	first.joinToken(second, "-role", "server")
	second.launch()
	second.eventually("it to be refused", func() bool {
		return second.logged("level=WARN", "with another key", "join under another name")
	})
	second.kill()
	must(t, os.Remove(second.token()))
	must(t, os.RemoveAll(dir))
	must(t, os.Rename(dir+".old", dir))
	second.launch()
	second.answers()
	first.voters(3, 0)

	third.kill()
	first.mustCLI("server", "force-leave", "s3.global")
	leads := first.voters(2, 0)
	third.launch()
	if err := <-third.done; err == nil {
		t.Error("an agent whose server was removed while it was off ends as if it were well")
	}
	third.cmd = nil
	if !third.logged("it was removed on", "give it another name") {
		t.Error("the server that was removed while it was off does not say so")
	}
	if now := first.voters(2, 0); now != leads {
		t.Errorf("%s leads, and before the one that was removed came back it was %s", now, leads)
	}

	first.kill()
	second.kill()
	second.launch()
	second.eventually("it to stand for leader in vain", func() bool {
		return second.logged("failed to make requestVote RPC", "s1.global")
	})
	select {
	case err := <-second.done:
		t.Fatalf("a server that starts alone ends: %v", err)
	default:
	}
	first.launch()
	second.answers()
	second.voters(2, 0)
}

// TestANodeFindsTheServersThatJoined: given a node that is configured with the only server, when two others join and
// the first one is killed, then the node goes on with the others, without a word of a person.
func TestANodeFindsTheServersThatJoined(t *testing.T) {
	first := begins(t)
	first.start()
	n := elsewhere(t, "far", first.rpc(1))
	first.joinToken(n)
	n.launch()
	first.ready("far")
	var all []*machine
	for i := 2; i <= 3; i++ {
		m := joins(t, i, first.rpc(1))
		first.joinToken(m, "-role", "server")
		m.launch()
		m.answers()
		first.voters(i, 0)
		all = append(all, m)
	}
	n.eventually("the node to know all servers", func() bool {
		text, err := os.ReadFile(filepath.Join(n.data, "client", "credentials.json"))
		must(t, err)
		for i, m := range all {
			if !strings.Contains(string(text), m.rpc(i+2)) {
				return false
			}
		}
		return true
	})
	first.kill()
	all[0].voters(3, 1)
	all[0].run(fmt.Sprintf(quick, "new", "far"))
	all[0].running("new", 1)
	first.launch()
	first.answers()
	first.voters(3, 0)
	first.stopJob("new")
}
