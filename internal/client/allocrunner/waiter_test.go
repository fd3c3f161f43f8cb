package allocrunner_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/port/driver"
)

// ofNetwork is a hook that waits for a network.
type ofNetwork struct{ *scripted }

func (ofNetwork) WaitingEvent() string { return alloc.EventNetworkWaiting }

// Given a node whose subnet is full, then an alloc is said to wait for its network, and not for its storage: in an
// event and in its description; and when a task that has run waits for it, that it is there is said, too.
func TestWhatWaitsForItsNetworkSaysSo(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		var free atomic.Bool
		b.hooks = append(b.hooks, ofNetwork{&scripted{
			name: "network",
			b:    b,
			pre: func(context.Context, *hook.Alloc) error {
				if free.Load() {
					return nil
				}
				return fault.New(fault.Exhausted, "connect", "it to bridge \"berth\"", "the subnet is full")
			},
		}})
		b.start()
		b.after(time.Minute)
		b.status(alloc.ClientPending)
		if got := b.r.Report().ClientDescription; !strings.Contains(got, "berth") {
			t.Errorf("while waiting: %q", got)
		}
		if n, of := len(b.events("db", alloc.EventNetworkWaiting)), b.events("db", alloc.EventStorageWaiting); n != 1 ||
			len(of) != 0 {
			t.Errorf("%d events of the network, of storage %q", n, of)
		}
		free.Store(true)
		b.after(time.Minute)
		b.status(alloc.ClientRunning)
		b.end()
		free.Store(false)
		b.start()
		b.mock.Exit("db", driver.ExitResult{ExitCode: 1})
		b.after(2 * time.Minute)
		free.Store(true)
		b.after(time.Minute)
		b.status(alloc.ClientRunning)
		if got := b.events("db", alloc.EventNetworkReady); len(got) != 1 {
			t.Errorf("it runs, and of its network is said %q", got)
		}
		b.end()
	})
}
