package shim

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/shimproto"
)

// TestAnUnreadAnswerIsNone: given the answer to a launch, when the agent hangs up, then the launch is given up if the
// answer was never read, and nobody else has the handle; else it holds.
func TestAnUnreadAnswerIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		reads, others, ended, gone bool // gone: it hangs up before the answer is written
		givenUp                    bool
	}{
		"read":                       {reads: true},
		"unread":                     {givenUp: true},
		"gone":                       {gone: true, givenUp: true},
		"unread, with another agent": {others: true},
		"unread, and it has ended":   {ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := lifecycle.NewGroup(t.Context())
			p := attemptOf("web", 1)
			p.shim = &Shim{group: g}
			p.state.wanting = 1
			if c.others {
				p.state.wanting++
			}
			if c.ended {
				close(p.ended)
			}
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			agent := os.NewFile(uintptr(pair[1]), "agent")
			if c.gone {
				if err := agent.Close(); err != nil {
					t.Fatal(err)
				}
			}
			here := &conn{shim: p.shim, file: os.NewFile(uintptr(pair[0]), "shim")}
			defer here.file.Close()
			result := make(chan error, 1)
			go func() { result <- here.handOver(p, &shimproto.Launched{PID: 1}, here.hangup()) }()
			if !c.gone {
				hear(t, agent, c.reads)
			}
			err = <-result
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			if isClosed(p.abandoned) != c.givenUp {
				t.Errorf("given up: %v, %v", isClosed(p.abandoned), err)
			}
			if lost := fault.Has(err, fault.Canceled); lost == c.reads || err != nil && !lost {
				t.Errorf("the conversation ended with %v", err)
			}
		})
	}
}

// hear waits for an answer, reads it or not, and hangs up.
func hear(t *testing.T, agent *os.File, reads bool) {
	t.Helper()
	raw, err := agent.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK)
		return !errors.Is(err, unix.EAGAIN)
	})
	if err == nil && reads {
		_, _, err = shimproto.Read(agent)
	}
	if err := errors.Join(err, agent.Close()); err != nil {
		t.Fatal(err)
	}
}
