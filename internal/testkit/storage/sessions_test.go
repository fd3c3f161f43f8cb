package storage

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/localstate"
	"berth/internal/model/volume"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
)

// cloneOf makes a node of a copy of another's store, on another machine. Its agent does not run yet, nor does the
// original's.
func (c *cluster) cloneOf(m *member) *member {
	c.t.Helper()
	clone := &member{
		c:      c,
		p:      m.p,
		dir:    c.t.TempDir(),
		driver: mock.New(),
		boot:   "boot of the clone",
		remote: true,
		other:  "another machine",
	}
	clone.driver.Capabilities.Mounts = driver.MountAll
	for _, name := range []string{"client", "client.identity"} {
		if out, err := exec.Command("cp", "-a", filepath.Join(m.dir, name), clone.dir).CombinedOutput(); err != nil {
			c.t.Fatalf("%v: %s", err, out)
		}
	}
	store, err := localstate.Open(filepath.Join(clone.dir, "client"))
	if err == nil {
		// On its machine the directory has the same name.
		err = errors.Join(store.PutHome(clone.dir, nil), store.Close())
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.watch.joins(clone)
	return clone
}

// TestAClonedNodeIsNotObeyedBesideTheLivingOne: one alloc runs once, and its volume is published once, whoever of the
// two comes first, and whatever the clone holds for its own.
func TestAClonedNodeIsNotObeyedBesideTheLivingOne(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	m.remote = true // from now on: a node of its own machine
	c.runJob("a", "db", volume.SingleNodeWriter)
	a := c.running("a")
	m.stop()
	clone := c.cloneOf(m)
	clone.start("clone")
	t.Cleanup(clone.stop)
	time.Sleep(time.Second) // it asks several times; the original was heard a moment ago
	select {
	case <-clone.client.Registered():
		t.Fatal("a clone was obeyed right after the original was heard")
	default:
	}
	m.start("one")
	eventually(t, "the original is obeyed again", m.client.Armed)
	eventually(t, "the clone is refused", func() bool { return clone.client.Refusal() != nil })
	if err := clone.client.Refusal(); !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "clone (") ||
		!strings.Contains(err.Error(), "one (") || !strings.Contains(err.Error(), "reboot-confirm") {
		t.Errorf("the refusal names both agents and the way out: %v", err)
	}
	c.mustCreate("other", p, volume.SingleNodeWriter)
	c.runJob("b", "other", volume.SingleNodeWriter) // whatever comes goes to the original alone
	c.running("b")
	if n := count(p, "NodePublishVolume") + count(p, "NodePublish"); n != 2 || len(clone.driver.Alive()) != 0 ||
		clone.client.Armed() {
		t.Errorf("%d publications of two; the clone runs %v, armed %t", n, clone.driver.Alive(), clone.client.Armed())
	}
	if now := c.running("a"); now.ID != a.ID || !slices.Contains(m.driver.Alive(), "t.1") || m.client.Refusal() != nil {
		t.Errorf("the original does not go on: %s, alive %v, %v", now.ID, m.driver.Alive(), m.client.Refusal())
	}
	if s := c.s.Store().Snapshot().Session(nil, m.client.ID()); s.Doubted() != "" {
		t.Errorf("a copy that was never obeyed puts nothing in doubt: %s", s.Doubted())
	}
	c.stopJob("a")
	c.stopJob("b")
	c.atRest(p)
}
