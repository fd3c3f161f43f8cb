package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/testkit/freeport"
)

// sharing answers each connection with the id of its allocation, at a port that others have, too.
const sharing = `use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ENV{NOMAD_PORT_http}, Listen => 9,
  ReuseAddr => 1, ReusePort => 1) or die "$!";
while (my $c = $s->accept) { print $c "$ENV{NOMAD_ALLOC_ID}\n"; close $c }`

const shared = `
job "shared" {
  group "web" {
    count = %d
    network {
      port "http" {
        static           = %d
        ignore_collision = %t
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
}`

// TestAllocsOfAJobShareAStaticPort: given a job whose port says that collisions are to be ignored, then two allocs of
// it have the port on one node, and both are reached there. Without that one of them has no place.
func TestAllocsOfAJobShareAStaticPort(t *testing.T) {
	m := newMachine(t, false)
	port := freeport.Pick(t)
	m.run(fmt.Sprintf(shared, 2, port, false, sharing))
	m.eventually("one of two that would have a port alone is refused", func() bool {
		evals, _, err := m.api.Jobs().Evaluations(t.Context(), "shared", nil)
		must(t, err)
		for _, e := range evals {
			if f := e.FailedTGAllocs["web"]; f != nil && f.DimensionExhausted["network: port collision http"] > 0 {
				return true
			}
		}
		return false
	})
	m.stopJob("shared")
	m.run(fmt.Sprintf(shared, 2, port, true, sharing))
	answered := map[string]bool{}
	m.eventually("both answer", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		defer c.Close()
		b := make([]byte, 64)
		if n, err := c.Read(b); err == nil {
			answered[strings.TrimSpace(string(b[:n]))] = true
		}
		return len(answered) == 2
	})
	for _, a := range m.now("shared") {
		if answered[a.ID] && a.ClientStatus != api.AllocClientStatusRunning {
			t.Errorf("alloc %s answers and is %s", a.ID, a.ClientStatus)
		}
	}
	m.stopJob("shared")
}
