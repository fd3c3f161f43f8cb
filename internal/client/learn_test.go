package client_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"berth/internal/client"
	"berth/internal/model/trust"
)

// TestANodeLearnsWhereTheServersAre: with its registration, and with the next heartbeat when others have joined. What
// could not be remembered comes again.
func TestANodeLearnsWhereTheServersAre(t *testing.T) {
	r := newRig(t)
	one := []trust.ServerAt{{Name: "s1", Address: "10.0.0.1:4647", Key: "k1"}}
	two := append(slices.Clone(one), trust.ServerAt{Name: "s2", Address: "10.0.0.2:4647", Key: "k2"})
	var mu sync.Mutex
	var known []trust.ServerAt
	failures := 1
	r.tune = func(c *client.Config) {
		c.Learn = func(all []trust.ServerAt, _ uint64) error {
			mu.Lock()
			defer mu.Unlock()
			if len(all) == 0 {
				return nil
			}
			if failures > 0 {
				failures--
				return errors.New("the disk is full")
			}
			known = all
			return nil
		}
	}
	knows := func(want []trust.ServerAt) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Equal(known, want)
		}
	}
	r.servers.change(func() { r.servers.members = one })
	agent := r.start()
	<-agent.Registered()
	eventually(t, "it to know the server", knows(one))
	r.servers.change(func() { r.servers.members = two })
	eventually(t, "it to know both", knows(two))
	r.servers.change(func() { r.servers.members = nil }) // as those of an older version say
	_, n := r.servers.started()
	r.servers.change(func() { r.servers.again = true })
	eventually(t, "it to register again", func() bool { _, now := r.servers.started(); return now > n })
	if !knows(two)() {
		t.Error("it forgot the servers where an answer named none")
	}
}
